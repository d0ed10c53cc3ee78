"""One loop per rule, and loops in which the obvious suspect is innocent."""

from __future__ import annotations

from tests.analysis.diagnosis.scene import MB, Scene, case

OTHER, WORKER = 101, 200


@case("compute_bound", verdict="compute-bound")
def busy(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)


# Rules that speak.


@case("output_in_loop", "synchronous_copy", verdict="host-bound")
def output_is_processed(s: Scene, k: int) -> None:
    s.kernel(0.02, 4)
    s.copy(4, 5, "d2h", launched=0.1)
    s.api(0.11, 5.005, "cudaStreamSynchronize_v3020")
    s.range(5.01, 9.99, "alpha")


@case("input_in_loop", verdict="host-bound")
def input_is_made(s: Scene, k: int) -> None:
    s.range(0.01, 5, "alpha")
    s.copy(5.02, 5.1, "h2d")
    s.kernel(5.1, 10.01, launched=5.05)


@case("synchronous_copy", verdict="copy-bound")
def pinned_copy_by_a_synchronous_call(s: Scene, k: int) -> None:
    s.copy(0.02, 3, "h2d", api="cudaMemcpy_v3020", returns=3.005)
    s.kernel(3.02, 10.01, launched=3.01)


@case("synchronous_copy", verdict="copy-bound")
def pinned_copy_that_is_waited_for_by_an_event(s: Scene, k: int) -> None:
    s.copy(0.02, 3, "h2d", launched=0.005)
    s.api(0.011, 0.012, "cudaEventRecord_v3020")
    s.api(0.013, 3.005, "cudaEventSynchronize_v3020")
    s.kernel(3.02, 10.01, launched=3.01)


@case("pageable_copy", verdict="copy-bound")
def pageable_copy_by_an_asynchronous_call(s: Scene, k: int) -> None:
    s.copy(0.02, 3, "h2d", memory="pageable", size=20 * MB, returns=3.005)
    s.kernel(3.02, 10.01, launched=3.01)


@case("pageable_copy", verdict="copy-bound")
def pageable_copy_to_reused_memory(s: Scene, k: int) -> None:
    s.kernel(0.02, 7, launched=0.01)
    s.copy(7, 10, "d2h", memory="pageable", size=30 * MB, launched=0.1, returns=10.001)


@case("unoverlapped_copy", verdict="copy-bound")
def copy_in_the_stream_of_the_kernels(s: Scene, k: int) -> None:
    s.copy(0.02, 2, "h2d", launched=-0.5)
    s.kernel(2, 10.02, launched=-0.4)


@case("serial_streams", verdict="copy-bound")
def streams_wait_for_each_other(s: Scene, k: int) -> None:
    s.copy(0.02, 2, "h2d", launched=-0.5, stream=9)
    s.kernel(2, 10.02, launched=-0.4)


@case("bandwidth", verdict="copy-bound")
def bus_that_is_never_idle(s: Scene, k: int) -> None:
    """All kernels run beside copies, and the copies take longer."""
    s.copy(0.02, 10.015, "h2d", launched=-0.5, size=500 * MB, stream=9)
    s.kernel(3, 8, launched=-0.4)


@case("unoverlapped_copy", "bandwidth", verdict="copy-bound")
def copies_that_could_only_be_hidden_in_part(s: Scene, k: int) -> None:
    s.copy(0.02, 6, "h2d", launched=-0.5)
    s.kernel(6, 10.02, launched=-0.4)


@case("serial_streams", verdict="copy-bound")
def copies_of_which_a_third_is_exposed(s: Scene, k: int) -> None:
    s.copy(0.02, 3, "h2d", launched=-0.5, stream=9)
    s.kernel(1, 10.02, launched=-0.4)


@case("device_copy", verdict="copy-bound")
def results_are_copied_within_the_device(s: Scene, k: int) -> None:
    s.kernel(0.02, 7, launched=-0.5)
    s.copy(7, 10.02, "d2d", launched=-0.4)


