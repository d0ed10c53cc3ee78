#!/usr/bin/env bash
# Runs a command of the lab where it can run: docker/run.sh [--image NAME] nsyslab profile d2h_async
#
# In the container where docker or podman answers, else on this machine where nsys is found (what
# needs no nsys, such as `nsyslab run`, needs none), else it says what is missing.
#
#   --image NAME             lab (default), analysis or notebook; the last two are never run on the
#                            host, and without a command do what they are for
#   RUNNER=container|host    where, instead of the first that fits
#   ENGINE=docker|podman     the engine, if both are there
#   LAB_IMAGES=prefix        of the images' names, localhost/nsys-lab if not set
#   ENGINE_ARGS="..."        more options for `docker run`, such as --volume $HOME/data:/data
#   LAB_SHM_SIZE=32g         shared memory of the container
#   NSYSLAB=/path/to/nsyslab on this machine, instead of installing the workloads into .venv
#   NOTEBOOK_PORT=9999       where the notebook is on 127.0.0.1, instead of 8888
#
# reports/ and workloads/ of this checkout are mounted, and the caller owns what is written. With
# --sample among the command's options the container gets CAP_PERFMON, else no capability at all.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. docker/engine.sh

image=lab
if [ "${1:-}" = --image ]; then
    image=${2:-}
    shift 2 || fail 2 "--image needs a name" "docker/run.sh --image lab COMMAND"
fi
case $image in
    lab | analysis | notebook) ;;
    *) fail 2 "there is no image $image" "lab, analysis or notebook" ;;
esac
[ $# -gt 0 ] || [ "$image" != lab ] || fail 2 "no command given" "docker/run.sh nsyslab list"

# Whether the command is one that records.
records=1
case "${1:-} ${2:-}" in
    "nsyslab profile" | "nsyslab ladder") ;;
    *) records= ;;
esac

# nsys as nsyslab looks for it: NSYS, PATH, NVIDIA's folders.
find_nsys() {
    if [ -n "${NSYS:-}" ]; then
        [ -x "$NSYS" ] && printf '%s\n' "$NSYS"
        return
    fi
    command -v nsys && return
    find /opt/nvidia /usr/local/cuda*/bin -name nsys \( -type f -o -type l \) -perm -u+x 2>/dev/null | sort -V | tail -n 1
}

on_host() {
    say "on this machine (no container)"
    if [ -n "$records" ]; then
        note_noexec "${TMPDIR:-/tmp}" "TMPDIR=\$HOME/tmp gives the program another"
        [[ " $* " != *" --sample "* ]] || [ "$(id -u)" -eq 0 ] || sampling_is_open
        note_noexec reports "nsys works beside the recording; ARGS='-o FOLDER' puts both elsewhere"
    fi
    if [ -n "${NSYSLAB:-}" ] && [ "$1" = nsyslab ]; then
        shift
        exec "$NSYSLAB" "$@"
    fi
    make --no-print-directory --silent host-environment
    PATH=$PWD/.venv/bin:$PATH exec "$@"
}

# note_noexec FOLDER CURE: hardened machines mount /tmp so. Not every nsys and program minds.
note_noexec() {
    case ,$(findmnt --noheadings --output OPTIONS --target "$1" 2>/dev/null || true), in
        *,noexec,*) say "note: $1 is mounted noexec: nothing can be started from there ($2)" ;;
    esac
}

