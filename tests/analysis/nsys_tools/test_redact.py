"""A redacted export holds nothing of the machine and its user, and every number of the old one."""

from __future__ import annotations

import copy
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis import cli
from analysis.errors import InputError
from analysis.nsys.redact import environments, redact
from tests.traces.schema import VERSIONS, layouts
from tests.traces.writer import TraceWriter

from .conftest import small_disk

if TYPE_CHECKING:
    from analysis.nsys.record import Recording
    from tests.conftest import Analyze

SAMPLES = sorted((Path(__file__).parents[3] / "reports" / "samples").glob("*.sqlite"))

#: Words that must not survive, in any encoding.
SECRETS = (
    "alice",
    "gpubox17",
    "hf_Zq81",
    "AKIA77",
    "s3cr3t",
    "10.20.30.41",
    "52:54:00:ab:cd:ef",
    "fe80:0:0:0:5054:ff:fe12:3456",
    "alice@example.com",
    "/home/",
    "/data/projects",
    "printed by the program",
    "slack-desktop",
    "internal.example.com",
)
ENVIRONMENT = "HF_TOKEN=hf_Zq81\0USER=alice\0HOME=/home/alice\0HOSTNAME=gpubox17\0LANG=C"
OTHER_PID = 4242


def private(path: Path, schema: str | None) -> None:
    """A small trace with everything in it that tells who recorded it and where."""
    with TraceWriter(path, schema=schema) as w:
        call = w.api(100, 110)
        w.kernel(120, 220, call=call, name="void gemm<float, 3>(float const*, int)")
        w.osrt(10, 90, "munmap")
        w.push_pop(0, 300, "Batch 1")
        w.push_pop(1, 80, "load /data/projects/alice/images/cat.png / decode")
        w.push_pop(2, 70, "from alice@example.com via tcp://internal.example.com:29500")
        w.push_pop(3, 60, "rank 0 on gpubox17 (10.20.30.41, 52:54:00:ab:cd:ef)")
        w.push_pop(4, 50, "fe80:0:0:0:5054:ff:fe12:3456, ~alice/x and 12 GB/s, 3/4")
        w.process("/home/alice/venv/bin/python3")
        w.process("/usr/bin/slack-desktop", pid=OTHER_PID)
        w.thread_name("python3")
        w.thread_name("slack-desktop: alice", pid=OTHER_PID)
        w.string(ENVIRONMENT)
        w.string("AWS_ACCESS_KEY_ID=AKIA77")
        w.string("[Max depth]")
        w.row(
            "ProcessStreams",
            globalPid=1 << 48,
            filenameId=w.string("/home/alice/.nsys/pid_1_stdout.log"),
            contentId=w.string("printed by the program: s3cr3t"),
        )
        tables = layouts(schema)
        for table, rows in _ROWS.items():
            if table in tables:
                for name, value in rows.items():
                    if table == "TARGET_INFO_SYSTEM_ENV":
                        w.row(table, devStateName="alice@gpubox17", name=name, value=value)
                    else:
                        w.row(table, name=name, value=value)
        if "DIAGNOSTIC_EVENT" in tables:
            text = "Process launched, see /home/alice/.nsys/pid_1_stdout.log for program output"
            w.row("DIAGNOSTIC_EVENT", timestamp=5, text=text)


_ROWS = {
    "META_DATA_CAPTURE": {
        "PROCESS_0:ENVIRONMENT_VARIABLE": 'HF_TOKEN="hf_Zq81"',
        "PROCESS_0:COMMAND": "/home/alice/venv/bin/python3",
        "PROCESS_0:ARGUMENT_0": "--password=s3cr3t",
        "PROCESS_0:WORKING_DIR": "/data/projects/alice",
        "PROCESS_0:USER_NAME": "alice",
        "DEVICE_DISPLAY_NAME": "gpubox17",
        "DEVICE_ID": "ssh:alice@10.20.30.41",
        "NEW_IN_2031": "internal.example.com and more",
        "OS_RUNTIME_OPTIONS:DURATION_THRESHOLD_NS": "1000",
    },
    "META_DATA_EXPORT": {
        "EXPORT_HOST": "gpubox17",
        "EXPORT_USER": "alice",
        "EXPORT_PARAM_INPUT_PATH_ABS": "/data/projects/alice/it.nsys-rep",
        "EXPORT_PARAM_INPUT_FILE": "it.nsys-rep",
        "NEW_IN_2031": "/home/alice",
    },
    "TARGET_INFO_SYSTEM_ENV": {
        "Hostname": "gpubox17",
        "DeviceEnvironment": "HF_TOKEN=hf_Zq81;USER=alice;HOSTNAME=gpubox17",
        "NicInfo": '{"mac": "52:54:00:ab:cd:ef"}',
        "TargetInstallDir": "/home/alice/nsight",
        "CpuCores": "32",
    },
}