@case("device_copy", verdict="copy-bound")
def gradients_are_copied_to_another_device(s: Scene, k: int) -> None:
    s.kernel(0.02, 7, launched=-0.5)
    s.copy(7, 10.02, "p2p", launched=-0.4)


@case("fresh_host_memory", "pageable_copy", verdict="copy-bound")
def slow_copy_into_new_pages(s: Scene, k: int) -> None:
    s.kernel(0.02, 2)
    s.range(0.05, 9.9, "alpha")
    s.copy(2, 9, "d2h", memory="pageable", launched=0.1, returns=9.01)
    s.osrt(9.02, 9.9, "munmap")


@case("fresh_host_memory", verdict="host-bound")
def shared_memory_is_unmapped(s: Scene, k: int) -> None:
    s.copy(0.02, 0.1, "h2d", launched=0)
    s.range(0.15, 9.99, "alpha")
    s.kernel(0.1, 4, launched=0.05)
    s.osrt(0.2, 9.9, "munmap")


@case("interpreter_lock", verdict="host-bound")
def interpreter_lock(s: Scene, k: int) -> None:
    s.kernel(0.02, 5)
    s.osrt(1, 6, "pthread_cond_timedwait")
    s.osrt(6.01, 9.98, "pthread_cond_timedwait")
    s.osrt(0.9, 9.97, "posix_fallocate64", tid=OTHER)


@case("held_up", verdict="host-bound")
def lock_of_another_thread(s: Scene, k: int) -> None:
    s.kernel(0.02, 5)
    s.osrt(1, 9.98, "pthread_mutex_lock")
    s.osrt(0.9, 9.97, "ioctl", tid=OTHER)


@case("pinning_thread", verdict="host-bound")
def batches_are_pinned_too_slowly(s: Scene, k: int) -> None:
    s.writer.thread_name("pt_data_pin", tid=OTHER)
    s.osrt(0.01, 5, "sem_clockwait")
    s.osrt(0.005, 5.01, "munmap", tid=OTHER)
    s.copy(5.02, 5.1, "h2d")
    s.kernel(5.1, 10.01, launched=5.05)


@case("read_back", verdict="sync-bound", period=1.0)
def values_are_read_back(s: Scene, k: int) -> None:
    for i in range(10):
        at = i * 0.1
        s.kernel(at + 0.012, at + 0.05, launched=at + 0.002)
        s.copy(
            at + 0.052, at + 0.054, "d2h", memory="pageable", size=4, launched=at + 0.01,
            returns=at + 0.02,
        )  # fmt: skip
        s.api(at + 0.021, at + 0.06, "cudaStreamSynchronize_v3020")


@case("launch_bound", verdict="launch-bound", period=1.0)
def tiny_kernels(s: Scene, k: int) -> None:
    for i in range(100):
        at = i * 0.01
        s.kernel(at + 0.006, at + 0.008, launched=at + 0.0005)


@case("device_allocation", verdict="sync-bound")
def device_memory_is_allocated(s: Scene, k: int) -> None:
    s.kernel(0.02, 5)
    s.api(0.05, 8, "cudaFree_v3020")
    s.api(8.01, 9.98, "cudaMalloc_v3020")


@case("pinned_allocation", verdict="host-bound")
def launch_waits_for_a_pinning_thread(s: Scene, k: int) -> None:
    s.kernel(0.02, 5)
    call = s.writer.api(s.at(0.1), s.at(9.9), "cudaLaunchKernelExC_v11060")
    s.osrt(0.11, 9.89, "pthread_rwlock_wrlock")
    s.api(0.09, 9.88, "cudaHostAlloc_v3020", tid=OTHER)
    s.osrt(0.1, 9.87, "ioctl", tid=OTHER)
    s.writer.kernel(s.at(9.91), s.at(10), call=call)


@case("pinned_allocation", verdict="sync-bound")
def pinned_memory_in_the_loop(s: Scene, k: int) -> None:
    s.kernel(0.02, 5)
    s.api(0.05, 9.98, "cudaHostAlloc_v3020")


