"""A bare scan of the columns that an analysis reads: ADBC to Arrow, nothing else."""

from __future__ import annotations

import sys

import adbc_driver_manager
import adbc_driver_sqlite
import pyarrow as pa

QUERIES = (
    'SELECT start, "end", deviceId, streamId, correlationId, globalPid, shortName'
    " FROM CUPTI_ACTIVITY_KIND_KERNEL",
    'SELECT start, "end", globalTid, correlationId, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME',
    'SELECT start, "end", deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind,'
    " dstKind FROM CUPTI_ACTIVITY_KIND_MEMCPY",
    'SELECT start, "end", globalTid, nameId, eventClass FROM OSRT_API',
    'SELECT start, "end", eventType, globalTid, endGlobalTid, color, textId FROM NVTX_EVENTS',
)

rows = 0
for query in QUERIES:
    with (
        adbc_driver_sqlite.connect(f"file:{sys.argv[1]}?mode=ro") as database,
        adbc_driver_manager.AdbcConnection(database) as connection,
        adbc_driver_manager.AdbcStatement(connection) as statement,
    ):
        statement.set_sql_query(query)
        stream, _ = statement.execute_query()
        rows += pa.RecordBatchReader.from_stream(stream).read_all().num_rows
print(f"{rows:,} rows")
