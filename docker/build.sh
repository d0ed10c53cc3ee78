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
        analysis | notebook) ;;
        lab)
            [ "$(uname -m)" = x86_64 ] || [[ ${EXTRA_BUILD_ARGS:-} == *BASE_IMAGE=* ]] ||
                fail 2 "PyTorch's image with CUDA is for x86_64, and this machine is $(uname -m)" \
                    "sudo docker/install-nsys.sh, then RUNNER=host; or a base of your own: EXTRA_BUILD_ARGS='--build-arg BASE_IMAGE=...'"
            ;;
        *) fail 2 "there is no image $image" "docker/build.sh lab, analysis or notebook" ;;
    esac
done
find_engine || fail 2 "no container engine: $no_engine" "$no_engine_hint"
options=()
if ! is_podman "$engine"; then
    # A part of its own of Docker's packages; the old builder knows no secrets.
    "$engine" buildx version >/dev/null 2>&1 ||
        fail 2 "$engine has no buildx to build with" "install docker-buildx-plugin (Docker's packages) or docker-buildx (Debian's and Ubuntu's)"
    # Builders other than the default one keep what they build to themselves.
    options+=(--load)
fi
# Words of the caller's: split, not globbed.
set -f
# shellcheck disable=SC2206
options+=(${EXTRA_BUILD_ARGS:-})
set +f
for image in "$@"; do
    say "building $(image_name "$image") with $engine"
    "$engine" build --file docker/Dockerfile --target "$image" --tag "$(image_name "$image")" \
        --label "org.nsys-lab.sources=$(sources_hash)" "${options[@]}" . ||
        fail 4 "$engine could not build $image" "look at the lines above; a build needs the network and some 15 GB of disk (df -h)"
done
