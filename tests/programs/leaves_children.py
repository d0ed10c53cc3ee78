"""Starts processes in every way that makes them hard to find again, and stays a while.

Arguments: a word that is to be in the command line of each, and how many seconds to stay.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

SLEEP = f"import time; time.sleep(300)  # {sys.argv[1]}"


def daemon(environment: dict[str, str]) -> None:
    """A process that has left its parent and its session, and perhaps its environment."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(read)
            os.set_inheritable(write, False)  # closes when the program is there
            os.execve(sys.executable, [sys.executable, "-c", SLEEP], environment)
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    os.read(read, 1)
    os.close(read)


def main() -> None:
    python = [sys.executable, "-c"]
    subprocess.Popen([*python, SLEEP])
    subprocess.Popen([*python, SLEEP], start_new_session=True)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True)"
    with subprocess.Popen([*python, f"{deaf}; {SLEEP}"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        daemon(dict(os.environ))
        daemon({})
        sys.stdout.write("started\n")
        sys.stdout.flush()
        time.sleep(float(sys.argv[2]))
        os._exit(0)  # the with block would wait for the deaf one


if __name__ == "__main__":
    main()
