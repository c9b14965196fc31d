"""Runs tests against copies of the source, each in a process of its own that begins with all libraries loaded.

Loading numpy, pydantic and the client of Kubernetes takes longer than most of the tests that catch a defect. So one
process loads them, and none of our own modules, and forks for every run.

    {"source": "/tmp/copy", "tests": ["tests/..."], "log": "/tmp/log"}    a line that it reads
    1                                                                    the exit status of pytest, that it answers
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback

LIBRARIES = (
    "numpy", "scipy.optimize", "scipy.special", "scipy.stats", "pydantic", "yaml", "rich", "kopf", "kubernetes.aio",
    "prometheus_api_client", "prometheus_client", "aiohttp.web", "requests", "pytest", "hypothesis.strategies",
)  # fmt: skip


def run(source: str, tests: list[str], log: str) -> int:
    """Run tests in a fork that imports our packages from `source` first; its exit status."""
    child = os.fork()
    if child == 0:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.path.insert(0, source)
        # What the tests start as processes of their own shall be the copy, too.
        os.environ["PYTHONPATH"] = source
        # NB: a module that was changed twice within a second could be taken for the bytecode of the first change.
        sys.dont_write_bytecode = True
        status = 3
        try:
            import pytest

            status = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--assert=plain", *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended)


if __name__ == "__main__":
    for library in LIBRARIES:
        importlib.import_module(library)
    for line in sys.stdin:
        print(run(**json.loads(line)), flush=True)
