#!/usr/bin/env bash
# Opens the newest report of a workload in the Nsight Systems GUI, or says where it is and what opens
# it: docker/gui.sh [WORKLOAD|FILE.nsys-rep]   (no argument: the newest of all)
#
#   NSYS_UI=/path/to/nsys-ui   the GUI, if it is not on PATH
#   REPORTS=folder             where the reports are (reports/)
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. docker/engine.sh

reports=${REPORTS:-reports}
case ${1:-} in
    *.nsys-rep)
        report=$1
        [ -f "$report" ] || fail 2 "there is no file $report" "docker/gui.sh opens the newest report"
        ;;
    *)
        # A recording, or its folder, is named after its workload.
        report=$(find -L "$reports" \( -name "${1:-*}.nsys-rep" -o -path "*/${1:-*}/*.nsys-rep" \) \
            -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -n 1 | cut -d' ' -f2-)
        [ -n "$report" ] || fail 2 "there is no .nsys-rep ${1:+of $1 }under $reports" "make profile WORKLOAD=${1:-d2h_async}"
        ;;
esac

version_of() { grep -oE '[0-9]{4}(\.[0-9]+){2,}' | head -n 1; }
# run.json beside a report says which nsys wrote it.
wrote=$(sed -n 's/^ *"nsys[a-z_]*": *"\(.*\)".*/\1/p' "$(dirname -- "$report")/run.json" 2>/dev/null | version_of || true)

ui=${NSYS_UI:-$(command -v nsys-ui || find /opt/nvidia -name nsys-ui -perm -u+x 2>/dev/null | sort -V | tail -n 1 || true)}
where="$(realpath -- "$report")"
screen=${DISPLAY:-${WAYLAND_DISPLAY:-}}
if [ -z "$ui" ] || [ -z "$screen" ]; then
    missing="no screen (DISPLAY is not set)"
    [ -n "$ui" ] || missing="no nsys-ui on this machine"
    say "the report: $where"
    say "$missing. Open it with Nsight Systems ${wrote:-of the version that wrote it} or newer, here or on another machine:"
    say "  https://developer.nvidia.com/nsight-systems/get-started (the host packages for Windows, macOS and Linux)"
    exit 0
fi
# nsys-ui of older versions cannot tell its own; its folder's name or the nsys beside it can.
have=$(realpath -- "$ui" | version_of || true)
[ -n "$have" ] || have=$("$(dirname -- "$ui")/nsys" --version 2>/dev/null | version_of || true)
# A GUI reads reports of its own version and older; the build number behind the version does not matter.
release() { cut -d. -f1-3 <<<"$1"; }
if [ -n "$wrote" ] && [ -n "$have" ] && [ "$(printf '%s\n' "$(release "$wrote")" "$(release "$have")" | sort -V | tail -n 1)" != "$(release "$have")" ]; then
    fail 2 "nsys-ui $have cannot open $where: nsys $wrote wrote it" \
        "install Nsight Systems $wrote or newer (https://developer.nvidia.com/nsight-systems/get-started), or set NSYS_UI"
fi
say "opening $where in nsys-ui${have:+ $have}"
exec "$ui" "$where"
