"""Which GPU a row belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.traces.expect import Expected, device, devices, gap, host, launch
from tests.traces.traps.registry import trap

if TYPE_CHECKING:
    from tests.traces.writer import TraceWriter

UUID_A = "aaaaaaaa-0000-0000-0000-000000000000"
UUID_B = "bbbbbbbb-0000-0000-0000-000000000000"


@trap()
def two_processes_on_one_gpu(w: TraceWriter) -> Expected:
    """One device; the gap is fed by the process whose work ends it."""
    w.kernel(100, 200, call=w.api(80, 90, pid=100))
    w.osrt(200, 250, "munmap", pid=100)
    w.kernel(250, 350, call=w.api(230, 240, pid=200))
    return Expected(
        devices(
            device((100, 350), compute=200, idle=50, gaps=[gap(200, 250, host(30), launch(20))]),
        )
    )


@trap(gpus=False)
def two_gpus_both_ordinal_0(w: TraceWriter) -> Expected:
    """Each process sees one GPU, as its number 0: two devices."""
    w.gpu(0, name="first", uuid=UUID_A)
    w.gpu(1, name="second", uuid=UUID_B)
    w.cuda_device(gpu_id=0, ordinal=0, pid=100)
    w.cuda_device(gpu_id=1, ordinal=0, pid=200)
    w.kernel(100, 200, call=w.api(80, 90, pid=100))
    w.kernel(250, 350, call=w.api(230, 240, pid=200))
    return Expected(
        devices(
            device((100, 200), compute=100, gaps=[], name="first"),
            device((250, 350), compute=100, gaps=[], name="second"),
        )
    )


@trap(gpus=False)
def one_process_on_two_gpus(w: TraceWriter) -> Expected:
    """A gap of one device is filled by no work of the other; an idle third GPU is no device."""
    for number, uuid in enumerate((UUID_A, UUID_B, "cccccccc-0000-0000-0000-000000000000")):
        w.gpu(number, uuid=uuid)
        w.cuda_device(gpu_id=number, ordinal=number)
    w.kernel(100, 200, call=w.api(80, 90), device=0)
    w.kernel(200, 300, call=w.api(91, 99), device=1)
    w.kernel(300, 400, call=w.api(250, 260), device=0)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, host(50), launch(50))],
            ),
            device((200, 300), compute=100, gaps=[]),
            trace={"gpus": [{"uuid": UUID_A}, {"uuid": UUID_B}, {}]},
        )
    )


@trap(gpus=False)
def ordinals_crossed(w: TraceWriter) -> Expected:
    """CUDA_VISIBLE_DEVICES=1,0 in one process: the ordinals say nothing between processes."""
    w.gpu(0, name="first", uuid=UUID_A)
    w.gpu(1, name="second", uuid=UUID_B)
    for pid, order in ((100, (0, 1)), (200, (1, 0))):
        for ordinal, gpu_id in enumerate(order):
            w.cuda_device(gpu_id=gpu_id, ordinal=ordinal, pid=pid)
    w.kernel(100, 200, call=w.api(80, 90, pid=100), device=0)
    w.kernel(150, 300, call=w.api(91, 95, pid=200), device=1)
    w.kernel(500, 600, call=w.api(491, 495, pid=200), device=0)
    return Expected(
        devices(
            device((100, 300), compute=200, gaps=[], name="first"),
            device((500, 600), compute=100, gaps=[], name="second"),
        )
    )


@trap(schema="3.25.0", gpus=False)
def device_known_by_uuid_alone(w: TraceWriter) -> Expected:
    """A device row without a GPU id: the uuid says which one it is."""
    w.gpu(0, name="first", uuid=UUID_A)
    w.gpu(1, name="second", uuid=UUID_B)
    w.row("TARGET_INFO_CUDA_DEVICE", gpuId=None, cudaId=0, pid=100, uuid=UUID_B)
    w.kernel(100, 200, call=w.api(80, 90))
    return Expected(devices(device((100, 200), compute=100, gaps=[], name="second")))


@trap(gpus=False)
def one_uuid_under_two_ids(w: TraceWriter) -> Expected:
    """A GPU that two containers numbered differently is one GPU."""
    w.gpu(0, uuid=UUID_A)
    w.gpu(1, uuid=UUID_A)
    w.cuda_device(gpu_id=0, ordinal=0, pid=100)
    w.cuda_device(gpu_id=1, ordinal=0, pid=200)
    w.kernel(100, 200, call=w.api(80, 90, pid=100))
    w.kernel(150, 300, call=w.api(91, 95, pid=200))
    return Expected(devices(device((100, 300), compute=200, gaps=[])))


@trap(schema="3.7.2", gpus=False)
def no_device_map(w: TraceWriter) -> Expected:
    """Up to 2023.4 no table says which ordinal is which GPU: it is assumed, and said so."""
    w.gpu(0, name="first", uuid=UUID_A)
    w.gpu(1, name="second", uuid=UUID_B)
    w.kernel(100, 200, call=w.api(80, 90, pid=100))
    w.kernel(200, 300, call=w.api(91, 95, pid=200))
    return Expected(
        devices(device((100, 300), compute=200, gaps=[], name="first")), warns="ordinal"
    )


@trap(gpus=False)
def device_without_any_description(w: TraceWriter) -> Expected:
    """Neither GPUs nor ordinals were described: ordinals tell devices apart, and that is said."""
    w.kernel(100, 200, call=w.api(80, 90), device=5)
    w.kernel(150, 300, call=w.api(91, 95), device=7)
    w.kernel(300, 320, call=w.api(210, 220), device=5)
    return Expected(
        devices(
            device((100, 320), compute=120, idle=100, gaps=[gap(200, 300, host(10), launch(90))]),
            device((150, 300), compute=150, gaps=[], name=""),
        ),
        warns="ordinal",
    )


@trap(gpus=False)
def one_device_missing_from_the_map(w: TraceWriter) -> Expected:
    """The map has a row for ordinal 0 and none for ordinal 1: still two devices."""
    w.gpu(0, name="first", uuid=UUID_A)
    w.cuda_device(gpu_id=0, ordinal=0)
    w.kernel(100, 200, call=w.api(80, 90), device=0)
    w.kernel(150, 300, call=w.api(91, 95), device=1)
    return Expected(
        devices(
            device((100, 200), compute=100, gaps=[], name="first"),
            device((150, 300), compute=150, gaps=[]),
        )
    )


@trap()
def largest_process_and_thread_ids(w: TraceWriter) -> Expected:
    """The largest pid Linux gives out, in the 24 bits that the serialized id has for it."""
    pid, tid = 4_194_303, 4_194_302
    w.process("python3", pid=pid)
    w.kernel(100, 200, call=w.api(80, 90, pid=pid, tid=tid))
    w.push_pop(0, 500, "loop", pid=pid, tid=tid)
    w.kernel(300, 400, call=w.api(250, 260, pid=pid, tid=tid))
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, host(50, "loop"), launch(50, nvtx="loop"))],
            )
        )
    )
