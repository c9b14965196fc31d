"""Fixtures for all tests: the built control plane, and one running cluster for each module that asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tools.cluster import Cluster, PrometheusOptions, build, tools

pytest_plugins = ["tests.skip_gate"]

# No deadline: the machine is shared. In CI the examples are the same every time, so that a submission is judged by what
# it changed; a developer's runs explore.
hypothesis.settings.register_profile("firsttoken", deadline=None, derandomize=os.environ.get("CI") == "true")
hypothesis.settings.load_profile("firsttoken")


LIVE = ("tests/aiperf/", "tests/demo/", "tests/e2e/")
"""Tests that measure how fast something real happens: one at a time."""


JUDGES = ("tests/benchmarks/test_bands_", "tests/benchmarks/test_capacity_")
"""Tests that leave the same measurements out of the same fits, which a process makes once."""


class OneWorkerForWhatBelongsTogether(LoadScopeScheduling):  # type: ignore[misc]  # has no type hints
    """Scheduler with all live tests on one worker, and the judges on one; each other module (and its cluster) whole."""

    def _split_scope(self, nodeid: str) -> str:
        together = {LIVE: "live", JUDGES: "judges"}
        module = nodeid.partition("::")[0]
        return next((scope for names, scope in together.items() if nodeid.startswith(names)), module)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneWorkerForWhatBelongsTogether:
    """Scheduler of the tests here under `--dist loadscope`."""
    return OneWorkerForWhatBelongsTogether(config, log)


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Path:
    """The directory with etcd, the Kubernetes servers, kwok and Prometheus; built here where it is missing."""
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    # Minutes of building must not look like a test that hangs.
    with capture.global_and_fixture_disabled():
        tools.kubectl()
        return build.control_plane()


@pytest.fixture(scope="module")
def cluster(control_plane: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster for this module: 8 servers with 8 GPUs, pods ready in half a second, Prometheus.

    Its logs are kept where a test of the module failed. A module that needs another shape defines its own fixture.
    """
    failed_before = request.session.testsfailed
    with Cluster(prometheus=PrometheusOptions(scrape_interval_seconds=0.5, discovery_interval_seconds=0.2)) as running:
        yield running
        if request.session.testsfailed > failed_before:
            running.keep_logs()
