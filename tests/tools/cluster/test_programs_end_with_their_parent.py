"""No program outlives the process that started it: stopped, killed, frozen, forked or started from a short thread."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.cluster import Component, ComponentFailedError, wait_until

STUBBORN = "trap '' TERM INT HUP; sleep 1000 & while true; do sleep 0.1; done"
DEADLINE_SECONDS = 5.0
GONE = (None, "Z")
"""States that `state_of` gives a process that has ended, reaped or not."""


def processes_with(marker: str) -> dict[int, str]:
    """Every live process of this machine whose command line contains `marker`, by pid."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if marker in command:
                found[int(folder.name)] = command
    return found


@contextmanager
def parent_running(tmp_path: Path, body: str) -> Iterator[subprocess.Popen[str]]:
    """A Python that runs `body`, from its line "ready" on; killed at the end of the block if not before."""
    script = textwrap.dedent(body).format(tmp=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout.readline() == "ready\n"
            yield parent
        finally:
            parent.kill()


@pytest.mark.cluster
def test_no_child_of_a_killed_cluster_lives_five_seconds_later(control_plane, tmp_path):
    body = """
        import tempfile, time
        tempfile.tempdir = {tmp!r}
        from tools.cluster import Cluster, PrometheusOptions
        with Cluster(nodes=2, prometheus=PrometheusOptions()):
            print("ready", flush=True)
            time.sleep(600)
    """
    with parent_running(tmp_path, body) as parent:
        (folder,) = tmp_path.glob("firsttoken-cluster-*")
        children = {Path(command.split()[0]).name for command in processes_with(str(folder)).values()}
        names = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "prometheus"}
        assert names < children  # the rest are their supervisors

        parent.kill()
        started = time.monotonic()
        wait_until(lambda: not processes_with(str(folder)), DEADLINE_SECONDS, "all children of the killed harness gone")

        assert time.monotonic() - started < DEADLINE_SECONDS


def test_a_killed_parent_takes_even_a_program_that_ignores_signals_and_its_child(tmp_path):
    body = f"""
        import pathlib, time
        from tools.cluster import Component
        folder = pathlib.Path({{tmp!r}})
        program = Component("stubborn", ["sh", "-c", {STUBBORN!r}], folder / "log", grace_seconds=1)
        (folder / "pid").write_text(str(program.pid))
        print("ready", flush=True)
        time.sleep(600)
    """
    with parent_running(tmp_path, body) as parent:
        group = int((tmp_path / "pid").read_text())
        wait_until(lambda: len(members_of(group)) >= 2, 60, "the program and its child")

        parent.kill()

        wait_until(lambda: not members_of(group), DEADLINE_SECONDS, "the program and its child gone")


def test_a_forked_copy_of_the_parent_that_holds_the_pipe_does_not_keep_the_program(tmp_path):
    body = """
        import os, pathlib, time
        from tools.cluster import Component
        folder = pathlib.Path({tmp!r})
        program = Component("sleeper", ["sleep", "1000"], folder / "log")
        (folder / "pid").write_text(str(program.pid))
        copy = os.fork()
        if copy:
            (folder / "copy").write_text(str(copy))
            print("ready", flush=True)
        time.sleep(600)
    """
    with parent_running(tmp_path, body) as parent:
        program, copy = (int((tmp_path / name).read_text()) for name in ("pid", "copy"))
        try:
            parent.kill()

            wait_until(lambda: state_of(program) in GONE, DEADLINE_SECONDS, "the program gone")
            assert state_of(copy) not in GONE
        finally:
            os.kill(copy, signal.SIGKILL)


def test_a_program_outlives_the_thread_that_started_it(tmp_path):
    started = []
    thread = threading.Thread(target=lambda: started.append(Component("sleeper", ["sleep", "1000"], tmp_path / "log")))
    thread.start()
    thread.join()
    (program,) = started
    try:
        time.sleep(1.0)  # longer than the supervisor's own check

        assert program.running
    finally:
        program.stop()

    assert state_of(program.pid) in GONE


def test_a_killed_supervisor_takes_its_program_along(tmp_path):
    program = Component("sleeper", ["sleep", "1000"], tmp_path / "log")
    supervisor = int(Path(f"/proc/{program.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

    os.kill(supervisor, signal.SIGKILL)

    wait_until(lambda: state_of(program.pid) in GONE, DEADLINE_SECONDS, "the program gone")
    program.stop()


def test_a_frozen_program_can_be_stopped(tmp_path):
    program = Component("sleeper", ["sleep", "1000"], tmp_path / "log", grace_seconds=0.2)
    program.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(program.pid) == "T", 60, "the program frozen")

    assert program.stop() == 128 + signal.SIGKILL


def test_a_program_that_ends_by_itself_reports_its_code_and_the_end_of_its_log(tmp_path):
    program = Component("short", ["sh", "-c", "echo first; echo the reason >&2; exit 3"], tmp_path / "log")

    assert program.wait(5) == 3
    with pytest.raises(ComponentFailedError, match=r"short ended with code 3; .*\nfirst\nthe reason"):
        program.require_running()
    program.stop()


def test_a_missing_program_is_one_clear_error(tmp_path):
    with pytest.raises(ComponentFailedError, match=r"^ghost: error: /nowhere/ghost: No such file or directory$"):
        Component("ghost", ["/nowhere/ghost"], tmp_path / "log")


def state_of(pid: int) -> str | None:
    """The kernel's letter for the state of `pid`: T is stopped, Z a zombie that was not reaped; None without one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def members_of(group: int) -> list[int]:
    """The live processes of one process group."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(folder.name))
    return found
