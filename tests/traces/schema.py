"""Table layouts of nsys SQLite exports, by schema version.

`LAYOUTS` is what version 3.20.3 (nsys 2025.3) writes, column for column; `CHANGES` says what was
different before and after. Where the facts come from:

========  ==========  ==========================================================================
schema    nsys        source of the layout
========  ==========  ==========================================================================
(none)    2020        documentation and public queries of that time; the export names no version
2.7.1     2021.5      interpolated between 2020 and 3.0.0
3.0.0     2022.4.2    that nsys, ``nsys export --lazy=false``
3.1.7     2023.1      interpolated between 3.0.0 and 3.7.2
3.7.2     2023.4.4    that nsys, ``nsys export --lazy=false``
3.20.3    2025.3      that nsys, real recordings
3.25.0    2026.2      interpolated between 3.20.3 and 3.27.0
3.27.0    2026.x      its published schema
9.9.9     -           made up: columns and tables that nobody has seen yet
========  ==========  ==========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

#: A version as it sorts; the nameless exports of 2020 come first.
Version = tuple[int, ...]

#: Schema version to product version, as META_DATA_EXPORT has them.
VERSIONS: dict[str | None, str] = {
    None: "2020.3.4",
    "2.7.1": "2021.5.1",
    "3.0.0": "2022.4.2.1",
    "3.1.7": "2023.1.2.43",
    "3.7.2": "2023.4.4.54",
    "3.20.3": "2025.3.2.0",
    "3.25.0": "2026.2.1.0",
    "3.27.0": "2026.3.1.0",
    "9.9.9": "2031.1.1.0",
}

# One column a word: NAME[:TYPE][!]. The type is INTEGER unless T (TEXT) or R (REAL); `!` is NOT
# NULL, `!!` the primary key.
_GPU_PLACE = "deviceId! contextId! greenContextId streamId! correlationId globalPid"
_PAYLOAD = (
    "uint64Value int64Value doubleValue:R uint32Value int32Value floatValue:R jsonTextId jsonText:T"
)
_ENUM = "id!! name:T label:T"
_NAMED_VALUE = "name:T! value:T"

LAYOUTS: dict[str, str] = {
    "StringIds": "id!! value:T!",
    "ThreadNames": "nameId! priority globalTid",
    "ProcessStreams": "globalPid! filenameId! contentId!",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName:T! name:T! nameEnum! value:T!",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:T localTime:T",
    "ANALYSIS_DETAILS": "globalVid! duration! startTime! stopTime!",
    "TARGET_INFO_GPU": (
        "vmId! id! name:T busLocation:T isDiscrete l2CacheSize totalMemory memoryBandwidth"
        " clockRate smCount pwGpuId uuid:T luid chipName:T cuDevice ctxswDevPath:T"
        " ctrlDevPath:T revision nodeMask constantMemory maxIPC maxRegistersPerBlock"
        " maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm maxRegistersPerSm threadsPerWarp"
        " asyncEngines maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX maxBlockDimY"
        " maxBlockDimZ maxGridDimX maxGridDimY maxGridDimZ computeMajor computeMinor"
        " smMajor smMinor"
    ),
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId! pid!",
    "TARGET_INFO_CUDA_CONTEXT_INFO": (
        "nullStreamId! hwId! vmId! processId! deviceId! contextId! parentContextId isGreenContext"
    ),
    "TARGET_INFO_CUDA_STREAM": "streamId! hwId! vmId! processId! contextId! priority! flag!",
    "META_DATA_CAPTURE": _NAMED_VALUE,
    "META_DATA_EXPORT": _NAMED_VALUE,
    "ENUM_NSYS_EVENT_TYPE": _ENUM,
    "ENUM_NSYS_EVENT_CLASS": _ENUM,
    "ENUM_CUDA_MEMCPY_OPER": _ENUM,
    "ENUM_CUDA_MEM_KIND": _ENUM,
    "ENUM_CUPTI_SYNC_TYPE": _ENUM,
    "ENUM_CUDA_UNIF_MEM_MIGRATION": _ENUM,
    "ENUM_CUDA_KERNEL_LAUNCH_TYPE": _ENUM,
    "DIAGNOSTIC_EVENT": "timestamp! timestampType! source! severity! text:T! globalPid",
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        f"start! end! {_GPU_PLACE} bytes! copyKind! deprecatedSrcId srcKind dstKind srcDeviceId"
        " srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress copyCount"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": f"start! end! {_GPU_PLACE} value! bytes! graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        f"start! end! {_GPU_PLACE} demangledName! shortName! mangledName launchType cacheConfig"
        " registersPerThread! gridX! gridY! gridZ! blockX! blockY! blockZ! staticSharedMemory!"
        " dynamicSharedMemory! localMemoryPerThread! localMemoryTotal! gridId!"
        " sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        f"start! end! {_GPU_PLACE} deprecatedSyncType syncType! eventId! eventSyncId"
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": f"{_GPU_PLACE} eventId! eventSyncId",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"start! end! {_GPU_PLACE} graphId! graphExecId!",
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start! end! eventClass! globalTid correlationId nameId! returnValue! callchainId"
    ),
    "CUDNN_EVENTS": "start! end! eventClass! globalTid nameId!",
    "CUBLAS_EVENTS": "start! end! eventClass! globalTid nameId!",
    "CUDA_GRAPH_NODE_EVENTS": (
        "start! end! eventClass! globalTid nameId! graphNodeId! originalGraphNodeId"
    ),
    "CUDA_GRAPH_EVENTS": (
        "start! end! eventClass! globalTid nameId! graphId originalGraphId graphExecId"
    ),
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": (
        "start! globalPid! address! originalFaultPc CpuInstruction! module! unresolvedFaultPc"
    ),
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": (
        "start! end! globalPid! deviceId! address! numberOfPageFaults! faultAccessType!"
    ),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        "start! globalPid! deviceId! contextId! address! pc! bytes! memKind! memoryOperationType!"
        " name:T correlationId localMemoryPoolAddress localMemoryPoolReleaseThreshold"
        " localMemoryPoolSize localMemoryPoolUtilizedSize importedMemoryPoolAddress"
        " importedMemoryPoolProcessId"
    ),
    "NVTX_EVENTS": (
        "start! end eventType! rangeId category color text:T globalTid endGlobalTid textId domainId"
        f" {_PAYLOAD} binaryData:T"
    ),
    "OSRT_API": (
        "start! end! eventClass! globalTid nameId! returnValue! nestingLevel callchainId!"
    ),
    "OSRT_CALLCHAINS": (
        "id! symbol! module! kernelMode thumbCode unresolved specialEntry originalIP unwindMethod"
        " stackDepth!"
    ),
    "PROFILER_OVERHEAD": "start! end! globalTid nameId! returnValue!",
    "SCHED_EVENTS": "start! cpu! isSchedIn! globalTid",
    "COMPOSITE_EVENTS": "id!! start! cpu threadState globalTid cpuCycles!",
    "PROCESSES": "globalPid pid name:T",
}

#: Tables that hold a row even in a lazy export, since they are made whatever was recorded.
ALWAYS = ("StringIds", "ANALYSIS_DETAILS", "TARGET_INFO_SESSION_START_TIME")


@dataclass(frozen=True)
class Change:
    """What exports older or newer than a version do differently from 3.20.3.

    Attributes:
        table: The table as 3.20.3 names it; with `layout` alone, a table that it lacks.
        before: Holds for versions before this one.
        since: Holds for this version and later ones.
        remove: Columns that those versions do not have.
        insert: Columns as in `LAYOUTS`, each with the column that it follows ("" is the start).
        rename: The table's name in those versions.
        layout: The whole layout, where it has too little in common.
        absent: Those versions do not have the table.
    """

    table: str
    before: Version = (99,)
    since: Version = ()
    remove: tuple[str, ...] = ()
    insert: tuple[tuple[str, str], ...] = ()
    rename: str | None = None
    layout: str | None = None
    absent: bool = False


_GPU_TABLES = (
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
)
_ENUM_TABLES = tuple(table for table in LAYOUTS if table.startswith("ENUM_"))

#: In the order in which they are applied; a later one may refer to what an earlier one made.
CHANGES: tuple[Change, ...] = (
    # Before 3.20.
    Change("CUPTI_ACTIVITY_KIND_MEMCPY", before=(3, 20), remove=("copyCount",)),
    Change("NVTX_EVENTS", before=(3, 20), remove=("binaryData",)),
    Change(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        before=(3, 20),
        remove=("deprecatedSyncType", "eventSyncId"),
    ),
    Change("CUPTI_ACTIVITY_KIND_CUDA_EVENT", before=(3, 20), remove=("eventSyncId",)),
    Change("DIAGNOSTIC_EVENT", before=(3, 8), absent=True),
    # Whole graph replays, and with them graph ids, came with 2024.
    Change("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", before=(3, 11), absent=True),
    Change("CUDA_GRAPH_NODE_EVENTS", before=(3, 11), absent=True),
    Change(
        "CUDA_GRAPH_EVENTS",
        before=(3, 11),
        layout="start! end! eventClass! globalTid nameId! graphNodeId! originalGraphNodeId",
    ),
    Change("TARGET_INFO_CUDA_DEVICE", before=(3, 11), absent=True),
    *(Change(table, before=(3, 7), remove=("greenContextId",)) for table in _GPU_TABLES),
    Change(
        "TARGET_INFO_CUDA_CONTEXT_INFO",
        before=(3, 7),
        rename="TARGET_INFO_CUDA_NULL_STREAM",
        layout="streamId! hwId! vmId! processId! deviceId! contextId!",
    ),
    # 3.0 and older: no capture parameters, one table under another name, a misspelt ENUM.
    Change("META_DATA_CAPTURE", before=(3, 1), absent=True),
    Change("META_DATA_EXPORT", before=(3, 1), rename="EXPORT_META_DATA"),
    Change("ENUM_CUDA_KERNEL_LAUNCH_TYPE", before=(3, 1), rename="ENUM_CUDA_KRENEL_LAUNCH_TYPE"),
    Change("PROCESSES", before=(3,), absent=True),
    Change(
        "TARGET_INFO_SYSTEM_ENV",
        before=(3, 1),
        layout="globalVid! devStateName:T! name:T! nameEnum! value:T!",
    ),
    # 2020: no version, no labels, the GPUs in a table of another name and layout.
    Change("META_DATA_EXPORT", before=(2, 7), absent=True),
    *(Change(table, before=(2, 7), absent=True) for table in _ENUM_TABLES),
    Change("CUPTI_ACTIVITY_KIND_KERNEL", before=(2, 7), remove=("mangledName",)),
    Change(
        "CUPTI_ACTIVITY_KIND_MEMCPY", before=(2, 7), remove=("migrationCause", "virtualAddress")
    ),
    Change("CUPTI_ACTIVITY_KIND_RUNTIME", before=(2, 7), remove=("callchainId",)),
    Change("CUDA_GPU_MEMORY_USAGE_EVENTS", before=(2, 7), absent=True),
    Change(
        "TARGET_INFO_GPU",
        before=(2, 7),
        rename="TARGET_INFO_CUDA_GPU",
        layout=(
            "hwId! vmId! deviceId! name:T! uuid:T! globalMemoryBandwidth! globalMemorySize!"
            " constantMemorySize! l2CacheSize! numThreadsPerWarp! coreClockRate! numMemcpyEngines!"
            " numMultiprocessors! maxIPC! maxWarpsPerMultiprocessor! computeCapabilityMajor!"
            " computeCapabilityMinor!"
        ),
    ),
    # After 3.20.3.
    Change(
        "TARGET_INFO_CUDA_DEVICE", since=(3, 24), insert=(("pid", "uuid:T numMultiprocessors"),)
    ),
    Change("TARGET_INFO_GPU", since=(3, 24), insert=(("smMinor", "numaNodeId"),)),
    Change("CUPTI_ACTIVITY_KIND_CUDA_EVENT", since=(3, 24), insert=(("", "timestamp"),)),
    Change(
        "PROFILER_OVERHEAD",
        since=(3, 24),
        remove=("returnValue",),
        insert=(("nameId", "overheadType!"),),
    ),
    Change("ENUM_CUPTI_OVERHEAD_TYPE", since=(3, 24), layout=_ENUM),
    Change("OSRT_API", since=(3, 25), insert=(("callchainId", "argumentsId!"),)),
    Change("OSRT_ARGUMENTS", since=(3, 25), layout="id! value! argumentIndex!"),
    Change("SCHED_EVENTS", since=(3, 25), insert=(("globalTid", "threadState threadBlock"),)),
    Change(
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS",
        since=(3, 25),
        insert=(("unresolvedFaultPc", "sourceFile sourceLine"),),
    ),
    Change("CUDA_GPU_MEMORY_USAGE_EVENTS", since=(3, 25), insert=(("correlationId", "streamId"),)),
    Change(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        since=(3, 25),
        insert=(
            (
                "sharedMemoryLimitConfig",
                "qmdBulkReleaseDone qmdPreexitDone qmdLastCtaDone graphId clusterX clusterY"
                " clusterZ clusterSchedulingPolicy maxPotentialClusterSize maxActiveClusters"
                " sharedMemoryRequestedPercentage tensorSizeMinusOneElements:T!",
            ),
        ),
    ),
    Change(
        "NVTX_PAYLOAD_SCHEMAS",
        since=(3, 20),
        layout="domainId schemaId name:T type flags numEntries payloadSize alignTo",
    ),
    Change("NVTX_EVENTS", since=(3, 27), insert=(("binaryData", "eventId!!"),)),
    Change("NVTX_SCOPES", since=(3, 27), layout="domainId scopeId parentScopeId path:T"),
    Change(
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
        since=(3, 27),
        layout="start! end! eventClass! globalTid correlationId nameId overheadType!",
    ),
    # A version that nobody has seen: known columns moved about, unknown ones between them.
    *(
        Change(
            table,
            since=(9,),
            insert=(("", "flavour:T"), ("start", "startError! startSource:T")),
        )
        for table in (
            "CUPTI_ACTIVITY_KIND_KERNEL",
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            "CUPTI_ACTIVITY_KIND_MEMSET",
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            "OSRT_API",
            "NVTX_EVENTS",
        )
    ),
    Change("StringIds", since=(9,), insert=(("id", "language:T"),)),
    Change("QUANTUM_FOAM_EVENTS", since=(9,), layout="start! end! bubbles!"),
)


@dataclass(frozen=True)
class Column:
    """A column of an export's table."""

    name: str
    type: str
    not_null: bool
    primary_key: bool

    @property
    def ddl(self) -> str:
        """The column as nsys declares it."""
        words = [f'"{self.name}"', self.type]
        if self.not_null:
            words.append("NOT NULL")
        if self.primary_key:
            words.append("PRIMARY KEY")
        return " ".join(words)


