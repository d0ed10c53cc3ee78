#!/usr/bin/env bash
# Takes a picture of a report's timeline in the real Nsight Systems GUI, without a screen:
#
#   docs/screenshot-gui.sh REPORT.nsys-rep PICTURE.png
#
# The GUI must be of the version that wrote the report, or newer. Needs nsys-ui (NSYS_UI names one
# that is not on PATH), and on Debian or Ubuntu:
#   apt-get install xvfb openbox xdotool imagemagick libgl1-mesa-dri
# Debian's nsight-systems package (docker/install-nsys.sh) brings nsys-ui 2022.4 or 2023.4.
set -euo pipefail

fail() {
    printf 'screenshot-gui: error: %s\nscreenshot-gui:   next: %s\n' "$2" "$3" >&2
    exit "$1"
}

[ $# -eq 2 ] || fail 2 "a report and a picture are needed" "docs/screenshot-gui.sh REPORT.nsys-rep PICTURE.png"
report=$(realpath -- "$1")
picture=$2
[ -f "$report" ] || fail 2 "there is no file $report" "make profile WORKLOAD=d2h_async records one"
ui=${NSYS_UI:-nsys-ui}
for tool in "$ui" Xvfb openbox xdotool import convert; do
    command -v "$tool" >/dev/null || fail 2 "$tool is missing" "the top of this script names the packages"
done

# A home of its own: the GUI's first start, whatever was done before, and nothing left behind.
home=$(mktemp -d)
children=()
clean_up() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf -- "$home"
}
trap clean_up EXIT
mkdir -m 700 "$home/run"
export HOME=$home XDG_RUNTIME_DIR=$home/run LANG=C.UTF-8 LIBGL_ALWAYS_SOFTWARE=1

# Of a report of a newer version the GUI shows a message, which makes a picture too. Its nsys reads the
# same reports, and says so.
nsys=$(dirname -- "$(command -v "$ui")")/nsys
if [ -x "$nsys" ] && ! "$nsys" export --type sqlite --output "$home/report.sqlite" "$report" >"$home/export.log" 2>&1; then
    tail -n 3 -- "$home/export.log" >&2
    fail 2 "$("$nsys" --version | head -n 1) cannot read $report" "run.json beside a report says which version wrote it; NSYS_UI names another nsys-ui"
fi

# Xvfb picks a free display and says which.
Xvfb -displayfd 3 -screen 0 1600x900x24 3>"$home/display" 2>/dev/null &
children+=($!)
for _ in $(seq 50); do
    [ -s "$home/display" ] && break
    sleep 0.2
done
DISPLAY=:$(<"$home/display")
export DISPLAY
openbox 2>/dev/null &
children+=($!)
"$ui" "$report" >"$home/ui.log" 2>&1 &
gui=$!
children+=("$gui")

# Before the main window the first start asks whether usage data may be sent (No), and 2022.4 which
# rows are to be on top (as it proposes).
main=
for _ in $(seq 60); do
    sleep 2
    kill -0 "$gui" 2>/dev/null || break
    if preset=$(xdotool search --onlyvisible --name '^Options Preset$' 2>/dev/null); then
        xdotool windowactivate --sync "${preset##*$'\n'}" key Return
        continue
    fi
    main=$(xdotool search --onlyvisible --name '^NVIDIA Nsight Systems [0-9]' 2>/dev/null | tail -n 1 || true)
    [ -z "$main" ] || break
    xdotool key alt+n
done
if [ -z "$main" ]; then
    cat -- "$home/ui.log" >&2
    fail 4 "nsys-ui showed no window" "look at the lines above"
fi
xdotool windowmove "$main" 0 0 windowsize --sync "$main" 1600 880
sleep 2
# The events view below the timeline is empty: down with the bar between them.
xdotool mousemove 900 463 mousedown 1 mousemove --sync 900 600 mousemove --sync 900 830 mouseup 1 mousemove 200 700

# It draws while it reads; the picture is ready when two in a row are the same.
before=
for _ in $(seq 30); do
    sleep 3
    import -window root "$home/shot.png"
    now=$(sha256sum <"$home/shot.png")
    [ "$now" = "$before" ] && break
    before=$now
done
convert "$home/shot.png" -crop 1600x880+0+0 +repage -strip +dither -colors 128 -define png:compression-level=9 "$home/small.png"
mv -- "$home/small.png" "$picture"
printf 'screenshot-gui: %s (%s bytes)\n' "$picture" "$(stat -c %s "$picture")" >&2
