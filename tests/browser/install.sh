#!/usr/bin/env bash
# Installs Chromium where no browser for the tests is found; BROWSER=path names one.
set -euo pipefail

[[ -n ${BROWSER:-} ]] && exit 0
for name in chromium chromium-browser google-chrome chrome; do
    command -v "$name" >/dev/null && exit 0
done
if ! command -v apt-get >/dev/null; then
    echo "tests/browser: no Chromium; install one, or name one with BROWSER=path" >&2
    exit 1
fi
sudo=()
[[ $EUID -eq 0 ]] || sudo=(sudo)
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium
