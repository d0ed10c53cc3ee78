#!/usr/bin/env bash
# Every workload of the lab on this machine's GPU.
#
#   benchmarks/ladders.sh smoke            do all run here, and compute the right results? (a minute)
#   benchmarks/ladders.sh record FOLDER [LADDER...]   run and record every rung, with the tables
#   benchmarks/ladders.sh sweep FOLDER [WORKLOAD...]  batch sizes 8, 16, 32 and 64
#
# Needs the lab's packages (pip install -e '.[workloads]'), a GPU and, for smoke and record, nsys.
# What fails is reported at the end and stops nothing else; the exit code is then 1.
#
#   NSYSLAB=nsyslab        the command
#   STEPS=100              steps of a run without the profiler, and
#   MAX_SECONDS=8          its longest time; slow rungs do fewer steps
#   WARMUP=                steps before those, and before a recording; else the workload's
#   RUNG_TIMEOUT=150       seconds for one run or recording
set -uo pipefail

read -ra nsyslab <<<"${NSYSLAB:-nsyslab}"
failed=()

# attempt LABEL COMMAND...: run it, say how long it took, remember whether it failed.
attempt() {
    local label=$1 begin=$SECONDS
    shift
    if "$@"; then
        echo "== $label: $((SECONDS - begin)) s"
    else
        echo "== $label: FAILED with exit code $? after $((SECONDS - begin)) s"
        failed+=("$label")
    fi
}

finish() {
    if [ ${#failed[@]} -gt 0 ]; then
        echo "failed: ${failed[*]}"
        exit 1
    fi
    echo "all done"
}

smoke() {
    local folder ladder label
    folder=$(mktemp -d)
    # shellcheck disable=SC2064  # the folder of now
    trap "rm -rf '$folder'" EXIT
    # The ladders beside each other: nothing is measured.
    for ladder in d2h h2d encdec augment vector_add; do
        (
            "${nsyslab[@]}" ladder "$ladder" --verify --no-run --no-profile --batch-size 8 \
                --image-size 128 --workers 2 --steps 20 --timeout 120 -o "$folder" \
                >"$folder/$ladder.log" 2>&1
            echo $? >"$folder/$ladder.code"
        ) &
    done
    wait
    for ladder in d2h h2d encdec augment vector_add; do
        label="verify $ladder"
        if [ "$(cat "$folder/$ladder.code")" = 0 ]; then
            grep "agrees" "$folder/$ladder.log"
            echo "== $label: done"
        else
            cat "$folder/$ladder.log"
            echo "== $label: FAILED"
            failed+=("$label")
        fi
    done
    attempt "record h2d_async" "${nsyslab[@]}" profile h2d_async --batch-size 8 --image-size 128 \
        --workers 2 --warmup 2 --timeout 120 -o "$folder/h2d_async"
    attempt "analyse h2d_async" "${nsyslab[@]}" analyze "$folder/h2d_async"
    echo "== smoke: $SECONDS s"
}

record() {
    local folder=$1 ladder
    shift
    mkdir -p "$folder"
    [ $# -gt 0 ] || set -- d2h h2d encdec augment vector_add
    for ladder in "$@"; do
        attempt "$ladder" "${nsyslab[@]}" ladder "$ladder" --steps "${STEPS:-100}" \
            --max-seconds "${MAX_SECONDS:-8}" ${WARMUP:+--warmup "$WARMUP"} \
            --timeout "${RUNG_TIMEOUT:-150}" --format markdown --force -o "$folder"
    done
}

sweep() {
    local folder=$1 name
    shift
    mkdir -p "$folder"
    [ $# -gt 0 ] || set -- d2h_async d2h_streams augment_gpu augment_streams
    for name in "$@"; do
        attempt "sweep $name" "${nsyslab[@]}" run "$name" --sweep batch-size=8,16,32,64 \
            --steps "${STEPS:-100}" --max-seconds "${MAX_SECONDS:-8}" \
            ${WARMUP:+--warmup "$WARMUP"} --format markdown --force -o "$folder/sweep_$name.md"
        cat "$folder/sweep_$name.md"
    done
}

case "${1:-} $#" in
    "smoke 1") smoke ;;
    "record "[2-9]) shift && record "$@" ;;
    "sweep "[2-9]) shift && sweep "$@" ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
finish