# What the engine says in the cases that a fresh GPU machine meets. Podman and, since version 29, Docker
# find GPUs by descriptions (CDI) that the toolkit writes, older ones by its runtime.
explain() {
    local said spec describe="sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    said=$(<"$1")
    is_podman "$engine" || describe+=" && sudo systemctl restart docker"
    case $said in
        *"stat nvidia.com/gpu=all: no such file"*)
            fail 4 "$("$engine" --version) cannot give a container the GPU" "Podman 4.1 or newer can, and Docker" ;;
        *"could not select device driver"* | *"GPU vendor from CDI"* | *"AMD CDI spec not found"* | *"unresolvable CDI devices"* | *"invalid runtime name: nvidia"* | *nvidia-container-runtime*"o such file"*)
            spec=$(grep -ls additionalGids /etc/cdi/nvidia.yaml /var/run/cdi/nvidia.yaml | head -n 1 || true)
            if [ -n "$spec" ] && is_podman "$engine"; then
                fail 4 "$("$engine" --version) does not understand $spec (CDI 0.7 needs Podman 5.1)" \
                    "sudo nvidia-ctk cdi generate --feature-flag no-additional-gids-for-device-nodes --output=$spec"
            fi
            [[ $said == *CDI* ]] || describe="sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
            fail 4 "$engine cannot give a container the GPU: the NVIDIA container toolkit is missing or not set up" \
                "install it (https://docs.nvidia.com/datacenter/cloud-native/container-toolkit), then: $describe" ;;
        *"unsatisfied condition: cuda"*)
            driver_too_old ;;
        *"failed to add device rules"* | *"devices.allow: permission denied"*)
            fail 4 "the NVIDIA container toolkit is not set up for an engine without root" \
                "sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place" ;;
        *nvidia-container-cli* | *nvml* | *NVML* | *libnvidia-ml.so*)
            fail 4 "the GPU driver does not answer" "nvidia-smi must work first; after an update of the driver, reboot" ;;
        *nvidia*"o such file"* | *libcuda.so*"o such file"* | *"CDI host device"*)
            fail 4 "the toolkit's description of the GPU is not of the driver that runs now" "nvidia-smi must work; then: $describe" ;;
        *"address already in use"* | *"port is already allocated"*)
            [ "$image" != notebook ] || fail 2 "port ${NOTEBOOK_PORT:-8888} of this machine is taken" "NOTEBOOK_PORT=9999 make notebook" ;;
        *"no space left on device"*)
            fail 4 "the disk is full" "$engine system prune, or df -h to see where" ;;
    esac
}

driver_too_old() {
    fail 4 "the GPU driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) is too old for the CUDA of the image" \
        "update the driver, or build on an older CUDA: make image EXTRA_BUILD_ARGS='--build-arg BASE_IMAGE=...'"
}