def tables_of(path: Path) -> dict[str, tuple[list[str], list[tuple[Any, ...]]]]:
    """Every table: its columns, and its rows in order with all text and bytes as None."""
    found = {}
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for name in sorted(name.decode() for (name,) in names):
            cursor = connection.execute(f'SELECT * FROM "{name}" ORDER BY rowid')
            columns = [column[0] for column in cursor.description]
            rows = [tuple(None if isinstance(v, bytes) else v for v in row) for row in cursor]
            found[name] = (columns, rows)
    return found


#: Tables of which rows are left out.
FILTERED = (
    "ANALYSIS_FILE",
    "EXPORT_META_DATA",
    "META_DATA_CAPTURE",
    "META_DATA_EXPORT",
    "PROCESSES",
    "ProcessStreams",
    "TARGET_INFO_SYSTEM_ENV",
    "ThreadNames",
)


def assert_same_numbers(old: Path, new: Path) -> None:
    """Every number of every column of every table of events is the same, and in the same order."""
    before, after = tables_of(old), tables_of(new)
    assert before.keys() == after.keys()
    assert {"StringIds"} <= before.keys()
    for table, (columns, rows) in before.items():
        assert after[table][0] == columns
        if table in FILTERED:
            assert len(after[table][1]) <= len(rows)
        else:
            assert after[table][1] == rows, table


def texts(path: Path, sql: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(sql)]


def assert_nothing_of(words: tuple[str, ...], path: Path) -> None:
    content = path.read_bytes()
    for word in words:
        for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
            assert word.encode(encoding) not in content, f"{word} in {encoding}"


@pytest.mark.parametrize("schema", list(VERSIONS), ids=str)
def test_every_schema(tmp_path: Path, schema: str | None) -> None:
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    private(old, schema)
    for word in ("hf_Zq81", "alice", "printed by the program"):
        assert word.encode() in old.read_bytes()
    done = redact(old, new)
    assert_nothing_of(SECRETS, new)
    assert_same_numbers(old, new)
    assert done.processes == (1 if "PROCESSES" in layouts(schema) else 0)
    assert {"AWS_ACCESS_KEY_ID", "HF_TOKEN"} <= set(done.credentials)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it.sqlite", "out.sqlite"]


def test_what_is_kept_of_the_text(tmp_path: Path) -> None:
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    private(old, "3.20.3")
    redact(old, new)
    kept = {
        re.sub(r"folder \d+", "folder N", text)
        for text in texts(new, "SELECT value FROM StringIds UNION SELECT text FROM NVTX_EVENTS")
        if text is not None
    }
    assert {
        "void gemm<float, 3>(float const*, int)",
        "munmap",
        "Batch 1",
        "load <folder N>/cat.png / decode",
        "from <mail> via <url>",
        "rank 0 on <host> (<ip>, <mac>)",
        "<ip>, <folder N>/x and 12 GB/s, 3/4",
        "python3",
    } <= kept
    assert "[Max depth]" not in kept  # nothing refers to it
    assert texts(new, "SELECT name FROM PROCESSES") == ["python3"]
    (diagnostic,) = texts(new, "SELECT text FROM DIAGNOSTIC_EVENT")
    assert re.fullmatch(r"Process launched, see <folder \d+>/pid_1_stdout.log for .*", diagnostic)
    assert set(texts(new, "SELECT name FROM TARGET_INFO_SYSTEM_ENV")) == {"CpuCores"}
    assert set(texts(new, "SELECT devStateName FROM TARGET_INFO_SYSTEM_ENV")) == {""}
    capture = texts(new, "SELECT name FROM META_DATA_CAPTURE")
    assert "OS_RUNTIME_OPTIONS:DURATION_THRESHOLD_NS" in capture
    assert not {"NEW_IN_2031", "PROCESS_0:COMMAND", "DEVICE_ID"} & set(capture)
    export = texts(new, "SELECT name FROM META_DATA_EXPORT")
    assert "EXPORT_PARAM_INPUT_FILE" in export
    assert not {"EXPORT_HOST", "EXPORT_PARAM_INPUT_PATH_ABS", "NEW_IN_2031"} & set(export)


