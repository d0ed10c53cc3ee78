"""Waits of the feeding thread, and who held it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.traces.expect import Expected, cuda_api, device, devices, gap, held, host, launch, osrt
from tests.traces.traps.gaps import kernel_a, kernel_b
from tests.traces.traps.registry import trap

if TYPE_CHECKING:
    from tests.traces.expect import Json
    from tests.traces.writer import TraceWriter

#: The thread that might hold thread 100 up, and one that has nothing to do with it.
OTHER, BYSTANDER = 101, 102


def _wait(w: TraceWriter, name: str = "pthread_cond_timedwait") -> None:
    """Thread 100 waits [200, 240) of the gap [200, 300), then launches B from 250 on."""
    kernel_a(w)
    w.osrt(200, 240, name)
    kernel_b(w)
    w.osrt(-1000, 5000, "poll", tid=BYSTANDER)


def _held_by(holder: Json | None, name: str = "pthread_cond_timedwait") -> Expected:
    """The gap after `_wait`."""
    parts = (osrt(40, name, held=holder), host(10), launch(50))
    return Expected(
        devices(device((100, 400), compute=200, idle=100, gaps=[gap(200, 300, *parts)]))
    )


@trap()
def holder_in_a_working_call(w: TraceWriter) -> Expected:
    """The thread of the process that worked for most of the wait: 35 of 40."""
    _wait(w)
    w.osrt(190, 235, "posix_fallocate64", tid=OTHER)
    expected = _held_by(held(35, OTHER, "posix_fallocate64"))
    expected.report["stalls"] = [
        {"function": "poll", "calls": 1, "idle_ns": 0},
        {"function": "posix_fallocate64", "calls": 1, "total_ns": 45, "idle_ns": 35},
        {"function": "pthread_cond_timedwait", "calls": 1, "total_ns": 40, "idle_ns": 40},
        {"function": "munmap", "calls": 0, "total_ns": 0, "max_ns": 0, "idle_ns": 0},
    ]
    return expected


@trap()
def holder_in_several_calls(w: TraceWriter) -> Expected:
    """Named by the call that fills most of its work: write 11, munmap 20."""
    _wait(w)
    w.osrt(200, 206, "write", tid=OTHER)
    w.osrt(206, 226, "munmap", tid=OTHER)
    w.osrt(230, 235, "write", tid=OTHER)
    return _held_by(held(31, OTHER, "munmap"))


@trap()
def holder_in_another_process(w: TraceWriter) -> Expected:
    """A worker process; nobody in the thread's own process moved."""
    _wait(w, "sem_wait")
    w.osrt(195, 230, "munmap", pid=200)
    return _held_by(held(30, 200, "munmap", process=200), "sem_wait")


@trap()
def own_process_comes_first(w: TraceWriter) -> Expected:
    """25 of 40 in the same process beat 40 of 40 in another."""
    _wait(w)
    w.osrt(200, 225, "write", tid=OTHER)
    w.osrt(200, 240, "munmap", pid=200)
    return _held_by(held(25, OTHER, "write"))


@trap()
def largest_share_holds(w: TraceWriter) -> Expected:
    """Of two workers the one with more; of equals the smaller thread id."""
    _wait(w)
    w.osrt(200, 230, "write", tid=105)
    w.osrt(205, 240, "munmap", tid=104)
    w.osrt(204, 239, "fsync", tid=103)
    return _held_by(held(35, 103, "fsync"))


@trap()
def holder_named_by_its_cuda_call(w: TraceWriter) -> Expected:
    """In cudaHostAlloc, inside ioctl: the CUDA call names it."""
    _wait(w)
    w.api(198, 236, "cudaHostAlloc_v3020", tid=OTHER)
    w.osrt(200, 235, "ioctl", tid=OTHER)
    return _held_by(held(36, OTHER, "cudaHostAlloc"))


