#!/usr/bin/env bash
# Builds the lab's images: docker/build.sh [lab|analysis|notebook ...]   (default: lab analysis)
#
#   ENGINE=docker|podman     the engine, if both are there
#   LAB_IMAGES=prefix        of the images' names, localhost/nsys-lab if not set
#   EXTRA_BUILD_ARGS="..."   more options for `docker build`, such as
#                            --build-arg NSYS_VERSION=2025.5.1
#                            --secret id=pip.conf,src=$HOME/.config/pip/pip.conf   (a package mirror)
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. docker/engine.sh

[ $# -gt 0 ] || set -- lab analysis
for image in "$@"; do
    case $image in
        lab | analysis | notebook) ;;
        *) fail 2 "there is no image $image" "docker/build.sh lab, analysis or notebook" ;;
    esac
done
find_engine || fail 2 "no container engine: $no_engine" "$no_engine_hint"
# A part of its own of Docker's packages; without it Docker has the old builder, which knows no secrets.
is_podman "$engine" || "$engine" buildx version >/dev/null 2>&1 ||
    fail 2 "$engine has no buildx to build with" "install docker-buildx-plugin (Docker's packages) or docker-buildx (Debian's and Ubuntu's)"

# Words of the caller's: split, not globbed.
set -f
# shellcheck disable=SC2206
extra=(${EXTRA_BUILD_ARGS:-})
set +f
for image in "$@"; do
    say "building $(image_name "$image") with $engine"
    "$engine" build --file docker/Dockerfile --target "$image" --tag "$(image_name "$image")" \
        --label "org.nsys-lab.sources=$(sources_hash)" "${extra[@]}" . ||
        fail 4 "$engine could not build $image" "look at the lines above; a build needs the network and some 15 GB of disk (df -h)"
done
