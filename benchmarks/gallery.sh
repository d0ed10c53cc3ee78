#!/usr/bin/env bash
# Records every program of the gallery on this machine's GPUs, and checks what is found in each.
#
#   benchmarks/gallery.sh FOLDER [PROGRAM...]
#
# Needs the lab's packages (pip install -e '.[workloads]'), nsys and a GPU; several GPUs (those of
# CUDA_VISIBLE_DEVICES, if it is set) share the programs. Each recording gets a folder of its own
# with a log. What fails is said and stops nothing else; the exit code is then 1.
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
        return 1
    fi
}

if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
    IFS=, read -ra gpus <<<"$CUDA_VISIBLE_DEVICES"
else
    mapfile -t gpus < <(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null)
fi
[ ${#gpus[@]} -gt 0 ] || gpus=(0)
# record_all FIRST: that program and every further one of this GPU's share.
record_all() {
    local i result=0
    for ((i = $1; i < ${#programs[@]}; i += ${#gpus[@]})); do
        record "${gpus[$1]}" "${programs[i]}" || result=1
    done
    return "$result"
}

failed=0 jobs=()
for ((gpu = 0; gpu < ${#gpus[@]}; gpu++)); do
    record_all "$gpu" &
    jobs+=("$!")
done
for job in "${jobs[@]}"; do
    wait "$job" || failed=1
done
echo "recorded in $SECONDS s"
if [ $# -eq 0 ]; then
    "$python" -m workloads.gallery "$folder" || failed=1
fi
exit "$failed"
