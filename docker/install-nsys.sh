#!/usr/bin/env bash
# Installs the Nsight Systems command line (nsys) with its importer, and proves that it records.
#
#   docker/install-nsys.sh                     what fits this system (below)
#   docker/install-nsys.sh --version 2025.6.1  this version, or an error that says what there is
#
# Ubuntu: the CLI package of NVIDIA's devtools repository, by default in the version that
#         docker/Dockerfile pins (ARG NSYS_VERSION).
# Debian: the release's own package of the non-free component (bookworm 2022.4.2, trixie 2023.4.4),
#         the GUI included, with the importer and the statistics modules put where nsys looks.
#
# Needs root and bash. Run it again as often as you like: what is in place is left alone, and your
# apt sources are never changed. It succeeds only after nsys has recorded a program into a .nsys-rep.
#
# Exit codes: 0 nsys records; 2 bad usage, or a system it does not know; 4 an installation or the
# proof failed.
set -euo pipefail

NVIDIA_REPOSITORY=${NVIDIA_REPOSITORY:-https://developer.download.nvidia.com}
# The key is the one of NVIDIA's installation guide; whatever the server sends, only this is trusted.
KEY_PATH=compute/cuda/repos/ubuntu1804/x86_64/7fa2af80.pub
KEY_FINGERPRINT=${NVIDIA_KEY_FINGERPRINT:-AE09FE4BBD223A84B2CCFCE3F60F4B3D7FA2AF80}

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
export DEBIAN_FRONTEND=noninteractive

say() { printf 'install-nsys: %s\n' "$*" >&2; }

# fail CODE MESSAGE HINT
fail() {
    say "error: $2"
    say "  next: $3"
    exit "$1"
}

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }

version=
while [ $# -gt 0 ]; do
    case $1 in
        --version)
            [ -n "${2:-}" ] || fail 2 "--version needs a value" "docker/install-nsys.sh --version 2025.6.1"
            version=$2
            shift 2
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) fail 2 "unknown argument: $1" "docker/install-nsys.sh --help" ;;
    esac
done
# The version becomes part of a package's name.
case $version in
    *[!0-9.]*) fail 2 "not a version: $version" "give it as digits and dots, such as 2025.6.1" ;;
esac

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
# apt fetches as the user _apt, who must get in.
chmod 755 "$work"
mkdir "$work/sources"

# apt-get, apt-cache with sources of our own, so that the system's stay as they are.
apt_options=()
apt_get() { apt-get -q "${apt_options[@]}" -o Dpkg::Use-Pty=0 "$@"; }

# use_own_sources: from here on apt reads the files in $work/sources and nothing else.
use_own_sources() {
    mkdir -p "$work/lists/partial"
    apt_options=(
        -o "Dir::Etc::SourceList=/dev/null"
        -o "Dir::Etc::SourceParts=$work/sources"
        -o "Dir::State::Lists=$work/lists"
        # With the same cache file apt would mix these lists with the system's.
        -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache="
    )
}

# update [HINT]
update() {
    apt_get update >"$work/update.log" 2>&1 || {
        cat -- "$work/update.log" >&2
        fail 4 "apt-get update failed" "look at the lines above; ${1:-behind a proxy, apt needs http_proxy}"
    }
}

install_packages() {
    apt_get install --yes --no-install-recommends "$@" >"$work/install.log" 2>&1 || {
        tail -n 20 -- "$work/install.log" >&2
        fail 4 "apt-get could not install $*" "look at the lines above; 'df -h /' tells whether the disk is full"
    }
}

candidate() { apt-cache "${apt_options[@]}" policy "$1" | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'; }

# installed_version NSYS: such as 2025.6.1.190
installed_version() { "$1" --version 2>/dev/null | grep -oE '[0-9]{4}(\.[0-9]+){2,}' | head -n 1; }

# matches HAVE WANTED: 2025.6.1.190 is a 2025.6.1 and a 2025.6, and not a 2025.61
matches() { case $1. in "$2".*) ;; *) return 1 ;; esac; }

install_on_debian() {
    # The mirror that the system uses for this release, so that a local one is used here too.
    local mirror
    mirror=$(apt-get indextargets --format "\$(CODENAME)|\$(RELEASE)|\$(COMPONENT)|\$(REPO_URI)" "Created-By: Packages" |
        awk -F'|' -v release="$VERSION_CODENAME" '($1 == release || $2 == release) && $3 == "main" { print $4; exit }')
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main contrib non-free\n' \
        "${mirror:-http://deb.debian.org/debian}" "$VERSION_CODENAME" >"$work/sources/non-free.list"
    use_own_sources
    update
    local offered
    offered=$(candidate nsight-systems)
    [ -n "$offered" ] || fail 2 "Debian $VERSION_CODENAME has no nsight-systems for $(dpkg --print-architecture)" \
        "install NVIDIA's own from https://developer.nvidia.com/nsight-systems/get-started"
    if [ -n "$version" ] && ! matches "$offered" "$version"; then
        fail 2 "Debian $VERSION_CODENAME has nsys $offered, not $version" \
            "leave --version out, or install NVIDIA's own from https://developer.nvidia.com/nsight-systems/get-started"
    fi
    # The package depends on libcuda1, which would divert the GL libraries and remove a driver that
    # came from NVIDIA's installer. libcuda.so.1 is the driver's: it is on a machine with a GPU, the
    # container toolkit puts it into a container, and a machine without a GPU needs none.
    local driver=()
    if ! dpkg-query --show --showformat='${db:Status-Status}' libcuda1 2>/dev/null | grep -qx installed; then
        stand_in_for_libcuda "$work/libcuda.deb"
        driver=("$work/libcuda.deb")
    fi
    say "installing nsight-systems $offered from Debian $VERSION_CODENAME non-free"
    install_packages "${driver[@]}" nsight-systems
}

# stand_in_for_libcuda FILE: an empty package that says the driver's library is somebody else's care.
stand_in_for_libcuda() {
    install -d "$work/libcuda/DEBIAN"
    cat >"$work/libcuda/DEBIAN/control" <<'EOF'
Package: nsys-lab-libcuda
Version: 1
Architecture: all
Maintainer: The nsys-lab developers <nobody@localhost>
Provides: libcuda.so.1 (= 9999)
Description: says that libcuda.so.1 comes from the NVIDIA driver
 An empty package. Installed by nsys-lab so that nsight-systems does not bring a driver library.
EOF
    dpkg-deb --build --root-owner-group "$work/libcuda" "$1" >/dev/null
}

# Debian's packages leave parts where their own nsys does not look.
mend_debian() {
    local host=/usr/lib/nsight-systems/host-linux-x64 target module
    for target in /usr/lib/*-linux-gnu/nsight-systems; do
        [ -d "$target" ] || continue
        # Without the importer nsys leaves a .qdstrm and no report.
        if [ -d "$host" ] && [ ! -e "$target/host-linux-x64" ]; then
            ln -s "$host" "$target/host-linux-x64"
            say "linked the importer into $target"
        fi
        # With it, nsys takes the reports and rules of that folder, whose modules are elsewhere.
        for module in "$target"/target-linux-x64/python/lib/{nsysstats,gpustats}.py; do
            if [ -d "$host/python/lib" ] && [ -e "$module" ] && [ ! -e "$host/python/lib/${module##*/}" ]; then
                ln -s "$module" "$host/python/lib/${module##*/}"
                say "linked ${module##*/} for nsys stats and nsys analyze"
            fi
        done
    done
}

