"""Runs one program and ends it when the process that asked for it ends, however that happens.

    python -I -S supervisor.py PARENT_PID GRACE_SECONDS PROGRAM [ARGUMENT ...]

A program of its own, standard library only, started by `tools.cluster.process`. Its standard input is a pipe whose
write end only the parent holds: end of file means "stop" or "the parent is gone", and both get SIGTERM and, after
GRACE_SECONDS, SIGKILL for the program's whole process group. Its standard output carries one line, the program's pid
or an error; its standard error is the program's log. It exits with the program's code (128 + n for signal n).

NB: `PR_SET_PDEATHSIG` alone, set by the parent, would not do: it fires when the *thread* that forked ends. Here it
guards the other side, the program against the death of this supervisor, which has one thread only.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
PARENT_CHECK_SECONDS = 0.5


def main() -> int:
    """Start the program, report its pid, wait for its end or the parent's."""
    parent, grace_seconds, argv = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    libc = ctypes.CDLL(None)
    try:
        program = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )
    except OSError as error:
        print(f"error: {argv[0]}: {error.strerror}", flush=True)
        return 127
    print(program.pid, flush=True)
    os.close(1)

    while program.poll() is None:
        # NB: a forked copy of the parent may keep the pipe open after it; its pid tells even then.
        if os.getppid() != parent:
            return stop(program, grace_seconds)
        readable, _, _ = select.select([0, woken], [], [], PARENT_CHECK_SECONDS)
        if 0 in readable:
            return stop(program, grace_seconds)
        if woken in readable and set(os.read(woken, 512)) - {signal.SIGCHLD}:
            return stop(program, grace_seconds)
    stop(program, 0)  # what it left behind in its group
    return exit_code(program.returncode)


def stop(program: subprocess.Popen[bytes], grace_seconds: float) -> int:
    """SIGTERM, up to `grace_seconds` for the program to end, then SIGKILL to all that is left of its group."""
    signal_group(program.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while program.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    signal_group(program.pid, signal.SIGKILL)
    return exit_code(program.wait())


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal a process group that may already be gone."""
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def exit_code(returncode: int) -> int:
    """The shell's way of writing a death by signal."""
    return 128 - returncode if returncode < 0 else returncode


if __name__ == "__main__":
    sys.exit(main())
