"""What is in the images that should not be; `make test-image` runs this."""

from __future__ import annotations

import json
import os
import re
import tarfile
from pathlib import Path
from typing import IO

import pytest

from tests.container.engine import BASE, PREFIX, Engine

ROOT = Path(__file__).parents[2]
IMAGES = ("lab", "analysis", "notebook")
PUBLIC = ("https://pypi.org/", "https://download.pytorch.org/")


@pytest.fixture(scope="session")
def unwanted(build_options: list[str]) -> dict[str, bytes]:
    """Settings and secrets of this machine that are in no image, by what they are."""
    found = {}
    for option in build_options:
        if option.startswith("id=pip.conf"):
            for line in Path(option.partition("src=")[2]).read_text().splitlines()[1:]:
                name, _, value = line.partition(" = ")
                for word in value.split():
                    if name != "cert" and not word.startswith(PUBLIC):
                        found[f"pip's {name} {word}"] = word
    for name, value in os.environ.items():
        if re.search(r"proxy|token|secret|password|passwd|api_?key", name, re.IGNORECASE):
            found[f"${name}"] = value
    host = os.uname().nodename
    # A name like "debian" says nothing.
    if not host.isalpha():
        found["the host's name"] = host
    found["the checkout's path"] = str(ROOT)
    # Of settings, only what could be taken for nothing else.
    return {name: value.encode() for name, value in found.items() if len(value) > 5}


@pytest.fixture(scope="session")
def bundle(build_options: list[str]) -> bytes:
    """The certificates that were in the build as a secret."""
    named = [o.partition("src=")[2] for o in build_options if o.startswith("id=ca.crt")]
    return Path(named[0]).read_bytes() if named else b""


@pytest.fixture(scope="session")
def archive(
    engine: Engine, images: dict[str, float], tmp_path_factory: pytest.TempPathFactory
) -> tarfile.TarFile:
    """All images in one archive, each layer once."""
    path = tmp_path_factory.mktemp("archive") / "images.tar"
    names = [f"{PREFIX}/{image}" for image in IMAGES]
    engine.output("save", "--multi-image-archive", "--output", str(path), *names)
    return tarfile.open(path)


def layers(engine: Engine, name: str) -> list[str]:
    inspected = json.loads(engine.output("image", "inspect", name))[0]
    return list(inspected["RootFS"]["Layers"])


def what_is_wrong(
    layer: IO[bytes], unwanted: dict[str, bytes], bundle: bytes
) -> tuple[int, list[str]]:
    """How many files a layer has, and which of them tell of this machine."""
    seen, wrong = 0, []
    with tarfile.open(fileobj=layer) as files:
        for member in files:
            if re.search(r"^run/secrets/.|^etc/pip.conf$|^root/.netrc$", member.name):
                wrong.append(member.name)
            if not member.isfile():
                continue
            seen += 1
            if member.size > 2_000_000 and member.size != len(bundle):
                continue
            data = files.extractfile(member).read()  # type: ignore[union-attr]
            if bundle and data == bundle:
                wrong.append(f"{member.name}: the certificates")
            wrong += [f"{member.name}: {what}" for what, value in unwanted.items() if value in data]
    return seen, wrong


@pytest.mark.parametrize("image", IMAGES)
def test_the_history_holds_no_credential_and_no_host_setting(
    engine: Engine, images: dict[str, float], unwanted: dict[str, bytes], image: str
) -> None:
    name = f"{PREFIX}/{image}"
    history = engine.output("history", "--no-trunc", "--format", "{{.CreatedBy}}", name)
    config = engine.output("image", "inspect", "--format", "{{json .Config}}", name)
    for where, text in {"history": history, "config": config}.items():
        for what, value in unwanted.items():
            assert value not in text.encode(), f"{what} is in the {where} of {image}"
        assert not re.search(r"https?_proxy|no_proxy", text, re.IGNORECASE)


def test_the_layers_hold_no_credential_and_no_host_setting(
    engine: Engine, archive: tarfile.TarFile, unwanted: dict[str, bytes], bundle: bytes
) -> None:
    manifest = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
    files_in = dict.fromkeys(layers(engine, BASE), 0)
    files_of = {}
    for entry in manifest:
        [tag] = entry["RepoTags"]
        image = tag.removeprefix(f"{PREFIX}/").partition(":")[0]
        digests = layers(engine, tag)
        for path, digest in zip(entry["Layers"], digests, strict=True):
            if digest not in files_in:
                layer = archive.extractfile(path)
                assert layer is not None
                files_in[digest], wrong = what_is_wrong(layer, unwanted, bundle)
                assert wrong == [], f"in a layer of {image}"
        files_of[image] = sum(files_in[digest] for digest in digests)
    assert files_of.keys() == set(IMAGES)
    assert min(files_of.values()) > 1000


def test_the_search_of_layers_finds_what_it_looks_for(tmp_path: Path) -> None:
    (tmp_path / "netrc").write_bytes(b"password hunter22")
    (tmp_path / "ca.crt").write_bytes(b"-----BEGIN CERTIFICATE-----")
    with tarfile.open(tmp_path / "layer.tar", "w") as tar:
        tar.add(tmp_path / "netrc", "root/.netrc")
        tar.add(tmp_path / "netrc", "home/lab/notes")
        tar.add(tmp_path / "ca.crt", "opt/ca.crt")
    with (tmp_path / "layer.tar").open("rb") as layer:
        found = what_is_wrong(layer, {"a password": b"hunter22"}, b"-----BEGIN CERTIFICATE-----")
    assert found == (
        3,
        [
            "root/.netrc",
            "root/.netrc: a password",
            "home/lab/notes: a password",
            "opt/ca.crt: the certificates",
        ],
    )
