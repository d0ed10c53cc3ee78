#!/usr/bin/env bash
# Writes the lock files of this folder anew: requirements/lock.sh [UV OPTION...]
#
# Each NAME.txt is what pip may install into an image, with the hash of every file. Change
# pyproject.toml or a NAME.in, run this, and commit both. Without --upgrade, versions that still fit
# are kept. Needs uv (pip install uv). For lab-cpu.txt uv must see PyTorch's CPU builds:
#
#   requirements/lock.sh --find-links https://download.pytorch.org/whl/cpu/torch
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

# lock NAME INPUT...
lock() {
    local name=$1
    shift
    uv pip compile "$@" "${uv_options[@]}" --quiet --no-config \
        --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
        --generate-hashes --no-emit-index-url --custom-compile-command "requirements/lock.sh" \
        --output-file "requirements/$name.txt"
}

uv_options=("$@")
lock build requirements/build.in
lock sbom requirements/sbom.in
lock analysis pyproject.toml
lock notebook pyproject.toml --group notebook
lock lab pyproject.toml requirements/lab.in --extra workloads
lock lab-cpu pyproject.toml requirements/lab-cpu.in
