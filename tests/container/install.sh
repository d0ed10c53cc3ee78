#!/usr/bin/env bash
# Installs what `make test-image` needs on Debian or Ubuntu, where it is missing: Podman to build and
# run images, mmdebstrap to make the Debian that they are built on.
set -euo pipefail

fail() {
    printf 'tests/container: error: %s\ntests/container:   next: %s\n' "$1" "$2" >&2
    exit 2
}

[ "$EUID" -eq 0 ] || fail "the images are built and used as several users, which takes root" \
    "sudo make test-image"
packages=()
command -v podman >/dev/null || packages+=(podman runc netavark catatonit iptables)
command -v mmdebstrap >/dev/null || packages+=(mmdebstrap debian-archive-keyring)
[ ${#packages[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null || fail "not installed: ${packages[*]}" "install them by hand; this script knows apt-get"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || fail "apt-get update failed" "look at the lines above"
apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
    fail "apt-get could not install ${packages[*]}" "look at the lines above"
