# Sourced by the scripts of this folder: messages, and the container engine of this machine.
# shellcheck shell=bash disable=SC2034

me=$(basename -- "$0" .sh)

say() { printf '%s: %s\n' "$me" "$*" >&2; }

# fail CODE MESSAGE HINT: codes as everywhere in the lab (2 usage or set-up, 4 another tool failed).
fail() {
    say "error: $2"
    say "  next: $3"
    exit "$1"
}

image_name() { printf '%s/%s' "${LAB_IMAGES:-localhost/nsys-lab}" "$1"; }

# What an image is built from, but for the workloads, which are mounted.
sources_hash() {
    find analysis docker/Dockerfile docker/{install-*,write-sbom}.sh requirements/*.txt pyproject.toml -type f ! -name '*.pyc' -print0 | LC_ALL=C sort -z |
        xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

# is_podman ENGINE: podman also comes under the name docker.
is_podman() { "$1" --version 2>/dev/null | grep -qi podman; }

# answers ENGINE: what it says when it does not answer is left in $silence.
answers() {
    silence=$(timeout 20 "$1" info 2>&1 >/dev/null) && return 0
    silence=$(printf '%s\n' "$silence" | grep -iE 'error|denied|cannot|connect' | head -n 1)
    return 1
}

# Sets $engine to the one that answers ($ENGINE, else docker, else podman); otherwise returns 1 with
# the reason in $no_engine and the cure in $no_engine_hint.
find_engine() {
    local candidate reasons=()
    no_engine_hint=
    for candidate in ${ENGINE:-docker podman}; do
        if ! command -v "$candidate" >/dev/null; then
            reasons+=("$candidate is not installed")
        elif answers "$candidate"; then
            engine=$candidate
            return 0
        else
            reasons+=("$candidate does not answer (${silence:-it said nothing})")
            case $candidate:$silence in
                docker:*"ermission denied"*) : "${no_engine_hint:="sudo usermod -aG docker \$USER, then log in again"}" ;;
                docker:*) : "${no_engine_hint:="start it: sudo systemctl start docker"}" ;;
                *) : "${no_engine_hint:="$candidate info tells why"}" ;;
            esac
        fi
    done
    : "${no_engine_hint:="install Docker (https://docs.docker.com/engine/install) or Podman"}"
    no_engine=$(printf '%s; ' "${reasons[@]}")
    no_engine=${no_engine%; }
    return 1
}
