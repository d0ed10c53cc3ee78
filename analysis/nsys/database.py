"""An nsys SQLite export, opened read-only and probed for what it has.

SQLAlchemy makes the queries of the small tables and the text of all others; whole columns go
through Arrow (`analysis.nsys.columns`), which is several times faster.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from analysis.errors import InputError
from analysis.nsys import schema

_MAGIC = b"SQLite format 3\x00"


def decode(value: object) -> str:
    r"""Text as it may stand in an export; bytes that are not UTF-8 become ``\xNN``."""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    return str(value)


class Database:
    """Read-only access to one export.

    Args:
        path: An SQLite file.

    Raises:
        InputError: The file is missing, unreadable, damaged, or no nsys export.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_file(path)
        self.uri = f"file:{quote(str(path.resolve()))}?mode=ro"
        self._engine: Engine = sa.create_engine(
            "sqlite://", creator=self._connect, poolclass=sa.pool.StaticPool
        )
        if not any(name in self.tables for name in schema.MARKS):
            raise InputError(
                f"{path} is an SQLite database, but not an export of Nsight Systems",
                hint="make one with: nsys export --type sqlite REPORT.nsys-rep",
            )

    def _connect(self) -> Any:
        import sqlite3

        connection = sqlite3.connect(self.uri, uri=True, check_same_thread=False)
        connection.text_factory = bytes  # names may hold bytes that are not UTF-8
        return connection

    def close(self) -> None:
        """Release the file."""
        self._engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def connected(self) -> Iterator[Connection]:
        """A connection whose failures are `InputError`."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except sa.exc.DatabaseError as error:
            raise damaged(self.path, error) from error

    @cached_property
    def tables(self) -> frozenset[str]:
        """Names of all tables, as far as they are text."""
        with self.connected() as connection:
            rows = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")
            return frozenset(decode(name) for (name,) in rows)

    def columns(self, table: str) -> frozenset[str]:
        """Names of a table's columns; empty when there is no such table."""
        with self.connected() as connection:
            rows = connection.execute(
                sa.text("SELECT name FROM pragma_table_info(:table)"), {"table": table}
            )
            return frozenset(decode(name) for (name,) in rows)

    def first_table(self, names: Sequence[str]) -> str | None:
        """The first of several names under which a table is present."""
        return next((name for name in names if name in self.tables), None)

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Some columns of a small table in order of its rows.

        A column that the export lacks is None throughout; an absent table has no rows. Text comes
        as str.
        """
        if table not in self.tables:
            return []
        present = self.columns(table)
        wanted = [sa.column(name) if name in present else sa.null().label(name) for name in columns]
        query = sa.select(*wanted).select_from(sa.table(table)).order_by(sa.text("rowid"))
        with self.connected() as connection:
            return [
                tuple(decode(value) if isinstance(value, bytes) else value for value in row)
                for row in connection.execute(query)
            ]

    def strings(self, ids: Sequence[int]) -> dict[int, str]:
        """The strings of some ids; an id that the export lacks is not in the answer."""
        if "StringIds" not in self.tables:
            return {}
        table = sa.table("StringIds", sa.column("id"), sa.column("value"))
        query = sa.select(table.c.id, sa.cast(table.c.value, sa.LargeBinary)).where(
            table.c.id.in_(sa.bindparam("ids", expanding=True))
        )
        found: dict[int, str] = {}
        chunk = 10_000  # below SQLite's limit of bound variables
        with self.connected() as connection:
            for first in range(0, len(ids), chunk):
                rows = connection.execute(query, {"ids": list(ids[first : first + chunk])})
                found.update((int(id_), decode(value)) for id_, value in rows)
        return found

    def row_span(self, table: str) -> tuple[int, int] | None:
        """Smallest and largest rowid of a table; None when it is empty."""
        rowid: sa.ColumnClause[int] = sa.literal_column("rowid")
        with self.connected() as connection:
            # Two queries: SQLite answers each from the b-tree's edge, both together by a scan.
            source = sa.table(table)
            low = connection.scalar(sa.select(sa.func.min(rowid)).select_from(source))
            high = connection.scalar(sa.select(sa.func.max(rowid)).select_from(source))
        return None if low is None or high is None else (int(low), int(high))


def damaged(path: Path, error: BaseException) -> InputError:
    """The error for an export that SQLite cannot read to its end."""
    cause = str(getattr(error, "orig", error)).splitlines()[0]
    return InputError(
        f"{path} is damaged or incomplete: {cause}",
        hint="export it again: nsyslab export REPORT.nsys-rep --force",
    )


def _check_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            header = file.read(100)
            size = path.stat().st_size
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not an SQLite export") from None
    except PermissionError:
        raise InputError(
            f"{path} cannot be read: permission denied", hint=f"try: chmod u+r {path}"
        ) from None
    if not header:
        raise InputError(
            f"{path} is empty",
            hint="the export was cut short; export it again: "
            "nsyslab export REPORT.nsys-rep --force",
        )
    if not header.startswith(_MAGIC):
        raise InputError(
            f"{path} is not an SQLite database",
            hint="nsyslab reads .nsys-rep reports and their SQLite exports",
        )
    # A copy that was cut short still opens; only its header tells how long it should be.
    page = int.from_bytes(header[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    if len(header) < 100 or size < expected:
        raise InputError(
            f"{path} is cut short: {size:,} bytes of {expected:,}",
            hint="copy it again, or export it again: nsyslab export REPORT.nsys-rep --force",
        )
