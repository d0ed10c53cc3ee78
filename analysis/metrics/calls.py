"""What the names of OS runtime and CUDA calls mean for a thread that is inside one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

#: Reads, which wait when their other end is a pipe or a socket; the name does not tell.
READS = frozenset({"read", "readv", "recv", "recvfrom", "recvmsg", "recvmmsg"})

#: OS runtime calls that return when somebody else acts.
WAITS = READS | {
    *("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait"),
    *("pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock"),
    *("pthread_rwlock_rdlock", "pthread_rwlock_timedrdlock", "pthread_rwlock_clockrdlock"),
    *("pthread_rwlock_wrlock", "pthread_rwlock_timedwrlock", "pthread_rwlock_clockwrlock"),
    *("pthread_spin_lock", "pthread_barrier_wait"),
    *("pthread_join", "pthread_timedjoin_np", "pthread_clockjoin_np"),
    *("sem_wait", "sem_timedwait", "sem_clockwait", "semop", "semtimedop", "futex"),
    *("poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "epoll_pwait2"),
    *("accept", "accept4", "wait", "wait3", "wait4", "waitpid", "waitid"),
    *("sigwait", "sigwaitinfo", "sigtimedwait"),
    *("mq_receive", "mq_timedreceive", "msgrcv", "flock", "lockf"),
}

#: OS runtime calls that only let time pass.
SLEEPS = frozenset({"sleep", "usleep", "nanosleep", "clock_nanosleep", "sched_yield", "pause"})

_SYNCHRONISES = re.compile(
    r"""cuda(Device|Stream|Event|Thread)Synchronize
      | cu(Ctx|Stream|Event)Synchronize
      | (cuda|cu)Memcpy(?!.*Async).*""",
    re.VERBOSE,
)


def is_wait(name: str) -> bool:
    """Whether an OS runtime call of that name returns when somebody else acts."""
    return name in WAITS


def is_sleep(name: str) -> bool:
    """Whether an OS runtime call of that name only lets time pass."""
    return name in SLEEPS


def is_read(name: str) -> bool:
    """Whether an OS runtime call of that name reads from a file, pipe or socket."""
    return name in READS


def synchronises(name: str) -> bool:
    """Whether a CUDA call of that name returns only when the device has done something."""
    return _SYNCHRONISES.fullmatch(name) is not None


def flags(names: Sequence[str], predicate: Callable[[str], bool]) -> NDArray[np.bool_]:
    """The predicate of every name, plus a final False that index -1 finds."""
    return np.array([*map(predicate, names), False], bool)