install_on_ubuntu() {
    if [ -z "$version" ]; then
        version=$(sed -n 's/^ARG NSYS_VERSION=//p' "$here/Dockerfile" 2>/dev/null | head -n 1)
        [ -n "$version" ] || fail 2 "no version given, and no docker/Dockerfile beside the script to take it from" \
            "docker/install-nsys.sh --version 2025.6.1"
    fi
    local package=nsight-systems-cli-$version
    update
    install_packages ca-certificates gpg
    local repository
    repository=$NVIDIA_REPOSITORY/devtools/repos/ubuntu${VERSION_ID//./}/$(dpkg --print-architecture)/
    /usr/lib/apt/apt-helper -q download-file "$NVIDIA_REPOSITORY/$KEY_PATH" "$work/nvidia.asc" >"$work/key.log" 2>&1 || {
        cat -- "$work/key.log" >&2
        fail 4 "could not fetch NVIDIA's key from $NVIDIA_REPOSITORY/$KEY_PATH" "check the network; behind a proxy, apt needs https_proxy"
    }
    local fingerprints
    fingerprints=$(gpg --batch --show-keys --with-colons "$work/nvidia.asc" 2>/dev/null | awk -F: '$1 == "pub" { primary = 1 } $1 == "fpr" && primary { print $10; primary = 0 }')
    [ "$fingerprints" = "$KEY_FINGERPRINT" ] || fail 4 "the key from $NVIDIA_REPOSITORY is ${fingerprints:-no key}, not $KEY_FINGERPRINT" \
        "do not go on; compare with https://docs.nvidia.com/nsight-systems/InstallationGuide"
    gpg --batch --dearmor --output "$work/nvidia.gpg" "$work/nvidia.asc"
    chmod 644 "$work/nvidia.gpg"
    # The system's sources too, for what the package depends on, but not NVIDIA's repository if it is
    # among them: apt refuses to read one repository with two keys.
    local file
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        [ -s "$file" ] || continue
        case $file in
            *.list) grep -v /devtools/repos/ "$file" >"$work/sources/${file##*/}" || true ;;
            *) grep -q /devtools/repos/ "$file" || cp -- "$file" "$work/sources/" ;;
        esac
    done
    printf 'deb [signed-by=%s] %s /\n' "$work/nvidia.gpg" "$repository" >"$work/sources/nsys-lab-nvidia.list"
    use_own_sources
    update "NVIDIA has repositories for the LTS releases of Ubuntu; behind a proxy, apt needs https_proxy"
    [ -n "$(candidate "$package")" ] || fail 2 "$repository has no $package; it has $(apt-cache "${apt_options[@]}" pkgnames nsight-systems-cli- | sort -V | tail -n 6 | tr '\n' ' ')" \
        "give one of them: docker/install-nsys.sh --version VERSION"
    say "installing $package from $repository"
    install_packages "$package"
}

# The first nsys that is of the wanted version, on PATH or where NVIDIA's packages put it.
find_nsys() {
    local found
    while IFS= read -r found; do
        if [ -z "$version" ] || matches "$(installed_version "$found" || true)" "$version"; then
            printf '%s' "$found"
            return
        fi
    done < <(
        type -ap nsys || true
        find /opt/nvidia -path '*/bin/nsys' 2>/dev/null | sort -rV || true
    )
}

find_importer() {
    find -L "$(dirname -- "$(realpath -- "$1")")/.." /usr/lib/nsight-systems /opt/nvidia \
        -maxdepth 5 -name QdstrmImporter -type f 2>/dev/null | head -n 1 || true
}

missing_libraries() { ldd "$1" 2>/dev/null | awk '/not found/ { print $1 }' | sort -u; }