def version_key(version: str | None) -> Version:
    """The version as a tuple that sorts; () for the nameless exports of 2020."""
    return tuple(int(part) for part in version.split(".")) if version else ()


def layouts(version: str | None) -> dict[str, tuple[Column, ...]]:
    """All tables of an export of that schema version, each with its columns in order.

    The keys are the names that 3.20.3 uses; `table_names` has what the version calls them.
    """
    specs = dict(LAYOUTS)
    for change in _changes(version):
        if change.absent:
            specs.pop(change.table, None)
            continue
        if change.layout is not None:
            specs[change.table] = change.layout
        if change.table in specs:
            specs[change.table] = _edit(specs[change.table], change)
    return {table: tuple(map(_column, spec.split())) for table, spec in specs.items()}


def table_names(version: str | None) -> dict[str, str]:
    """What the version calls the tables that it names otherwise than 3.20.3."""
    return {c.table: c.rename for c in _changes(version) if c.rename is not None}


def _changes(version: str | None) -> list[Change]:
    key = version_key(version)
    return [c for c in CHANGES if c.since <= key < c.before]


def _edit(spec: str, change: Change) -> str:
    words = [word for word in spec.split() if _column(word).name not in change.remove]
    for after, new in change.insert:
        names = [_column(word).name for word in words]
        at = names.index(after) + 1 if after else 0
        words[at:at] = new.split()
    return " ".join(words)


def _column(word: str) -> Column:
    bare = word.rstrip("!")
    name, _, kind = bare.partition(":")
    return Column(
        name=name,
        type={"": "INTEGER", "T": "TEXT", "R": "REAL"}[kind],
        not_null=word.endswith("!"),
        primary_key=word.endswith("!!"),
    )
