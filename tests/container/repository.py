"""A stand-in for NVIDIA's apt repository, which cannot be counted on in a test.

It has the same shape, is signed with a key of its own, and goes with an `/etc/os-release` that says
Ubuntu. Its package has the layout of NVIDIA's; the nsys in it writes an empty report.
"""

MAKE_REPOSITORY = r"""
set -eu
apt-get -qq update
apt-get -qq install --no-install-recommends ca-certificates gpg gpg-agent >/dev/null
repository=/repository/devtools/repos/ubuntu2404/amd64
keys=/repository/compute/cuda/repos/ubuntu1804/x86_64
root=/opt/nvidia/nsight-systems-cli/2025.6.1
mkdir -p "$repository" "$keys" /tmp/package/DEBIAN /tmp/package/usr/local/bin
mkdir -p /tmp/package$root/bin /tmp/package$root/target-linux-x64 /tmp/package$root/host-linux-x64
cat >/tmp/package$root/target-linux-x64/nsys <<'EOF'
#!/bin/sh
case $1 in
    --version) echo "NVIDIA Nsight Systems version 2025.6.1.190-256136895201v0" ;;
    profile)
        for option; do
            case $option in --output=*) echo report >"${option#--output=}.nsys-rep" ;; esac
        done
        ;;
esac
EOF
printf '#!/bin/sh\n' >/tmp/package$root/host-linux-x64/QdstrmImporter
chmod 755 /tmp/package$root/*/*
ln -s ../target-linux-x64/nsys /tmp/package$root/bin/nsys
ln -s $root/bin/nsys /tmp/package/usr/local/bin/nsys
cat >/tmp/package/DEBIAN/control <<'EOF'
Package: nsight-systems-cli-2025.6.1
Version: 2025.6.1.190-256136895201v0
Architecture: amd64
Maintainer: nobody <nobody@localhost>
Description: stands in for NVIDIA's
EOF
dpkg-deb --build /tmp/package "$repository/nsys.deb" >/dev/null
cd "$repository"
{
    cat /tmp/package/DEBIAN/control
    echo "Filename: ./nsys.deb"
    echo "Size: $(stat -c %s nsys.deb)"
    echo "SHA256: $(sha256sum nsys.deb | cut -d' ' -f1)"
} >Packages
{
    echo "Date: $(date -Ru)"
    echo "SHA256:"
    echo " $(sha256sum Packages | cut -d' ' -f1) $(stat -c %s Packages) Packages"
} >Release
gpg --batch --quiet --passphrase '' --quick-generate-key tester rsa3072 default never
gpg --batch --quiet --clearsign --output InRelease Release
gpg --armor --export tester >"$keys/7fa2af80.pub"
gpg --list-keys --with-colons tester |
    awk -F: '$1 == "fpr" { print $10; exit }' >/repository/fingerprint
cat >/repository/os-release <<'EOF'
PRETTY_NAME="Ubuntu 24.04"
NAME="Ubuntu"
VERSION_ID="24.04"
ID=ubuntu
EOF
"""
