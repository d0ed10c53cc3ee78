"""Copies an export without what identifies the machine, its user and their other programs.

Everything is copied by an explicit permission: numbers always, text only from the columns that
`_CLEANED` and `_VERBATIM` name, strings only where a column of `_CODE_REFERENCES` or
`_TEXT_REFERENCES` refers to them. A table or column
that a future nsys adds loses its text and keeps its numbers. The new file is written from nothing,
so no freed page of the old one is in it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import re
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.errors import InputError
from analysis.nsys.environment import is_credential
from analysis.nsys.files import disk_full, refuse_existing, staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Tables whose rows are all left out: the program's output.
DROPPED_TABLES = frozenset({"ProcessStreams", "ANALYSIS_FILE"})
#: Columns of any table that refer to StringIds by names out of code: API calls, kernels, symbols.
#: They lose their paths and nothing else.
_CODE_REFERENCES = frozenset(
    {"nameId", "shortName", "demangledName", "mangledName", "symbol", "module"}
)
#: Those that refer to what the program's author wrote: range names, messages.
_TEXT_REFERENCES = frozenset({"textId", "jsonTextId"})
#: Text columns that are kept, cleaned of paths, addresses, and host and user names.
_CLEANED = frozenset(
    {
        ("NVTX_EVENTS", "text"),
        ("NVTX_EVENTS", "jsonText"),
        ("PROCESSES", "name"),
        ("DIAGNOSTIC_EVENT", "text"),
        ("CUDA_GPU_MEMORY_USAGE_EVENTS", "name"),
        ("TARGET_INFO_GPU", "name"),
        ("TARGET_INFO_CUDA_GPU", "name"),
        ("TARGET_INFO_GPU_METRICS", "metricName"),
        ("TARGET_INFO_GPU_METRICS", "typeName"),
        ("NVTX_PAYLOAD_SCHEMAS", "name"),
        ("NVTX_PAYLOAD_SCHEMA_ENTRIES", "name"),
    }
)
#: Text columns that are kept as they are: they name hardware, not a machine, or nsys' own words.
_VERBATIM = frozenset(
    {
        ("UnwindMethodType", "name"),
        ("TARGET_INFO_GPU", "busLocation"),
        ("TARGET_INFO_GPU", "chipName"),
        ("TARGET_INFO_SESSION_START_TIME", "utcTime"),
        ("NSYSLAB_EXPORT", "name"),
        ("NSYSLAB_EXPORT", "value"),
    }
)
#: Text columns that tell one GPU from all others. Each gets a pseudonym, the same in every export,
#: so that it is still one device to several processes, ranks and recordings.
_PSEUDONYMS = frozenset({("TARGET_INFO_GPU", "uuid"), ("TARGET_INFO_CUDA_DEVICE", "uuid")})
#: What a pseudonym begins with, after the prefix that the driver's have ("GPU-").
_PSEUDONYM = re.compile(r"((?:[A-Z]+-)*)00000000-0000-8000-[0-9a-f]{4}-[0-9a-f]{12}")
_PREFIX = re.compile(r"((?:[A-Z]+-)*)(.*)", re.DOTALL)
_ENUM_PREFIX = "ENUM_"
_EXPORT_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
_EXPORT_KEYS = re.compile(
    r"EXPORT_(PRODUCT_\w+|SCHEMA_\w+|PLATFORM|ARCH|TIME|TIME_UTC|CONFIG_TIME_SHIFT|LAZY|OVERWRITE"
    r"|PARAM_(OVERWRITE|APPEND|LAZY|TIME_\w+|TABLES_TO_EXPORT|TIMES_TO_EXPORT)"
    r"|(PARAM_)?(INPUT|OUTPUT|OUTUPT)_FILE)"
)
#: Settings of the recording: kept when the value is a number, a flag or one word, and the key does
#: not speak of one of these.
_CAPTURE_TABLE = "META_DATA_CAPTURE"
_CAPTURE_KEYS_OUT = re.compile(
    r"ENVIRONMENT|COMMAND|ARGUMENT|WORKING_DIR|PATH|FILE|USER|HOST|DEVICE_ID|DISPLAY_NAME|ADDRESS"
    r"|SERVER|URL|PACKAGE|PASSWORD"
)
_CAPTURE_VALUE = re.compile(r"[A-Za-z0-9_.+-]{0,64}")
_SYSTEM_TABLE = "TARGET_INFO_SYSTEM_ENV"
_SYSTEM_KEYS = re.compile(
    r"Has\w+|Is(?!Persistent)\w+|Supports\w+|Cpu(Cores|SpeedMhz|Architecture|Description)"
    r"|(Nv|Cuda)DriverVersion|(Hardware|Software)Platform|OsDescription|LinuxParanoidLevel"
)
_ENVIRONMENT_ROW = re.compile(r"ENVIRONMENT_VARIABLE$")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
#: Names that many machines share; they identify nobody, and occur in innocent words.
_COMMON_NAMES = frozenset(
    {"admin", "app", "debian", "docker", "ec2-user", "jovyan", "localhost", "nobody", "nvidia"}
    | {"root", "runner", "ubuntu", "user", "vm"}
)
_USER_VARIABLES = ("USER", "LOGNAME", "USERNAME", "SUDO_USER")
_HOST_VARIABLES = ("HOSTNAME", "HOST")
# Two components at least, or one below a home folder: "/s" and "read/write" are no paths.
_COMPONENT = r"[^\s/\"'`,;:()<>|\0]+"
_PATH = re.compile(
    rf"(?<![\w/.:<>-])((?:\.{{0,2}}(?:/{_COMPONENT})+|~\w*(?:/{_COMPONENT})*))/({_COMPONENT})?"
)
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_IPV6 = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){4,7}[0-9a-fA-F]{1,4}(?![\w:])")
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>]+", re.IGNORECASE)
#: What becomes of addresses, in this order.
_ADDRESSES = ((_URL, "<url>"), (_MAIL, "<mail>"), (_MAC, "<mac>"), (_IPV6, "<ip>"), (_IPV4, "<ip>"))
#: Below this size the half-filled pages of fifty small tables are much of a file, a third with
#: pages of 4 KB; far above it small pages make a file larger, by 4 % with 36 MB.
_SMALL_FILE = 16_000_000
_SMALL_PAGE = 1024


@dataclass(frozen=True)
class Redaction:
    """What was taken out.

    Attributes:
        output: The new export.
        environments: How many environments of processes the old one held.
        variables: How many different variables were in them.
        credentials: Names of those that look like credentials, sorted.
        processes: How many processes were in its process list and had no part in the trace.
        settings: How many rows about the machine and the recording were left out.
        outputs: How many pieces of the program's output.
        strings: How many strings were emptied, environments among them.
        columns: Columns whose text was emptied, since it is not known to be harmless:
            "TABLE.column".
        folders: How many different folders were replaced by a number.
        identities: How many different names of hosts and users were replaced.
        addresses: How many different network and mail addresses and URLs.
        devices: How many GPUs got a pseudonym.
    """

    output: Path
    environments: int
    variables: int
    credentials: tuple[str, ...]
    processes: int
    settings: int
    outputs: int
    strings: int
    columns: tuple[str, ...]
    folders: int
    identities: int
    addresses: int
    devices: int


def redact(source: Path, output: Path, *, force: bool = False) -> Redaction:
    """Write a copy of an export without what identifies the machine and its user.

    Args:
        source: An SQLite export of any schema version.
        output: Where the copy goes; appears whole or not at all.
        force: Whether `output` may exist.

    Returns:
        What was taken out.

    Raises:
        InputError: `source` is no readable export, `output` exists or is `source`, or the disk is
            full.
    """
    if output.exists() and source.exists() and output.samefile(source):
        raise InputError(
            f"{output} is the file to be redacted", hint="write to another one with -o OUT.sqlite"
        )
    refuse_existing([output], force=force)
    place = output.absolute().parent
    with _reading(source) as old:
        tables = _tables(old)
        encoding = _text(old.execute("PRAGMA encoding").fetchone()[0])
        page_size = int(old.execute("PRAGMA page_size").fetchone()[0])
        if source.stat().st_size < _SMALL_FILE:
            page_size = _SMALL_PAGE
        blocks = _environment_blocks(old, tables)
        cleaner = _Cleaner(encoding, _identities(old, tables, blocks))
    try:
        with staging(place, output.name) as folder:
            made = folder / output.name
            with contextlib.closing(
                sqlite3.connect(made.as_uri(), uri=True, isolation_level=None)
            ) as new:
                new.execute(f"PRAGMA encoding = '{encoding}'")
                new.execute(f"PRAGMA page_size = {page_size}")
                new.execute("PRAGMA journal_mode = OFF")
                new.execute("PRAGMA temp_store = MEMORY")
                new.execute("ATTACH ? AS old", (f"{source.absolute().as_uri()}?mode=ro",))
                _copy(new, tables, cleaner)
                left_out = {
                    table: _left_out(new, table)
                    for table in ("PROCESSES", *_FILTERS, *DROPPED_TABLES)
                    if table in tables
                }
                strings, columns = _emptied_strings(new), _emptied_columns(new, tables)
            made.replace(output)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(place, output.name) from error
        raise InputError(f"{output} cannot be written: {error.strerror}") from error
    except sqlite3.Error as error:
        if "disk is full" in str(error):
            raise disk_full(place, output.name) from error
        raise InputError(f"{source} cannot be copied: {error}") from error
    variables = {name: value for block in blocks for name, value in block}
    return Redaction(
        output=output,
        environments=len(blocks),
        variables=len(variables),
        credentials=tuple(sorted(n for n, v in variables.items() if is_credential(n, v))),
        processes=left_out.get("PROCESSES", 0),
        settings=sum(left_out.get(table, 0) for table in _FILTERS),
        outputs=sum(left_out.get(table, 0) for table in DROPPED_TABLES),
        strings=strings,
        columns=columns,
        folders=len(cleaner.folders),
        identities=len(cleaner.identities),
        addresses=len(cleaner.addresses),
        devices=len(cleaner.devices),
    )


def environments(source: Path) -> list[tuple[str, str]]:
    """All environment variables in an export, of whatever process, as (name, value).

    nsys stores those of the program, of itself, and of every process of the machine that it may
    read.

    Raises:
        InputError: `source` is no readable export.
    """
    with _reading(source) as connection:
        blocks = _environment_blocks(connection, _tables(connection))
    return [variable for block in blocks for variable in block]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """An export, opened for reading; its errors as errors of the input."""
    try:
        path.open("rb").close()
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            connection.text_factory = bytes
            yield connection
    except sqlite3.DatabaseError as error:
        raise InputError(
            f"{path} cannot be read as an SQLite export: {error}",
            hint="make a new one of the report: nsyslab export REPORT.nsys-rep --force",
        ) from error
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except PermissionError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


@dataclass(frozen=True)
class _Column:
    name: str
    affinity: str
    not_null: bool
    primary_key: int


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tables(connection: sqlite3.Connection) -> dict[str, tuple[_Column, ...]]:
    """All tables and their columns.

    Raises:
        InputError: The file is no nsys export.
    """
    names = [
        _text(name)
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    if "StringIds" not in names:
        raise InputError(
            "this SQLite file is no nsys export: it has no table StringIds",
            hint="make one with: nsyslab export REPORT.nsys-rep",
        )
    tables: dict[str, tuple[_Column, ...]] = {}
    for name in names:
        if not name.startswith("sqlite_"):
            rows = connection.execute(f"PRAGMA table_info({_quoted(name)})")
            tables[name] = tuple(
                _Column(_text(row[1]), _affinity(_text(row[2])), bool(row[3]), int(row[5]))
                for row in rows
            )
    return tables


def _affinity(declared: str) -> str:
    """The declared type as one of SQLite's five, by its rules."""
    upper = declared.upper()
    for words, affinity in (
        (("INT",), "INTEGER"),
        (("CHAR", "CLOB", "TEXT"), "TEXT"),
        (("BLOB",), "BLOB"),
        (("REAL", "FLOA", "DOUB"), "REAL"),
    ):
        if any(word in upper for word in words):
            return affinity
    return "NUMERIC" if upper else "BLOB"


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _named_values(
    connection: sqlite3.Connection, tables: dict[str, tuple[_Column, ...]], table: str
) -> list[tuple[str, str]]:
    if not {"name", "value"} <= {column.name for column in tables.get(table, ())}:
        return []
    rows = connection.execute(f"SELECT name, value FROM {_quoted(table)}")  # noqa: S608
    return [(_text(name), _text(value)) for name, value in rows if value is not None]