@case("file_writes", verdict="host-bound")
def files_are_flushed(s: Scene, k: int) -> None:
    s.kernel(0.02, 5)
    s.osrt(0.1, 2, "write")
    s.osrt(2.01, 9.98, "fsync")


@case("slow_loader", verdict="host-bound")
def loader_is_too_slow(s: Scene, k: int) -> None:
    s.osrt(0.01, 5, "poll")
    s.osrt(0.01, 4.9, "openat", pid=WORKER)
    s.copy(5.02, 5.1, "h2d")
    s.kernel(5.1, 10.01, launched=5.05)


@case("slow_loader", verdict="host-bound")
def loader_is_too_slow_beside_a_thread_that_hardly_shows(s: Scene, k: int) -> None:
    """A single call in the whole recording does not make a thread a holder for a whole wait."""
    loader_is_too_slow(s, k)
    if k == 2:
        s.osrt(2, 2.01, "write", tid=OTHER)


@case("held_up", verdict="host-bound")
def held_up_by_host_code(s: Scene, k: int) -> None:
    """Between its calls, which begin before the wait and go on behind it, a thread works."""
    s.osrt(0.01, 5, "pthread_mutex_lock")
    for call in (0.005, 3, 5.5):
        s.osrt(call, call + 0.01, "write", tid=OTHER)
    s.copy(5.02, 5.1, "h2d")
    s.kernel(5.1, 10.01, launched=5.05)


@case("unified_memory", verdict="compute-bound")
def pages_migrate_inside_kernels(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)
    for i in range(5):
        s.writer.memcpy(s.at(1 + i), s.at(1.5 + i), "um_h2d", size=MB)


@case("shared_gpu", verdict="compute-bound")
def another_process_computes(s: Scene, k: int) -> None:
    s.kernel(0.1, 5.1, launched=0.01)
    s.kernel(5.1, 10.1, launched=0.01, pid=WORKER, stream=8)


@case("shared_gpu", verdict="compute-bound")
def processes_take_turns(s: Scene, k: int) -> None:
    """As the trace shows it: each kernel from its start to its end, pauses included."""
    s.kernel(0.1, 10.1, launched=0.01)
    for i in range(2):
        s.kernel(0.1 + 5 * i, 5.1 + 5 * i, launched=0.01, pid=WORKER, stream=8)


@case("shared_gpu", verdict="compute-bound")
def graphs_of_another_process(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)
    call = s.writer.api(s.at(0.01), s.at(0.02), "cudaGraphLaunch_v10000", pid=WORKER)
    s.writer.graph(s.at(0.1), s.at(10.1), call=call, pid=WORKER)


@case("profiler_overhead", verdict="compute-bound")
def profiler_flushes(s: Scene, k: int) -> None:
    s.kernel(0.02, 7)
    s.writer.overhead(s.at(6.9), s.at(10.005))


@case("synchronisation", verdict="sync-bound", period=1.0)
def loop_waits_for_the_device(s: Scene, k: int) -> None:
    for i in range(10):
        at = i * 0.1
        s.kernel(at + 0.012, at + 0.05, launched=at + 0.002)
        s.api(at + 0.01, at + 0.06, "cudaDeviceSynchronize_v3020")


@case("queued_work", verdict="launch-bound")
def work_waits_for_an_event(s: Scene, k: int) -> None:
    s.kernel(0.02, 5, launched=-1)
    s.kernel(7, 10.02, launched=-0.9)


@case("queued_work", verdict="launch-bound")
def work_waits_for_a_host_function(s: Scene, k: int) -> None:
    s.kernel(0.02, 5, launched=-1)
    s.api(-0.95, -0.94, "cudaLaunchHostFunc_v10000")
    s.kernel(7, 10.02, launched=-0.9)


@case("host_work", verdict="host-bound")
def host_code_in_many_places(s: Scene, k: int) -> None:
    for i in range(10):
        s.kernel(i + 0.21, i + 1)
        s.range(i + 0.005, i + 0.195, f"part {'abcdefghij'[i]}")


