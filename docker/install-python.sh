#!/usr/bin/env bash
# Makes sure that `python3 -m venv` works, for the Dockerfile: a base image that has no Python gets
# that of its distribution. Needs root on Debian or Ubuntu.
set -euo pipefail

if python3 -c 'import ensurepip, venv' 2>/dev/null; then
    exit 0
fi
command -v apt-get >/dev/null || {
    echo "install-python: error: the base image has no Python with venv, and no apt-get" >&2
    exit 2
}
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install --yes --no-install-recommends ca-certificates python3 python3-venv
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log
