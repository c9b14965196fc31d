"""Fails a CI run in which a test was skipped that `allowed_skips.txt` does not name: a skip must not pass for a test.

A pytest plugin, active where the environment has `CI=true`. On a developer's machine skips stay what they are.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")


def allowed_prefixes(text: str) -> tuple[str, ...]:
    """The node ids, or beginnings of node ids, of the file's lines; raises `ValueError` where one has no reason."""
    prefixes = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        prefix, separator, reason = line.partition(" # ")
        if not separator or not reason.strip():
            raise ValueError(f"line {number}: {line!r} names no reason; write `<node id> # <reason>`")
        prefixes.append(prefix.strip())
    return tuple(prefixes)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Turn a passing run with an unlisted skip into a failing one."""
    # A worker of pytest-xdist reports to the process that started it, which judges the whole run.
    is_worker = hasattr(session.config, "workerinput")
    if os.environ.get("CI") == "true" and session.exitstatus == pytest.ExitCode.OK and not is_worker:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        assert reporter is not None
        skipped = {report.nodeid for report in reporter.stats.get("skipped", [])}
        prefixes = allowed_prefixes(ALLOWED_SKIPS.read_text())
        if unlisted := sorted(node for node in skipped if not node.startswith(prefixes)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            for node in unlisted:
                reporter.write_line(f"\nskipped, and not named in {ALLOWED_SKIPS.name}: {node}", red=True)
    return (yield)