@trap()
def driver_lock_inside_the_launch(w: TraceWriter) -> Expected:
    """The launch waits for the driver's lock: the call's time, via the wait, with its holder."""
    kernel_a(w)
    w.kernel(300, 400, call=w.api(205, 290, "cudaLaunchKernelExC_v11060"))
    w.osrt(207, 287, "pthread_rwlock_wrlock")
    w.api(206, 286, "cudaHostAlloc_v3020", tid=OTHER)
    w.osrt(210, 284, "ioctl", tid=OTHER)
    # Launch: [205, 207) and [287, 300). The holder works [207, 286) of the wait.
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[
                    gap(
                        200,
                        300,
                        host(5),
                        launch(15, "cudaLaunchKernelExC"),
                        cuda_api(
                            80,
                            "cudaLaunchKernelExC",
                            via="pthread_rwlock_wrlock",
                            held=held(79, OTHER, "cudaHostAlloc"),
                        ),
                    )
                ],
            )
        )
    )


@trap()
def wait_inside_another_cuda_call(w: TraceWriter) -> Expected:
    """Waits inside a CUDA call that is not the feeding one are followed as well."""
    kernel_a(w)
    w.api(200, 240, "cudaFree_v3020")
    w.osrt(205, 235, "pthread_mutex_lock")
    kernel_b(w)
    w.osrt(200, 233, "munmap", tid=OTHER)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[
                    gap(
                        200,
                        300,
                        cuda_api(10, "cudaFree"),
                        cuda_api(
                            30,
                            "cudaFree",
                            via="pthread_mutex_lock",
                            held=held(28, OTHER, "munmap"),
                        ),
                        host(10),
                        launch(50),
                    )
                ],
            )
        )
    )


@trap()
def holder_named_by_its_range(w: TraceWriter) -> Expected:
    """No recorded call, but a range that has an end; one without would be no evidence."""
    _wait(w, "pthread_mutex_lock")
    w.push_pop(100, 400, "epoch", tid=OTHER)
    w.push_pop(190, 236, "augment", tid=OTHER)
    w.push_pop(0, None, "thread main", tid=103)
    return _held_by(held(40, OTHER, "epoch / augment"), "pthread_mutex_lock")


@trap()
def holder_in_host_code(w: TraceWriter) -> Expected:
    """It was seen to move inside the wait, and did not wait itself: 40 of 40."""
    _wait(w)
    w.osrt(190, 210, "write", tid=OTHER)
    return _held_by(held(40, OTHER, "host code"))


@trap()
def holder_waits_in_between(w: TraceWriter) -> Expected:
    """Host code less its own waits: 40 less [225, 240)."""
    _wait(w)
    w.osrt(190, 210, "write", tid=OTHER)
    w.osrt(225, 300, "pthread_cond_wait", tid=OTHER)
    return _held_by(held(25, OTHER, "host code"))


@trap()
def thread_that_was_not_seen_to_move(w: TraceWriter) -> Expected:
    """Neither waiting nor calling in all of the wait: no evidence, no holder."""
    _wait(w)
    w.osrt(100, 150, "write", tid=OTHER)
    w.osrt(300, 350, "write", tid=OTHER)
    return _held_by(None)


@trap()
def poll_all_day(w: TraceWriter) -> Expected:
    """A thread that only polls holds nobody up, whichever way its polls fall."""
    _wait(w)
    for start in range(0, 1000, 30):
        w.osrt(start, start + 29, "poll", tid=OTHER)
        w.osrt(start, start + 28, "epoll_wait", tid=103)
    return _held_by(None)


@trap()
def half_is_not_enough(w: TraceWriter) -> Expected:
    """20 of 40 is not more than half, and the rest of the time it waits."""
    _wait(w)
    w.osrt(200, 220, "munmap", tid=OTHER)
    w.osrt(220, 400, "pthread_cond_wait", tid=OTHER)
    return _held_by(None)


@trap()
def sleeping_is_no_work(w: TraceWriter) -> Expected:
    """Sleeps let time pass, and synchronising waits for the device: neither holds a thread."""
    _wait(w)
    w.osrt(190, 250, "usleep", tid=OTHER)
    w.api(190, 250, "cudaStreamSynchronize_v3020", tid=103)
    return _held_by(None)