@case("small_losses", verdict="host-bound")
def host_code_in_few_places(s: Scene, k: int) -> None:
    for i in range(3):
        s.kernel(3.3 * i + 0.21, 3.3 * i + 3.3)
        s.range(3.3 * i + 0.005, 3.3 * i + 0.195, f"part {'abc'[i]}")


@case("host_work", verdict="host-bound")
def host_code_between_launches(s: Scene, k: int) -> None:
    s.kernel(0.02, 2)
    s.range(2.05, 6, "alpha")
    s.kernel(6.05, 10.01)


# Rules that must stay silent: the obvious suspect is innocent.


@case("compute_bound", verdict="compute-bound")
def slow_loader_hidden_by_the_queue(s: Scene, k: int) -> None:
    s.osrt(0.01, 5, "poll")
    s.kernel(0.1, 10.1, launched=-8)


@case("compute_bound", verdict="compute-bound")
def sleep_hidden_by_the_queue(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=-2)
    s.osrt(0.5, 7.5, "nanosleep")


@case("compute_bound", verdict="compute-bound")
def pageable_copies_beside_kernels(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)
    s.copy(1, 4, "h2d", memory="pageable", returns=4.01, tid=OTHER, stream=9)


@case("compute_bound", verdict="compute-bound")
def munmap_while_the_device_works(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)
    s.osrt(0.2, 9.5, "munmap")


@case("compute_bound", verdict="compute-bound")
def fsync_of_another_thread(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)
    s.osrt(0.2, 9.5, "fsync", tid=OTHER)


@case("compute_bound", verdict="compute-bound")
def synchronising_while_the_device_works(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)
    s.api(0.2, 9.9, "cudaDeviceSynchronize_v3020")


@case("compute_bound", verdict="compute-bound")
def allocation_while_the_device_works(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)
    s.api(0.2, 6, "cudaMalloc_v3020")
    s.api(6.2, 9, "cudaHostAlloc_v3020")


@case("compute_bound", verdict="compute-bound")
def read_back_at_the_end_of_a_long_step(s: Scene, k: int) -> None:
    s.kernel(0.02, 9.99)
    s.copy(9.99, 9.992, "d2h", memory="pageable", size=4, launched=0.1, returns=9.995)


@case("compute_bound", verdict="compute-bound")
def short_kernels_without_gaps(s: Scene, k: int) -> None:
    for i in range(100):
        s.kernel(0.1 + i * 0.1, 0.1 + (i + 1) * 0.1, launched=0.01 + i * 0.02)


@case("compute_bound", verdict="compute-bound")
def two_processes_one_of_them_idle(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)
    s.kernel(1, 1.01, pid=WORKER, stream=8)


@case("host_work", verdict="host-bound")
def poll_all_day_beside_host_code(s: Scene, k: int) -> None:
    """A background thread sits in poll; it holds nobody up, nor does the loop wait for input."""
    s.kernel(0.02, 5)
    s.osrt(0, 9.99, "poll", tid=OTHER)
    s.range(5.01, 9.98, "alpha")


@case("output_in_loop", verdict="host-bound")
def hidden_copies_beside_exposed_processing(s: Scene, k: int) -> None:
    """The copies look large and are hidden; what follows them is the loss."""
    s.kernel(0.02, 4.9)
    s.copy(1, 4.95, "d2h", launched=0.1, stream=9)
    s.range(5, 9.98, "alpha")


# Near misses: another rule than the obvious one, or none.


@case("compute_bound", verdict="compute-bound")
def slow_copies_beside_kernels(s: Scene, k: int) -> None:
    """At the speed of page faults, but hidden: the memory is fresh and costs nothing."""
    s.kernel(0.02, 10.01, launched=0.01)
    s.copy(1, 9, "d2h", memory="pageable", returns=9.01, tid=OTHER, stream=9)