def _environment_blocks(
    connection: sqlite3.Connection, tables: dict[str, tuple[_Column, ...]]
) -> list[list[tuple[str, str]]]:
    """The environments in the three places where nsys puts them, each as (name, value) pairs."""
    blocks: list[list[tuple[str, str]]] = []
    captured = [
        _variable(value.replace('="', "=", 1).removesuffix('"'))
        for name, value in _named_values(connection, tables, _CAPTURE_TABLE)
        if _ENVIRONMENT_ROW.search(name)
    ]
    blocks.append(captured)
    for name, value in _named_values(connection, tables, _SYSTEM_TABLE):
        if name == "DeviceEnvironment":
            # Separated by NUL, or since 2023 by semicolons.
            parts = value.split("\0") if "\0" in value else re.split(r";(?=[A-Za-z_]\w*=)", value)
            blocks.append([_variable(part) for part in parts if part])
    # A process with a single variable has no NUL in its environment.
    rows = connection.execute(
        "SELECT value FROM StringIds "
        "WHERE instr(CAST(value AS BLOB), x'00') OR value GLOB '[A-Z_]*=*'"
    )
    for (value,) in rows:
        parts = [part for part in _text(value).split("\0") if part]
        if parts and all(_VARIABLE.match(part) for part in parts):
            blocks.append([_variable(part) for part in parts])
    return [block for block in blocks if block]