def test_tables_and_columns_of_the_future_lose_their_text(tmp_path: Path) -> None:
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    private(old, "3.27.0")
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute('CREATE TABLE "NEW "" THING" (id INTEGER PRIMARY KEY, "a""b" TEXT, c)')
        connection.execute(
            'INSERT INTO "NEW "" THING" VALUES (7, ?, 3), (9, NULL, ?), (11, ?, 2.5)',
            ("made by alice", "s3cr3t in a column without a type", b"s3cr3t as a blob"),
        )
        connection.execute("ALTER TABLE OSRT_API ADD COLUMN comment TEXT")
        connection.execute("UPDATE OSRT_API SET comment = 'alice', returnValue = 's3cr3t'")
        connection.execute("CREATE VIEW mine AS SELECT 'alice'")
        connection.execute("CREATE INDEX alices_index ON OSRT_API (comment)")
    done = redact(old, new)
    assert_nothing_of(SECRETS, new)
    assert {'NEW " THING.a"b', 'NEW " THING.c', "OSRT_API.comment"} <= set(done.columns)
    with closing(sqlite3.connect(new)) as connection:
        assert connection.execute('SELECT * FROM "NEW "" THING"').fetchall() == [
            (7, "", 3),
            (9, None, ""),
            (11, None, 2.5),
        ]


def test_freed_pages_hold_nothing(tmp_path: Path) -> None:
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    private(old, "3.20.3")
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("PRAGMA secure_delete = OFF")  # some builds have it on
        connection.execute("CREATE TABLE gone (x TEXT)")
        connection.executemany(
            "INSERT INTO gone VALUES (?)", [(f"alice {i}",) for i in range(9999)]
        )
        connection.commit()
        connection.execute("DROP TABLE gone")
    assert b"alice 5000" in old.read_bytes()
    redact(old, new)
    assert_nothing_of(SECRETS, new)


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_text_in_utf_16(tmp_path: Path, encoding: str) -> None:
    old, new, wide = (tmp_path / f"{name}.sqlite" for name in ("it", "out", "wide"))
    private(old, "3.20.3")
    with closing(sqlite3.connect(old)) as source, closing(sqlite3.connect(wide)) as target:
        target.execute(f"PRAGMA encoding = '{encoding}'")
        target.executescript("\n".join(source.iterdump()).replace("\0", "' || char(0) || '"))
    assert "hf_Zq81".encode(encoding) in wide.read_bytes()
    redact(wide, new)
    assert_nothing_of(SECRETS, new)
    assert_same_numbers(wide, new)
    assert "Batch 1" in texts(new, "SELECT value FROM StringIds UNION SELECT text FROM NVTX_EVENTS")


def test_variables_of_nsys_are_no_credentials(tmp_path: Path) -> None:
    """Although one is called NSYS_SESSION_TEMP_DIR."""
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    with TraceWriter(old) as w:
        w.push_pop(0, 10, "Batch 1")
        w.string("NSYS_SESSION_TEMP_DIR=/tmp/nvidia/x\0NSYS_PROFILING_SESSION_ID=7\0MY_TOKEN=x")
    assert redact(old, new).credentials == ("MY_TOKEN",)


def test_text_that_is_not_utf_8_stays(tmp_path: Path) -> None:
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    name = b"caf\xe9 \xff /data/projects/caf\xe9/x"
    with TraceWriter(old) as w:
        w.push_pop(0, 10, name)
        w.push_pop(2, 5, "a\0b")
    redact(old, new)
    with closing(sqlite3.connect(new)) as connection:
        connection.text_factory = bytes
        kept = {v for (v,) in connection.execute("SELECT value FROM StringIds")}
        kept |= {v for (v,) in connection.execute("SELECT text FROM NVTX_EVENTS")}
    assert b"caf\xe9 \xff <folder 1>/x" in kept
    assert b"a\0b" in kept