@trap()
def sleep_of_the_feeding_thread(w: TraceWriter) -> Expected:
    """A sleep is no wait: nobody is looked for."""
    _wait(w, "nanosleep")
    w.osrt(200, 240, "munmap", tid=OTHER)
    return _held_by(None, "nanosleep")


@trap()
def read_on_a_pipe(w: TraceWriter) -> Expected:
    """Reading waits for whoever writes."""
    _wait(w, "read")
    w.osrt(200, 239, "write", pid=200)
    return _held_by(held(39, 200, "write", process=200), "read")


@trap()
def profiler_overhead_holds(w: TraceWriter) -> Expected:
    """Another thread's flush is its work."""
    _wait(w)
    w.overhead(195, 235, tid=OTHER)
    return _held_by(held(35, OTHER, "CUPTI Buffer flush"))


@trap()
def waits_of_the_interpreter_lock(w: TraceWriter) -> Expected:
    """CPython's lock is a run of short waits, one episode: the last has its holder from the rest.

    Alone, the wait [235, 245) would have none: the holder works for 4 of its 10 ns.
    """
    kernel_a(w)
    for start, end in ((200, 210), (211, 221), (222, 232), (235, 245)):
        w.osrt(start, end, "pthread_cond_timedwait")
    kernel_b(w)
    w.osrt(195, 239, "posix_fallocate64", tid=OTHER)
    w.osrt(239, 400, "pthread_cond_wait", tid=OTHER)
    # Waits 40, of which the holder covers 10 + 10 + 10 + 4; 10 host code between and after.
    return _held_by(held(34, OTHER, "posix_fallocate64"))


@trap()
def waits_too_far_apart(w: TraceWriter) -> Expected:
    """More than 1 ms between two waits: two episodes, each with its own holder."""
    kernel_a(w)
    ms = 1_000_000
    w.osrt(200, 240, "pthread_cond_timedwait")
    second = 240 + ms + 1
    w.osrt(second, second + 40, "pthread_cond_timedwait")
    w.osrt(200, 240, "munmap", tid=OTHER)
    w.osrt(second, second + 35, "write", tid=103)
    end = second + 100
    w.kernel(end, end + 100, call=w.api(second + 50, second + 60))
    return Expected(
        devices(
            device(
                (100, end + 100),
                compute=200,
                idle=end - 200,
                gaps=[
                    gap(
                        200,
                        end,
                        osrt(40, "pthread_cond_timedwait", held=held(40, OTHER, "munmap")),
                        host(ms + 1 + 10),
                        osrt(40, "pthread_cond_timedwait", held=held(35, 103, "write")),
                        launch(50),
                    )
                ],
            )
        )
    )


@trap()
def waits_of_two_kinds(w: TraceWriter) -> Expected:
    """Waits with different names are no one episode."""
    kernel_a(w)
    w.osrt(200, 220, "pthread_cond_timedwait")
    w.osrt(220, 240, "pthread_mutex_lock")
    kernel_b(w)
    w.osrt(195, 220, "munmap", tid=OTHER)
    w.osrt(220, 400, "pthread_cond_wait", tid=OTHER)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[
                    gap(
                        200,
                        300,
                        osrt(20, "pthread_cond_timedwait", held=held(20, OTHER, "munmap")),
                        osrt(20, "pthread_mutex_lock"),
                        host(10),
                        launch(50),
                    )
                ],
            )
        )
    )


@trap()
def wait_that_began_before_the_gap(w: TraceWriter) -> Expected:
    """The holder is of the whole wait, what it covers of the part alone."""
    kernel_a(w)
    w.osrt(100, 240, "pthread_cond_wait")
    kernel_b(w)
    w.osrt(100, 210, "munmap", tid=OTHER)
    w.osrt(210, 400, "pthread_cond_wait", tid=OTHER)
    # 110 of 140 overall; of the part [200, 240) 10.
    return _held_by(held(10, OTHER, "munmap"), "pthread_cond_wait")