def _variable(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _identities(
    connection: sqlite3.Connection,
    tables: dict[str, tuple[_Column, ...]],
    blocks: list[list[tuple[str, str]]],
) -> dict[str, str]:
    """Names of hosts and users that the export tells, each with what to put in its place."""
    hosts: list[str] = []
    users: list[str] = []
    for table in _EXPORT_TABLES:
        meta = dict(_named_values(connection, tables, table))
        hosts.append(meta.get("EXPORT_HOST", ""))
        users.append(meta.get("EXPORT_USER", ""))
    for name, value in _named_values(connection, tables, _CAPTURE_TABLE):
        if name == "DEVICE_DISPLAY_NAME":
            hosts.append(value)
        elif name.endswith(":USER_NAME"):
            users.append(value)
    for name, value in _named_values(connection, tables, _SYSTEM_TABLE):
        if name == "Hostname":
            hosts.append(value)
    for block in blocks:
        for name, value in block:
            if name in _HOST_VARIABLES:
                hosts.append(value)
            elif name in _USER_VARIABLES:
                users.append(value)
            elif name == "HOME":
                users.append(value.rstrip("/").rpartition("/")[2])
    hosts += [host.partition(".")[0] for host in hosts]
    found = dict.fromkeys(users, "<user>") | dict.fromkeys(hosts, "<host>")
    return {
        name: place
        for name, place in found.items()
        if len(name) > 2 and name.lower() not in _COMMON_NAMES
    }


class _Cleaner:
    """Takes paths, addresses, host and user names out of text; equal text stays equal.

    Args:
        encoding: How the database stores text, in SQLite's words.
        identities: Words to replace, and by what.
    """

    def __init__(self, encoding: str, identities: dict[str, str]) -> None:
        self._codec, self._errors = {
            "UTF-16le": ("utf-16-le", "surrogatepass"),
            "UTF-16be": ("utf-16-be", "surrogatepass"),
        }.get(encoding, ("utf-8", "surrogateescape"))
        self._identities = identities
        words = "|".join(re.escape(word) for word in sorted(identities, key=len, reverse=True))
        self._identity = (
            re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])") if words else None
        )
        self.folders: dict[str, int] = {}
        self.identities: set[str] = set()
        self.addresses: set[str] = set()
        self.devices: set[str] = set()

    def code(self, stored: bytes) -> bytes:
        """A name out of code: an API call, a kernel, a symbol, a module."""
        return self._through(stored, self._without_paths)

    def text(self, stored: bytes) -> bytes:
        """What the program's author wrote."""
        return self._through(stored, self._without_anything)

    def program(self, stored: bytes) -> bytes:
        """The name of a process: the last component of its path."""
        return self._through(
            stored, lambda text: self._without_anything(text.rstrip("/").rpartition("/")[2])
        )

    def device(self, stored: bytes) -> bytes:
        """The identifier of a GPU; a pseudonym stays as it is."""
        return self._through(stored, self._pseudonym)

    def _through(self, stored: bytes, change: Callable[[str], str]) -> bytes:
        text = stored.decode(self._codec, self._errors)
        parts = [part for part in text.split("\0") if part]
        if len(parts) > 1 and all(_VARIABLE.match(part) for part in parts):
            return b""  # an environment, whoever refers to it
        return change(text).encode(self._codec, self._errors)

    def _without_anything(self, text: str) -> str:
        for pattern, place in _ADDRESSES:
            self.addresses.update(pattern.findall(text))
            text = pattern.sub(place, text)
        text = self._without_paths(text)
        if self._identity is not None:
            self.identities.update(self._identity.findall(text))
            text = self._identity.sub(lambda match: self._identities[match[0]], text)
        return text

    def _pseudonym(self, text: str) -> str:
        if not text or _PSEUDONYM.fullmatch(text):
            return text
        self.devices.add(text)
        prefix, identifier = _PREFIX.fullmatch(text).groups()  # type: ignore[union-attr]
        digest = hashlib.blake2b(
            identifier.lower().encode(errors="surrogateescape"), digest_size=8, person=b"nsyslab"
        ).hexdigest()
        return f"{prefix}00000000-0000-8000-{digest[:4]}-{digest[4:]}"

    def _without_paths(self, text: str) -> str:
        return _PATH.sub(self._numbered, text) if "/" in text else text

    def _numbered(self, match: re.Match[str]) -> str:
        number = self.folders.setdefault(match[1], len(self.folders) + 1)
        return f"<folder {number}>/{match[2] or ''}"


