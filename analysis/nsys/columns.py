"""Whole columns of an export as NumPy arrays, through ADBC's SQLite driver and Arrow.

Tables are read in pieces by several threads: SQLite decodes rows without Python's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import adbc_driver_manager
import adbc_driver_sqlite
import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.dialects import sqlite

from analysis.nsys.database import Database, damaged
from analysis.nsys.schema import Source

# Large enough that a piece's fixed costs vanish, small enough to share a table between cores.
_PIECE_ROWS = 500_000


@dataclass(frozen=True, eq=False)
class Columns:
    """The integer columns of one table, under the names of `analysis.nsys.schema`.

    Attributes:
        table: The table's name in the export; of an absent one its first name.
        values: Column name to int64 array, all of one length. NULL has become the column's default.
        missing: Rows, as a bool array, that lack a required value.
        text: Inline text: for each row an index into distinct texts, -1 where it has none, and
            these texts; None unless asked for.
    """

    table: str
    values: dict[str, NDArray[np.int64]]
    missing: NDArray[np.bool_]
    text: tuple[NDArray[np.int32], Sequence[bytes]] | None = None

    def __len__(self) -> int:
        return len(self.missing)

    def where(self, keep: NDArray[np.bool_]) -> Columns:
        """Some of the rows; the table itself where they are all."""
        if keep.all():
            return self
        values = {name: column[keep] for name, column in self.values.items()}
        text = None if self.text is None else (self.text[0][keep], self.text[1])
        return Columns(self.table, values, self.missing[keep], text)


def read(
    database: Database,
    sources: Sequence[tuple[Source, bool]],
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Columns]:
    """Read tables side by side.

    Args:
        database: The export.
        sources: Tables, each with whether its `text` column is wanted too.
        on_progress: Called with rows read so far and rows in all.

    Returns:
        One `Columns` per source; without rows where the table is absent.

    Raises:
        InputError: The file is damaged, or a column holds something else than integers.
    """
    plans = [_Plan(database, source, with_text) for source, with_text in sources]
    pieces = [(plan, low, high) for plan in plans for low, high in plan.pieces()]
    total = sum(high - low + 1 for _, low, high in pieces)
    done = 0

    def work(piece: tuple[_Plan, int, int]) -> int:
        plan, low, high = piece
        plan.fill(low, high)
        return high - low + 1

    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        for rows in pool.map(work, pieces):
            done += rows
            if on_progress:
                on_progress(done, total)
    return [plan.columns() for plan in plans]


class _Plan:
    """How one table is read, and what of it has been read.

    Every piece writes into its place in arrays for the whole table, so that Arrow's memory is used
    again by the next one.
    """

    def __init__(self, database: Database, source: Source, with_text: bool) -> None:
        self._database = database
        self._source = source
        found = database.first_table(source.names)
        self._table = found
        present = database.columns(found) if found else frozenset[str]()
        self._actual = {
            column.name: next((name for name in column.names if name in present), None)
            for column in source.columns
        }
        self._with_text = with_text and "text" in present
        span = database.row_span(found) if found else None
        self._low, self._high = span or (0, -1)
        # A row takes a byte at least: with fewer bytes than ids most of these are not in use.
        self._dense = self._high - self._low < database.path.stat().st_size
        self._allocate(self._high - self._low + 1 if self._dense else 0)
        self._counts: dict[int, int] = {}
        self._texts: dict[int, pa.ChunkedArray] = {}

    def _allocate(self, rows: int) -> None:
        self._values = {column.name: np.empty(rows, np.int64) for column in self._source.columns}
        self._missing = np.zeros(rows, bool)
        self._has_text = np.zeros(rows if self._with_text else 0, bool)

    def pieces(self) -> list[tuple[int, int]]:
        """Row id ranges, both ends included; none for an absent or empty table."""
        size = _PIECE_ROWS if self._dense else self._high - self._low + 1
        return [
            (first, min(first + size - 1, self._high))
            for first in range(self._low, self._high + 1, size)
        ]

    def _sql(self, low: int, high: int) -> str:
        selected: list[sa.ColumnElement[Any]] = [
            sa.column(actual).label(name) for name, actual in self._actual.items() if actual
        ]
        if self._with_text:
            text: sa.ColumnClause[Any] = sa.column("text")
            # ADBC takes a column's type from its first rows; a NULL there must not make it integer.
            blob = sa.func.coalesce(sa.cast(text, sa.BLOB), sa.literal_column("x''"))
            selected += [blob.label("text"), text.is_not(None).label("has_text")]
        rowid: sa.ColumnClause[int] = sa.literal_column("rowid")
        query = (
            sa.select(*selected)
            .select_from(sa.table(str(self._table)))
            .where(rowid.between(low, high))
            .order_by(rowid)
        )
        return str(query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))

    def fill(self, low: int, high: int) -> None:
        """Read one of `pieces`; several threads may do so at once.

        Raises:
            InputError: The file is damaged, or a column holds something else than integers.
        """
        rows = _query(self._database, self._sql(low, high))
        if not self._dense:
            self._allocate(rows.num_rows)
        first = low - self._low
        place = slice(first, first + rows.num_rows)
        for column in self._source.columns:
            actual = self._actual[column.name]
            values = self._values[column.name][place]
            if actual is None:
                values[:] = column.default or 0
                if column.default is None:
                    self._missing[place] = True
                continue
            chunked = rows.column(column.name)
            if chunked.type != pa.int64():
                raise damaged(
                    self._database.path,
                    TypeError(f"{self._table}.{actual} holds {chunked.type}, not integers"),
                )
            _copy(chunked, values)
            if chunked.null_count:
                null = _nulls(chunked)
                values[null] = column.default or 0
                if column.default is None:
                    self._missing[place] |= null
        if self._with_text:
            has_text = np.empty(rows.num_rows, np.int64)
            _copy(rows.column("has_text"), has_text)
            self._has_text[place] = has_text != 0
            self._texts[first] = rows.column("text")
        self._counts[first] = rows.num_rows

    def columns(self) -> Columns:
        """The table, once all pieces are read."""
        table = self._table or self._source.names[0]
        # Pieces with unused row ids leave holes.
        holes = sum(self._counts.values()) < len(self._missing)
        places = [slice(first, first + n) for first, n in sorted(self._counts.items())]

        def whole(array: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([array[place] for place in places]) if holes else array

        text = None
        if self._with_text and places:
            texts = [chunk for _, array in sorted(self._texts.items()) for chunk in array.chunks]
            encoded = pa.chunked_array(texts, pa.binary()).combine_chunks().dictionary_encode()
            index = np.array(np.from_dlpack(encoded.indices), np.int32)
            index[~whole(self._has_text)] = -1
            text = index, encoded.dictionary.to_pylist()
        values = {name: whole(array) for name, array in self._values.items()}
        return Columns(table, values, whole(self._missing), text)


# Arrow's own conversions import all of pandas, a quarter of a second; its buffers do not.


def _copy(chunked: pa.ChunkedArray, target: NDArray[np.int64]) -> None:
    """Copies the values; those of NULLs are arbitrary."""
    first = 0
    for chunk in chunked.chunks:
        values = np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), chunk.offset * 8)
        target[first : first + len(chunk)] = values
        first += len(chunk)


def _nulls(chunked: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Which values are NULL."""
    parts = []
    for chunk in chunked.chunks:
        bitmap = chunk.buffers()[0]
        null = np.zeros(len(chunk), bool)
        if bitmap is not None:
            bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
            null = bits[chunk.offset : chunk.offset + len(chunk)] == 0
        parts.append(null)
    return np.concatenate(parts)


def _query(database: Database, sql: str) -> pa.Table:
    # The low-level interface: the DBAPI one imports all of pandas at its start.
    try:
        with (
            adbc_driver_sqlite.connect(database.uri) as adbc,
            adbc_driver_manager.AdbcConnection(adbc) as connection,
            adbc_driver_manager.AdbcStatement(connection) as statement,
        ):
            statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_PIECE_ROWS)})
            statement.set_sql_query(sql)
            stream, _ = statement.execute_query()
            return pa.RecordBatchReader.from_stream(stream).read_all()
    except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
        raise damaged(database.path, error) from error
