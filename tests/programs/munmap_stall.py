"""Maps memory, touches it, and gives it back: three steps that stall in munmap.

What a program looks like that hands a large buffer back to the system in each step. Needs nvtx and
no GPU. Recorded with `--trace=osrt,nvtx` its munmap calls are in OSRT_API, for mmap.close() calls
munmap of libc (glibc's own, from free, are not intercepted).
"""

from __future__ import annotations

import mmap
import sys

import nvtx

STEPS = 3
MEGABYTES = 192


def main() -> None:
    for step in range(STEPS):
        with nvtx.annotate(f"Batch {step}"):
            with nvtx.annotate("get batch"):
                memory = mmap.mmap(-1, MEGABYTES << 20)
                for page in range(0, len(memory), mmap.PAGESIZE):
                    memory[page] = 1
            with nvtx.annotate("copy batch"):
                memory.close()
    sys.stdout.write(f"{STEPS} steps of {MEGABYTES} MB\n")


if __name__ == "__main__":
    main()