# The importer's usual missing libraries, by the package that has them.
mend_importer() {
    local importer=$1 packages=() library
    for library in $(missing_libraries "$importer"); do
        case $library in
            libdw.so.1) packages+=(libdw1) ;;
            libelf.so.1) packages+=(libelf1) ;;
            libssh.so.4) packages+=(libssh-4) ;;
        esac
    done
    [ ${#packages[@]} -eq 0 ] && return 0
    say "installing what the importer lacks: ${packages[*]}"
    update
    install_packages "${packages[@]}"
}

# What an nsys of before 2023.4 leaves when it is killed at the wrong moment (a waiting agent, a shared
# segment, a lock) keeps every later one from starting. It is cleared when nobody uses nsys; otherwise
# $in_use says who does, and all stays as it is.
in_use=
clear_what_is_left() {
    local nsys=$1 entry words agents=()
    in_use=
    for entry in /proc/[0-9]*; do
        mapfile -d '' -t words <"$entry/cmdline" || continue
        case ${words[0]:-} in
            nsys | */nsys | nsys-launcher | */nsys-launcher) ;;
            *) continue ;;
        esac
        if [[ " ${words[*]} " != *" --start-agent "* ]]; then
            in_use="process ${entry##*/}: ${words[*]:0:3}"
            return
        fi
        agents+=("${entry##*/}")
    done 2>/dev/null
    # A session that waits for its start or its end has an agent alone. Where the state is broken, the
    # question is not answered.
    if timeout --signal=KILL 10 "$nsys" sessions list 2>/dev/null | grep -q '^ *[0-9]'; then
        in_use="a session of nsys start or nsys launch"
        return
    fi
    say "nsys does not start, and nobody uses it: an earlier one was killed and left its state behind"
    say "removing that: /dev/shm/NSys-*, /tmp/nvidia/nsight_systems/*SessionManager*lock*${agents[*]:+, agents ${agents[*]}}"
    if [ ${#agents[@]} -gt 0 ] && ! kill -KILL "${agents[@]}" ||
        ! rm -f /dev/shm/NSys-* /tmp/nvidia/nsight_systems/*SessionManager*lock*; then
        fail 4 "what an nsys of another user left cannot be removed" "sudo docker/install-nsys.sh"
    fi
}

# The one thing that counts: a report in hand.
prove() {
    local nsys=$1 importer lacking attempt code
    # On a busy machine nsys 2022.4 now and then gives up at its start ("End of file").
    for attempt in 1 2 3; do
        code=0
        (cd "$work" && timeout --kill-after=5 60 "$nsys" profile --trace=osrt --sample=none --cpuctxsw=none \
            --force-overwrite=true --output="$work/proof" true) >"$work/proof.log" 2>&1 || code=$?
        [ "$code" -ne 0 ] || break
        # 124 and 137: it hangs.
        if [ "$code" -eq 124 ] || [ "$code" -eq 137 ] || grep -qE "^(Agent launcher failed|Session state is not found)" "$work/proof.log"; then
            [ "$attempt" -eq 3 ] || clear_what_is_left "$nsys"
            [ -z "$in_use" ] || attempt=3
        fi
        [ "$attempt" -eq 3 ] || continue
        cat -- "$work/proof.log" >&2
        [ -z "$in_use" ] || fail 4 "$nsys could not record 'true' while nsys is in use ($in_use)" "run this again when that has ended"
        fail 4 "$nsys could not record 'true'" "look at the lines above; nsyslab doctor tells what this machine can record"
    done
    [ -s "$work/proof.nsys-rep" ] && return 0
    cat -- "$work/proof.log" >&2
    importer=$(find_importer "$nsys")
    [ -n "$importer" ] || fail 4 "nsys recorded, and has no importer (QdstrmImporter) to make the report with" \
        "install the package that brings host-linux-x64"
    lacking=$(missing_libraries "$importer" | tr '\n' ' ')
    fail 4 "nsys recorded, and its importer made no report${lacking:+; it lacks $lacking}" \
        "run $importer on a .qdstrm to see why"
}

[ -r /etc/os-release ] || fail 2 "this is no Debian and no Ubuntu (/etc/os-release is missing)" \
    "install nsys from https://developer.nvidia.com/nsight-systems/get-started"
# shellcheck source=/dev/null
. /etc/os-release
case ${ID:-} in
    debian | ubuntu) ;;
    *) fail 2 "this is ${PRETTY_NAME:-an unknown system}; the script knows Debian and Ubuntu" \
        "install nsys from https://developer.nvidia.com/nsight-systems/get-started" ;;
esac

nsys=$(find_nsys)
if [ -z "$nsys" ]; then
    [ "$(id -u)" -eq 0 ] || fail 2 "installing packages needs root" "sudo docker/install-nsys.sh"
    "install_on_$ID"
    hash -r
    nsys=$(find_nsys)
    [ -n "$nsys" ] || fail 4 "the package is installed, and its nsys is neither on PATH nor in /opt/nvidia" "dpkg --listfiles tells where it went"
fi
if [ "$(id -u)" -eq 0 ]; then
    if [ "$ID" = debian ]; then mend_debian; fi
    importer=$(find_importer "$nsys")
    if [ -n "$importer" ]; then mend_importer "$importer"; fi
fi
prove "$nsys"
say "nsys $(installed_version "$nsys") records: $nsys"