def _copy(
    new: sqlite3.Connection, tables: dict[str, tuple[_Column, ...]], cleaner: _Cleaner
) -> None:
    """Fill the new file."""
    new.create_function("clean_code", 1, cleaner.code, deterministic=True)
    new.create_function("clean_text", 1, cleaner.text, deterministic=True)
    new.create_function("clean_program", 1, cleaner.program, deterministic=True)
    new.create_function("clean_device", 1, cleaner.device, deterministic=True)
    new.create_function("matches", 2, _matches, deterministic=True)
    new.execute("BEGIN")
    _find_processes(new, tables)
    _find_strings(new, tables)
    for table, columns in tables.items():
        definitions = [
            f"{_quoted(column.name)} {column.affinity}{' NOT NULL' if column.not_null else ''}"
            for column in columns
        ]
        keys = sorted((c.primary_key, _quoted(c.name)) for c in columns if c.primary_key)
        if keys:
            definitions.append(f"PRIMARY KEY ({', '.join(name for _, name in keys)})")
        new.execute(f"CREATE TABLE main.{_quoted(table)} ({', '.join(definitions)})")
        if table in DROPPED_TABLES:
            continue
        values = ", ".join(_value(table, column) for column in columns)
        new.execute(
            f"INSERT INTO main.{_quoted(table)} SELECT {values} FROM old.{_quoted(table)} "  # noqa: S608
            f"{_rows(table, columns)}"
        )
    new.execute("COMMIT")