def test_common_words_are_not_taken_for_names(tmp_path: Path) -> None:
    """A user called root, on a host called vm, has ranges with these words."""
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    with TraceWriter(old) as w:
        w.push_pop(0, 10, "root of the vm, alicent, malice")
        w.string("USER=root\0HOME=/root\0HOSTNAME=vm\0LOGNAME=alice")
    redact(old, new)
    kept = texts(new, "SELECT value FROM StringIds UNION SELECT text FROM NVTX_EVENTS")
    assert "root of the vm, alicent, malice" in kept


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_the_samples_analyse_the_same(sample: Path, tmp_path: Path, analyze: Analyze) -> None:
    new = tmp_path / sample.name
    redact(sample, new)
    assert_same_numbers(sample, new)
    assert_analysed_the_same(analyze(sample).report, analyze(new).report)
    again = tmp_path / "again.sqlite"
    done = redact(new, again)
    assert again.read_bytes() == new.read_bytes()
    assert (done.environments, done.strings, done.folders, done.devices) == (0, 0, 0, 0)


def assert_analysed_the_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    """All of the reports but the file's path and what the GPUs are called."""
    before, after = copy.deepcopy(before), copy.deepcopy(after)
    assert after["trace"].pop("path") != before["trace"].pop("path")
    names: dict[str, str] = {}
    for old, new in zip(before["trace"]["gpus"], after["trace"]["gpus"], strict=True):
        was, now = old.pop("uuid"), new.pop("uuid")
        assert (was is None) == (now is None)
        if was is not None:
            assert names.setdefault(was, now) == now != was
    assert len(set(names.values())) == len(names)
    assert after == before


UUIDS = ("5544e653-bc29-5b7c-0ab8-229c185285e4", "20fded45-0507-4fee-0806-6174ca4a2001")


def several_processes(path: Path, uuids: tuple[str, ...] = UUIDS, *, info: bool = True) -> None:
    """Two GPUs and three processes, each of which calls its own GPU number 0."""
    owners = {10: uuids[0], 11: uuids[1], 12: uuids[0]}
    with TraceWriter(path, schema="3.27.0", gpus=False) as w:
        for gpu_id, uuid in enumerate(uuids):
            if info:
                w.gpu(gpu_id, uuid=uuid)
        for pid, uuid in owners.items():
            w.cuda_device(gpu_id=uuids.index(uuid), ordinal=0, pid=pid, uuid=uuid)
            at = 1000 * pid
            call = w.api(at, at + 10, pid=pid, tid=pid)
            w.kernel(at + 20, at + 120, call=call, pid=pid, device=0)


@pytest.mark.parametrize("info", [True, False])
def test_a_gpu_stays_one_device_to_all_processes(
    *, info: bool, tmp_path: Path, analyze: Analyze
) -> None:
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    several_processes(old, info=info)
    done = redact(old, new)
    assert done.devices == 2
    for uuid in UUIDS:
        assert uuid.encode() not in new.read_bytes()
    before, after = analyze(old).report, analyze(new).report
    assert len(before["devices"]) == 2
    assert_analysed_the_same(before, after)


def test_a_pseudonym_is_the_same_in_every_export_and_stays(tmp_path: Path) -> None:
    pseudonyms = []
    for number, uuids in enumerate(((UUIDS[0], "GPU-" + UUIDS[1]), (UUIDS[1].upper(), UUIDS[0]))):
        old, new, again = (tmp_path / f"{name}{number}.sqlite" for name in ("it", "out", "again"))
        several_processes(old, uuids)
        redact(old, new)
        redact(new, again)
        assert again.read_bytes() == new.read_bytes()
        pseudonyms.append(texts(new, "SELECT uuid FROM TARGET_INFO_GPU ORDER BY id"))
    (first, prefixed), (second, other) = pseudonyms
    assert re.fullmatch(r"00000000-0000-8000-[0-9a-f]{4}-[0-9a-f]{12}", first)
    assert first == other != second
    assert prefixed == f"GPU-{second}"