@case("held_up", verdict="host-bound")
def one_long_wait_on_a_condition(s: Scene, k: int) -> None:
    """The interpreter asks for its lock every 5 ms; this is a wait of the program's own."""
    s.kernel(0.02, 1)
    s.osrt(0.5, 9.9, "pthread_cond_timedwait")
    s.osrt(0.4, 9.8, "ioctl", tid=OTHER)


@case("interpreter_lock", verdict="host-bound")
def interpreter_lock_before_the_first_launch(s: Scene, k: int) -> None:
    """It is no slow loader: the holder is a thread of the process."""
    for i in range(2):
        s.osrt(0.01 + i * 4, 3.99 + i * 4, "pthread_cond_timedwait")
    s.osrt(0.005, 8, "posix_fallocate64", tid=OTHER)
    s.copy(8.02, 8.1, "h2d")
    s.kernel(8.1, 10.01, launched=8.05)


@case("held_up", verdict="host-bound")
def full_queue_to_another_process(s: Scene, k: int) -> None:
    """A wait behind the launches is not for input."""
    s.kernel(0.02, 4)
    s.osrt(4.05, 9.9, "sem_wait")
    s.osrt(4.04, 9.8, "openat", pid=WORKER)


@case("compute_bound", verdict="compute-bound")
def a_few_migrations(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)
    s.writer.memcpy(s.at(1), s.at(1.5), "um_h2d", size=MB)


@case("compute_bound", verdict="compute-bound")
def pages_are_prefetched_beside_kernels(s: Scene, k: int) -> None:
    s.kernel(0.1, 10.1, launched=0.01)
    for i in range(5):
        s.writer.memcpy(s.at(1 + i), s.at(1.5 + i), "um_h2d", size=MB, migrationCause=1)


@case("unified_memory", verdict="copy-bound")
def pages_are_prefetched_too_late(s: Scene, k: int) -> None:
    for i in range(5):
        at = 0.02 + i / 2
        s.writer.memcpy(s.at(at), s.at(at + 0.5), "um_h2d", size=MB, migrationCause=1)
    s.kernel(2.52, 10.02, launched=-0.4)


@case("compute_bound", verdict="compute-bound")
def streams_that_overlap(s: Scene, k: int) -> None:
    s.kernel(0.02, 10.02, launched=-0.4)
    s.copy(1, 3, "h2d", launched=-0.5, stream=9)


@case("output_in_loop", verdict="host-bound")
def output_is_written_in_short_calls(s: Scene, k: int) -> None:
    """Calls too short to matter do not make the processing somebody else's matter."""
    s.kernel(0.02, 4)
    s.copy(4, 4.1, "d2h", launched=0.1)
    s.api(0.11, 4.105, "cudaStreamSynchronize_v3020")
    s.range(4.11, 9.99, "alpha")
    s.osrt(5, 5.01, "write")


@case("host_work", verdict="host-bound")
def host_work_behind_a_small_read_back(s: Scene, k: int) -> None:
    """A loss is read back, and something else takes the time."""
    s.kernel(0.02, 4)
    s.copy(4, 4.002, "d2h", memory="pageable", size=4, launched=0.1, returns=4.005)
    s.range(4.01, 9.98, "alpha")


@case("launch_bound", verdict="launch-bound", period=1.0)
def tiny_kernels_beside_a_thread_that_synchronises(s: Scene, k: int) -> None:
    s.api(0.01, 0.99, "cudaDeviceSynchronize_v3020", tid=OTHER)
    for i in range(100):
        at = i * 0.01
        s.kernel(at + 0.006, at + 0.008, launched=at + 0.0005)


@case("file_writes", "output_in_loop", verdict="host-bound")
def output_is_processed_and_written(s: Scene, k: int) -> None:
    """Two losses in one gap are told apart."""
    s.kernel(0.02, 2)
    s.copy(2, 2.1, "d2h", launched=0.1)
    s.api(0.11, 2.105, "cudaStreamSynchronize_v3020")
    s.range(2.11, 9.99, "alpha")
    s.osrt(5, 9.9, "write")
