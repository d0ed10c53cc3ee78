"""Which environment variables a recorded program gets.

nsys writes the whole environment of what it starts into the report, so nothing that is not needed
is passed on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Variables that programs need to start and to find their libraries and devices.
ALLOWED_NAMES = frozenset(
    {
        "CONDA_PREFIX",
        "GROUP_RANK",
        "HOME",
        "LANG",
        "LANGUAGE",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "PATH",
        "RANK",
        "TERM",
        "TMPDIR",
        "TZ",
        "VIRTUAL_ENV",
        "WORLD_SIZE",
        "XDG_CACHE_HOME",
    }
)
#: Families of variables that steer CUDA, Python, and the libraries of numerical programs, and by
#: which the ranks of MPI and Slurm find each other.
ALLOWED_PREFIXES = (
    "CUBLAS",
    "CUDA",
    "CUDNN",
    "CUPTI",
    "GOMP_",
    "I_MPI_",
    "KMP_",
    "LC_",
    "MALLOC_",
    "MKL_",
    "MPICH_",
    "NCCL_",
    "NUMBA_",
    "NUMEXPR_",
    "NVIDIA_",
    "NVSHMEM_",
    "NVTX_",
    "OMPI_",
    "OMP_",
    "OPENBLAS_",
    "PMIX_",
    "PMI_",
    "PYTHON",
    "PYTORCH_",
    "SLURM_",
    "TORCH",
    "TRITON_",
    "UCX_",
)
#: Names that mean a credential, whatever the family (NVIDIA_API_KEY).
_CREDENTIAL = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE|AUTH|COOKIE|"
    r"SESSION(?!_?DIR)|(?:^|_)(?:JWT|KEY|PWD|PASS)(?:_|$)",
    re.IGNORECASE,
)
_HARMLESS = frozenset(
    {
        "NSYS_PROFILING_SESSION_ID",
        "NSYS_SESSION_TEMP_DIR",
        "OLDPWD",
        "PWD",
        "SESSION_MANAGER",
        "SSH_AUTH_SOCK",
    }
    | {"XAUTHORITY", "XDG_SESSION_CLASS", "XDG_SESSION_ID", "XDG_SESSION_TYPE"}
    | {"DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION"}
)
#: How launchers tell a process its rank, and among how many: torchrun, Open MPI, MPICH, Slurm.
_RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
#: Set where processes must see others than their own: their fellow ranks, or CUDA's MPS.
_SHARING = (
    *("LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"),
    "CUDA_MPS_PIPE_DIRECTORY",
)
# https://user:password@host
_URL_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def is_credential(name: str, value: str = "") -> bool:
    """Whether a variable looks like a password, a key or a token."""
    named = bool(_CREDENTIAL.search(name)) and name not in _HARMLESS
    return named or bool(_URL_WITH_PASSWORD.search(value))


def allowed(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that may be in a report; never a credential."""
    return {
        name: value
        for name, value in environment.items()
        if (name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIXES))
        and not is_credential(name, value)
    }


def rank(environment: Mapping[str, str]) -> int | None:
    """The rank of a process that a launcher started; None if it is not one of several."""
    for name, size in _RANKS:
        number, count = environment.get(name, ""), environment.get(size, "")
        if number.isdecimal() and count.isdecimal() and int(count) > 1:
            return int(number)
    return None


def sees_others(environment: Mapping[str, str]) -> bool:
    """Whether a process of this environment has to see other processes of the machine."""
    return not environment.keys().isdisjoint(_SHARING)