def _left_out(new: sqlite3.Connection, table: str) -> int:
    """How many rows of a table were not copied."""
    name = _quoted(table)
    count = f"SELECT (SELECT count(*) FROM old.{name}) - (SELECT count(*) FROM main.{name})"  # noqa: S608
    return int(new.execute(count).fetchone()[0])


def _emptied_strings(new: sqlite3.Connection) -> int:
    """How many strings nothing refers to that may be kept."""
    count = (
        "SELECT count(*) FROM old.StringIds WHERE value <> '' AND id NOT IN "
        "(SELECT id FROM temp.code UNION SELECT id FROM temp.written)"
    )
    return int(new.execute(count).fetchone()[0])


def _emptied_columns(
    new: sqlite3.Connection, tables: dict[str, tuple[_Column, ...]]
) -> tuple[str, ...]:
    """Columns, other than StringIds', that held text and were not allowed to keep it."""
    found = []
    for table, columns in tables.items():
        if table in DROPPED_TABLES:
            continue
        for column in columns:
            if _kept_text(table, column) is not None:
                continue
            name = _quoted(column.name)
            held = (
                f"SELECT 1 FROM old.{_quoted(table)} "  # noqa: S608
                f"WHERE typeof({name}) = 'text' AND {name} <> '' LIMIT 1"
            )
            if new.execute(held).fetchone():
                found.append(f"{table}.{column.name}")
    return tuple(found)


#: Tables that speak of processes which had no part in the trace.
_OF_ALL_PROCESSES = frozenset(
    {"PROCESSES", "ThreadNames", "DIAGNOSTIC_EVENT", "SCHED_EVENTS", "COMPOSITE_EVENTS"}
)
_TID_MASK = 0xFFFFFF


def _find_processes(new: sqlite3.Connection, tables: dict[str, tuple[_Column, ...]]) -> None:
    """Fill temp.traced with the global ids of the processes that have events."""
    new.execute("CREATE TEMP TABLE traced (id INTEGER PRIMARY KEY)")
    for table, columns in tables.items():
        if table in _OF_ALL_PROCESSES or table in DROPPED_TABLES:
            continue
        for column in columns:
            if column.name in ("globalPid", "globalTid"):
                name = _quoted(column.name)
                new.execute(
                    f"INSERT OR IGNORE INTO temp.traced SELECT DISTINCT {name} & ~{_TID_MASK} "  # noqa: S608
                    f"FROM old.{_quoted(table)} WHERE typeof({name}) = 'integer'"
                )


