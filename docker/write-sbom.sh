#!/usr/bin/env bash
# Lists what is in an image (SBOM), for the Dockerfile, where sbom.txt and pyproject.toml are beside this
# script. /opt/venv/share/nsys-lab gets two files in CycloneDX 1.6:
#
#   debian.cdx.json   the packages of the distribution, nsys among them
#   python.cdx.json   what the project asks for and what it finds in Python, that of the base included
#
# The programs that write them are gone afterwards.
set -euo pipefail

here=$(dirname -- "$0")
tools=$(mktemp -d)
trap 'rm -rf -- "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --require-hashes --requirement "$here/sbom.txt"
# shellcheck source=/dev/null
. /etc/os-release
# It warns of each package whose maintainer is not in the usual form.
"$tools/bin/debsbom" generate --sbom-type cdx --cdx-schema-version 1.6 --base-distro-vendor "$ID" \
    --distro-name "$NAME" --distro-version "$VERSION_ID" \
    --out /opt/venv/share/nsys-lab/debian 2>"$tools/log" || {
    cat -- "$tools/log" >&2
    exit 4
}
"$tools/bin/cyclonedx-py" environment --spec-version 1.6 --pyproject "$here/pyproject.toml" \
    --output-file /opt/venv/share/nsys-lab/python.cdx.json /opt/venv/bin/python3