def test_small_files_have_small_pages(tmp_path: Path) -> None:
    """Fifty tables of a row each fill fifty pages; a large trace fills its pages anyway."""
    new = tmp_path / "out.sqlite"
    sample = min(SAMPLES, key=lambda path: path.stat().st_size)
    with closing(sqlite3.connect(tmp_path / "it.sqlite")) as target:
        with closing(sqlite3.connect(sample)) as source:
            source.backup(target)
        assert target.execute("PRAGMA page_size").fetchone() == (4096,)
    redact(tmp_path / "it.sqlite", new)
    with closing(sqlite3.connect(new)) as connection:
        assert connection.execute("PRAGMA page_size").fetchone() == (1024,)
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert new.stat().st_size < 0.75 * (tmp_path / "it.sqlite").stat().st_size


@pytest.mark.nsys
def test_a_real_recording(recording: Recording, tmp_path: Path) -> None:
    new = tmp_path / "out.sqlite"
    variables = environments(recording.sqlite)
    assert variables
    redact(recording.sqlite, new)
    assert_same_numbers(recording.sqlite, new)
    told = {f"{name}={value}" for name, value in variables if len(value) > 3}
    assert_nothing_of((*told, str(recording.report.parent), "3 steps of"), new)
    assert environments(new) == []
    assert "munmap" in texts(new, "SELECT value FROM StringIds")


# The command, and what it refuses.


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    private(old, "3.20.3")
    assert cli.run(["redact", str(old), "-o", str(new)]) == 0
    said = capfd.readouterr()
    assert said.out == ""
    first, left_out, replaced, emptied, warning = said.err.splitlines()
    assert first == str(new)
    assert left_out == (
        "  left out: environments 4 (variables 6), other processes 1, settings of the machine and "
        "the recording 16, pieces of program output 1, other strings 6"
    )
    assert replaced == (
        "  replaced: folders 3, names of hosts and users 1, addresses 5, GPU identifiers 1"
    )
    assert emptied == (
        "  emptied: TARGET_INFO_SYSTEM_ENV.devStateName, TARGET_INFO_SESSION_START_TIME.localTime"
    )
    assert "credentials: AWS_ACCESS_KEY_ID, HF_TOKEN; if it has been shared" in warning
    assert cli.run(["redact", str(old), "-o", str(new)]) == 2
    assert "exists already" in capfd.readouterr().err
    assert cli.run(["redact", str(old), "-o", str(new), "--force"]) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no nsys export"),
        (b"nothing of the kind" * 100, "file is not a database"),
        (None, "does not exist"),
    ],
)
def test_bad_input(tmp_path: Path, content: bytes | None, message: str) -> None:
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    if content is not None:
        old.write_bytes(content)
    with pytest.raises(InputError, match=message):
        redact(old, new)
    assert not new.exists()


def test_a_truncated_export(tmp_path: Path) -> None:
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    content = SAMPLES[0].read_bytes()
    old.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="malformed"):
        redact(old, new)
    assert [path.name for path in tmp_path.iterdir()] == ["it.sqlite"]


def test_not_onto_itself(tmp_path: Path) -> None:
    old = tmp_path / "it.sqlite"
    private(old, "3.20.3")
    link = tmp_path / "link.sqlite"
    link.symlink_to(old)
    for output in (old, link):
        with pytest.raises(InputError, match="is the file to be redacted"):
            redact(old, output, force=True)


def test_a_report_is_not_redacted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "it.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 1.")
    assert cli.run(["redact", str(report), "-o", str(tmp_path / "out.sqlite")]) == 2
    assert "only its export can be redacted" in capfd.readouterr().err


def test_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "128k") as disk:
        with pytest.raises(InputError, match=rf"the disk of {disk} is full"):
            redact(SAMPLES[0], disk / "out.sqlite")
        assert list(disk.iterdir()) == []


def test_json_of_a_payload_is_cleaned(tmp_path: Path) -> None:
    old, new = tmp_path / "it.sqlite", tmp_path / "out.sqlite"
    payload = json.dumps({"file": "/data/projects/alice/x.bin", "size": 3})
    with TraceWriter(old) as w:
        w.nvtx_row(0, 10, 59, "Batch", jsonText=payload, binaryData="616c696365")
    redact(old, new)
    assert texts(new, "SELECT jsonText FROM NVTX_EVENTS") == [
        '{"file": "<folder 1>/x.bin", "size": 3}'
    ]
    assert texts(new, "SELECT binaryData FROM NVTX_EVENTS") == [""]
