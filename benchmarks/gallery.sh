#!/usr/bin/env bash
# Records every program of the gallery on this machine's GPUs, and checks what is found in each.
#
#   benchmarks/gallery.sh FOLDER [PROGRAM...]
#
# Needs the lab's packages (pip install -e '.[workloads]'), nsys and a GPU; several GPUs share the
# programs. Each recording gets a folder of its own with a log. What fails is said at the end and
# stops nothing else; the exit code is then 1.
#
#   NSYSLAB=nsyslab        the command
#   PYTHON=python          the interpreter that has the lab's packages
#   STEPS=10               steps of a recording
#   PROGRAM_TIMEOUT=90     seconds for one recording
set -uo pipefail

if [ $# -lt 1 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
folder=$1
shift
read -ra nsyslab <<<"${NSYSLAB:-nsyslab}"
python=${PYTHON:-python}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

programs=("$@")
if [ ${#programs[@]} -eq 0 ]; then
    mapfile -t programs < <("${nsyslab[@]}" list --ladder gallery --format json |
        "$python" -c 'import json, sys; [print(each["name"]) for each in json.load(sys.stdin)]')
fi
[ ${#programs[@]} -gt 0 ] || exit 1

# record GPU PROGRAM
record() {
    local gpu=$1 name=$2 begin=$SECONDS options=()
    [ "$name" != gallery_graph_nodes ] || options=(--graph-nodes)
    if CUDA_VISIBLE_DEVICES=$gpu "${nsyslab[@]}" profile "$name" --warmup 3 "${options[@]}" \
        --profile-steps "${STEPS:-10}" --timeout "${PROGRAM_TIMEOUT:-90}" --force \
        -o "$folder/$name" >"$folder/$name.out" 2>&1; then
        echo "$name: $((SECONDS - begin)) s"
        rm -f "$folder/$name.out"
    else
        echo "$name: FAILED after $((SECONDS - begin)) s"
        cat "$folder/$name.out"
    fi
}

gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
[ "$gpus" -gt 0 ] || gpus=1
for ((gpu = 0; gpu < gpus; gpu++)); do
    for ((i = gpu; i < ${#programs[@]}; i += gpus)); do
        record "$gpu" "${programs[i]}"
    done &
done
wait
echo "recorded in $SECONDS s"
[ $# -gt 0 ] || "$python" -m workloads.gallery "$folder"