# check_driver IMAGE: the toolkit refuses a driver that is too old for an image only where it does not
# use CDI; in the container torch would merely find no GPU.
check_driver() {
    local needs has
    needs=$("$engine" image inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$1" | sed -n 's/^NVIDIA_REQUIRE_CUDA=cuda>=//p')
    has=$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA[A-Z ]* Version: *\([0-9][0-9.]*\).*/\1/p' || true)
    if [ -n "$needs" ] && [ -n "$has" ] && [ "$(printf '%s\n' "$needs" "$has" | sort -V | head -n 1)" != "$needs" ]; then
        driver_too_old
    fi
}

in_container() {
    local name options=(--rm --workdir /lab --cap-drop ALL --security-opt no-new-privileges) code=0 sources said shm bounded=
    name=$(image_name "$image")
    say "in a container of $name ($engine)"
    # What Compose has built does not say of which sources.
    if ! sources=$("$engine" image inspect --format '{{index .Config.Labels "org.nsys-lab.sources"}}' "$name" 2>/dev/null); then
        say "the image is not there yet; building it, once"
        docker/build.sh "$image"
    elif [[ $sources == [0-9a-f]* && $sources != "$(sources_hash)" ]]; then
        say "note: the image was built from other sources than this checkout's; make image builds it anew"
    fi

    if ! is_podman "$engine" || command -v catatonit >/dev/null || [ -x /usr/libexec/podman/catatonit ]; then
        options+=(--init)
    fi

    # The caller owns what is written. Where the engine itself runs as the caller, root inside is the
    # caller outside (docker), or the id is kept (podman); the caller's limits bound what it can give.
    if is_podman "$engine"; then
        options+=(--user "$(id -u):$(id -g)" --security-opt label=disable)
        [ "$(id -u)" -eq 0 ] || options+=(--userns keep-id)
        bounded=1
    elif "$engine" info --format '{{.SecurityOptions}}' 2>/dev/null | grep -q rootless; then
        options+=(--user 0:0)
        bounded=1
    else
        options+=(--user "$(id -u):$(id -g)")
    fi
    [ -t 0 ] && [ -t 1 ] && options+=(--interactive --tty --env "TERM=${TERM:-xterm}")

    mkdir -p reports
    [ "$image" = notebook ] || options+=(--volume "$PWD/reports:/lab/reports")
    if [ "$image" = lab ]; then
        # One number, in compose.yaml; 64 MB, the default, is too little for the pool of buffers.
        shm=$(sed -n 's/^.*LAB_SHM_SIZE:-\([^}]*\)}.*$/\1/p' compose.yaml)
        options+=(--volume "$PWD/workloads:/lab/workloads:ro" --shm-size "${LAB_SHM_SIZE:-$shm}")
        if [ -z "$bounded" ] || (ulimit -l unlimited) 2>/dev/null; then
            options+=(--ulimit memlock=-1:-1)
        fi
        # The container has no checkout to ask.
        options+=(--env "NSYSLAB_COMMIT=$(git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null || true)")
        # The device files come with their first use, /proc/driver/nvidia with the driver; WSL has dxg.
        if [[ " $* " == *" --device cpu "* || " $* " == *" --device=cpu "* ]]; then
            : # Works without a toolkit too.
        elif [ -e /dev/nvidiactl ] || [ -e /proc/driver/nvidia/version ] || [ -e /dev/dxg ]; then
            check_driver "$name"
            if is_podman "$engine"; then options+=(--device nvidia.com/gpu=all); else options+=(--gpus all); fi
        elif grep -qsx 0x10de /sys/bus/pci/devices/*/vendor; then
            say "note: this machine has an NVIDIA GPU and no driver for it: install one; nvidia-smi must work"
        else
            say "note: this machine has no NVIDIA GPU; without one, the workloads need --device cpu"
        fi
        [ -z "${CUDA_VISIBLE_DEVICES:-}" ] || options+=(--env CUDA_VISIBLE_DEVICES)
        if [[ " $* " == *" --sample "* ]]; then
            sampling_is_open
            ! is_podman "$engine" || podman_lets_sample
            options+=(--cap-add PERFMON)
        fi
    elif [ "$image" = analysis ]; then
        options+=(--network none)
    else
        options+=(--volume "$PWD/reports:/lab/reports:ro" --volume "$PWD/notebooks:/lab/notebooks" --publish "127.0.0.1:${NOTEBOOK_PORT:-8888}:8888")
        [ -z "${JUPYTER_TOKEN:-}" ] || options+=(--env JUPYTER_TOKEN)
        say "on http://127.0.0.1:${NOTEBOOK_PORT:-8888}, with the token that it shows"
    fi
    set -f
    # shellcheck disable=SC2206
    options+=(${ENGINE_ARGS:-})
    set +f

    said=$(mktemp)
    # shellcheck disable=SC2064
    trap "rm -f -- '$said'" EXIT
    { "$engine" run "${options[@]}" "$name" "$@" 2>&1 >&3 | tee -i -- "$said" >&2; } 3>&1 || code=$?
    # 125 to 127: the engine's own failure, not the command's.
    if [ "$code" -ge 125 ] && [ "$code" -le 127 ]; then
        explain "$said"
    fi
    return "$code"
}

sampling_is_open() {
    local paranoid
    paranoid=$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo unknown)
    case $paranoid in
        -1 | 0 | 1 | 2) ;;
        *) fail 2 "CPU sampling is closed on this machine (kernel.perf_event_paranoid is $paranoid)" \
            "sudo sysctl kernel.perf_event_paranoid=2, or record without --sample" ;;
    esac
}

# Before the end of 2025 Podman's rules wanted CAP_SYS_ADMIN. nsys would record no samples, and not say so.
podman_lets_sample() {
    local rules
    [[ ${ENGINE_ARGS:-} != *seccomp* ]] || return 0
    rules=$(find /etc/containers/seccomp.json /usr/share/containers/seccomp.json 2>/dev/null | head -n 1 || true)
    [ -z "$rules" ] || grep -q CAP_PERFMON "$rules" ||
        fail 2 "CPU sampling is closed in this Podman's containers ($rules)" "a newer Podman, Docker, RUNNER=host, or record without --sample"
}

case ${RUNNER:-} in
    container)
        find_engine || fail 2 "no container engine: $no_engine" "$no_engine_hint, or RUNNER=host"
        in_container "$@"
        ;;
    host)
        [ "$image" = lab ] || fail 2 "the image $image runs only in a container" "leave RUNNER out"
        [ -z "$records" ] || [ -n "$(find_nsys)" ] || fail 2 "RUNNER=host, and no nsys is on this machine" \
            "sudo docker/install-nsys.sh, or NSYS=/path/to/nsys"
        on_host "$@"
        ;;
    "")
        if find_engine; then
            in_container "$@"
        elif [ "$image" != lab ]; then
            fail 2 "no container engine: $no_engine" "$no_engine_hint"
        elif [ -z "$records" ] || [ -n "$(find_nsys)" ]; then
            on_host "$@"
        else
            fail 2 "nowhere to record: $no_engine; and no nsys on this machine" "$no_engine_hint, or: sudo docker/install-nsys.sh"
        fi
        ;;
    *) fail 2 "RUNNER is $RUNNER" "RUNNER=container or RUNNER=host" ;;
esac