def _find_strings(new: sqlite3.Connection, tables: dict[str, tuple[_Column, ...]]) -> None:
    """Fill temp.code and temp.written with the ids of the strings that are referred to."""
    new.execute("CREATE TEMP TABLE code (id INTEGER PRIMARY KEY)")
    new.execute("CREATE TEMP TABLE written (id INTEGER PRIMARY KEY)")
    for table, columns in tables.items():
        if table in DROPPED_TABLES:
            continue
        for column in columns:
            if column.name in _CODE_REFERENCES and table != "ThreadNames":
                kind = "code"
            elif column.name in _TEXT_REFERENCES or column.name == "nameId":
                kind = "written"
            else:
                continue
            name = _quoted(column.name)
            rows = _rows(table, columns, where=f"typeof({name}) = 'integer'")
            new.execute(
                f"INSERT OR IGNORE INTO temp.{kind} SELECT DISTINCT {name} "  # noqa: S608
                f"FROM old.{_quoted(table)} {rows}"
            )


def _rows(table: str, columns: tuple[_Column, ...], *, where: str | None = None) -> str:
    """Which rows of a table are copied, and in which order."""
    names = {column.name for column in columns}
    conditions = [where] if where else []
    if table == "PROCESSES" and "globalPid" in names:
        conditions.append("globalPid IN (SELECT id FROM temp.traced)")
    elif table == "ThreadNames" and "globalTid" in names:
        conditions.append(f"(globalTid & ~{_TID_MASK}) IN (SELECT id FROM temp.traced)")  # noqa: S608
    elif table in _FILTERS and {"name", "value"} <= names:
        conditions.append(f"matches('{table}', name || char(31) || coalesce(value, ''))")
    text = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    return text if where else f"{text}ORDER BY rowid"


def _matches(table: str, row: str) -> bool:
    """Whether a setting may be kept."""
    name, _, value = row.partition("\x1f")
    return _FILTERS[table](name, value)


def _keep_export(name: str, value: str) -> bool:
    return bool(_EXPORT_KEYS.fullmatch(name)) and "/" not in value


def _keep_capture(name: str, value: str) -> bool:
    return not _CAPTURE_KEYS_OUT.search(name) and bool(_CAPTURE_VALUE.fullmatch(value))


def _keep_system(name: str, value: str) -> bool:  # noqa: ARG001 - like the others
    return bool(_SYSTEM_KEYS.fullmatch(name))


_FILTERS: dict[str, Callable[[str, str], bool]] = {
    **dict.fromkeys(_EXPORT_TABLES, _keep_export),
    _CAPTURE_TABLE: _keep_capture,
    _SYSTEM_TABLE: _keep_system,
}


def _value(table: str, column: _Column) -> str:
    """What of a column is copied, in SQL: numbers as they are, text as it is allowed."""
    name = _quoted(column.name)
    text = _kept_text(table, column) or "''"
    blob = "x''" if column.not_null else "NULL"
    return f"CASE typeof({name}) WHEN 'text' THEN {text} WHEN 'blob' THEN {blob} ELSE {name} END"


def _kept_text(table: str, column: _Column) -> str | None:
    """What becomes of a column's text, in SQL; None if it is not kept."""
    name = _quoted(column.name)
    place = (table, column.name)
    if table == "StringIds" and column.name == "value":
        code, written = _call("clean_code", name), _call("clean_text", name)
        return (
            f"CASE WHEN id IN (SELECT id FROM temp.code) THEN {code} "  # noqa: S608
            f"WHEN id IN (SELECT id FROM temp.written) THEN {written} ELSE '' END"
        )
    if place == ("PROCESSES", "name"):
        return _call("clean_program", name)
    if place in _CLEANED:
        return _call("clean_text", name)
    if place in _PSEUDONYMS:
        return _call("clean_device", name)
    kept = place in _VERBATIM or table.startswith(_ENUM_PREFIX)
    return name if kept or (table in _FILTERS and column.name in ("name", "value")) else None


def _call(function: str, name: str) -> str:
    # As bytes: text that is not UTF-8 is kept as it is.
    return f"CAST({function}(CAST({name} AS BLOB)) AS TEXT)"
