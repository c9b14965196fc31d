"""The cache makes each entry once and never leaves half of one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.cluster import cache_root, cached


@pytest.fixture(autouse=True)
def own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTTOKEN_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(
            {"FIRSTTOKEN_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a", id="its own variable first"
        ),
        pytest.param({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/firsttoken", id="then the desktop standard"),
        pytest.param({"HOME": "/c"}, "/c/.cache/firsttoken", id="then the home directory"),
    ],
)
def test_the_root_follows_the_environment(monkeypatch, environment, expected):
    for name in ("FIRSTTOKEN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert cache_root() == Path(expected)


def test_an_entry_is_made_once_for_each_key():
    made = []

    def build(folder):
        made.append(folder)
        (folder / "program").write_text("x")

    first, again, other = cached("tool", "1", build), cached("tool", "1", build), cached("tool", "2", build)

    assert first == again != other
    assert (first / "program").read_text() == (other / "program").read_text() == "x"
    assert len(made) == 2


def test_a_failed_build_leaves_nothing_and_the_next_call_tries_again():
    def fails(folder):
        (folder / "half").write_text("x")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        cached("tool", "1", fails)
    entry = cached("tool", "1", lambda folder: (folder / "whole").touch())

    assert [path.name for path in entry.iterdir()] == ["whole"]
    assert [path.name for path in entry.parent.iterdir() if path.is_dir()] == ["1"]


@pytest.mark.slow
def test_two_processes_that_want_one_entry_make_it_once(tmp_path):
    script = (
        "import time, pathlib\n"
        "from tools.cluster import cached\n"
        "def build(folder):\n"
        "    time.sleep(1)\n"
        "    with open({log!r}, 'a') as log: log.write('built ')\n"
        "cached('tool', 'shared', build)\n"
    ).format(log=str(tmp_path / "log"))
    processes = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL) for _ in range(2)]

    assert [process.wait(30) for process in processes] == [0, 0]
    assert (tmp_path / "log").read_text() == "built "
