"""The operator as a process on a real API server, with the rights of the chart's ServiceAccount and no more.

There is no Prometheus here: what is shown is that the parts are put together, keep to their rights, and end cleanly.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.chart import NAMESPACE, render
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, get, installed, nim, replicas
from tools.cluster import Cluster, wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def operated(control_plane: Path) -> Iterator[tuple[Cluster, Path]]:
    with installed() as made:
        yield made


@pytest.fixture(scope="module")
def cluster(operated: tuple[Cluster, Path]) -> Cluster:
    return operated[0]


@pytest.fixture(scope="module")
def account(operated: tuple[Cluster, Path]) -> Path:
    return operated[1]


Start = Callable[..., Process]

NO_NAMES = """
import getpass

def getuser():
    raise KeyError("getpwuid(): uid not found: 65532")

getpass.getuser = getuser
"""
"""Failure of Python in an image without an entry for the chart's user id in its /etc/passwd."""


READ_ONLY = """
import os
import sys

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink", "os.truncate", "tempfile.mkstemp"}

def refuse(event, arguments):
    opens = event == "open" and isinstance(arguments[0], (str, bytes)) and arguments[2] & WRITES
    if (opens and os.fsdecode(arguments[0]) != os.devnull) or event in CHANGES:
        print("REFUSED", event, arguments, file=sys.stderr)
        raise OSError(30, "Read-only file system")

sys.addaudithook(refuse)
"""
"""A disk that takes nothing, as far as Python asks it: these tests have no right to mount one read-only."""


@pytest.fixture
def start(tmp_path: Path, account: Path) -> Iterator[Start]:
    started: list[Process] = []

    def run(*arguments: str, kubeconfig: Path = account, ready: bool = True) -> Process:
        process = Process(tmp_path, kubeconfig, *arguments)
        started.append(process)
        if ready:
            wait_until(process.ready, 60, "operator ready")
        return process

    yield run
    for process in started:
        if process.child.poll() is None:
            process.kill()


def test_it_scales_tells_and_ends(cluster: Cluster, start: Start) -> None:
    create(cluster, workload(1, "told"), infd("told", targetRef={"name": "told"}, scaling={"minReplicas": 3}))
    process = start()
    wait_until(lambda: replicas(cluster, "told") == 3, 60, "scaled to the minimum")
    wait_until(lambda: get(cluster, "infd", "told").get("status", {}).get("readyReplicas") == 3, 60, "status told")
    described = cluster.kubectl("describe", "infd", "told").stdout
    resource = get(cluster, "infd", "told")

    for part in ("ScaledUp", "1 -> 3 replicas (BelowMinimum)", "arrival rate unknown (Missing)", "limit "):
        assert part in described
    assert {"finalizers", "annotations"} & set(resource["metadata"]) <= {"annotations"}
    assert "kopf" not in json.dumps(resource["metadata"].get("annotations", {}))
    assert process.get("healthz")[0] == 200
    told = process.get("metrics")[1]
    assert 'firsttoken_desired_replicas{name="told",namespace="default"} 3.0' in told
    assert re.search(r"^firsttoken_clock_ahead_seconds -?[0-4]\.\d", told, re.MULTILINE)
    assert process.end() == 0
    ours = [entry for entry in process.entries() if entry["logger"].startswith("firsttoken")]
    assert not [entry for entry in ours if entry["severity"] in ("warning", "error", "critical")]
    assert "forbidden" not in process.log.read_text()


def test_a_quiet_cluster_sees_no_writes(cluster: Cluster, start: Start) -> None:
    create(cluster, workload(3, "quiet"), infd("quiet", targetRef={"name": "quiet"}, scaling={"minReplicas": 3}))
    process = start()
    wait_until(lambda: "sizing" in get(cluster, "infd", "quiet").get("status", {}), 60, "sized")
    wait_until(lambda: get(cluster, "infd", "quiet")["status"].get("readyReplicas") == 3, 60, "all ready")
    wait_until(lambda: process.ticks() >= 3, 60, "some ticks")
    before, ticks = get(cluster, "infd", "quiet"), process.ticks()
    wait_until(lambda: process.ticks() >= ticks + 5, 60, "five more ticks")

    assert get(cluster, "infd", "quiet")["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_paused_and_advisory_write_no_replicas(cluster: Cluster, start: Start) -> None:
    for mode in ("Paused", "Advisory"):
        name = mode.lower()
        create(
            cluster, workload(1, name),
            infd(name, targetRef={"name": name}, scaling={"minReplicas": 3, "mode": mode}),
        )  # fmt: skip
    process = start()
    wait_until(lambda: "status" in get(cluster, "infd", "advisory"), 60, "advice")
    wait_until(lambda: process.ticks() >= 4, 60, "some ticks")

    assert (replicas(cluster, "paused"), replicas(cluster, "advisory")) == (1, 1)
    assert get(cluster, "infd", "advisory")["status"]["desiredReplicas"] == 3


def test_a_dry_run_scales_and_renders_nothing(cluster: Cluster, start: Start) -> None:
    create(
        cluster, workload(1, "dry"), infd("dry", targetRef={"name": "dry"}, scaling={"minReplicas": 3}), nim("drynim")
    )
    process = start("--advisory")
    wait_until(lambda: "status" in get(cluster, "infd", "dry"), 60, "advice")
    wait_until(lambda: process.ticks() >= 3, 60, "some ticks")

    assert replicas(cluster, "dry") == 1
    assert cluster.kubectl("get", "deployment", "drynim", check=False).returncode != 0
    cluster.kubectl("delete", "infd", "drynim")


def test_it_renders_and_never_touches_replicas_afterwards(cluster: Cluster, start: Start) -> None:
    create(cluster, nim("served", minReplicas=2))
    process = start()
    wait_until(lambda: cluster.kubectl("get", "deployment", "served", check=False).returncode == 0, 60, "rendered")
    wait_until(lambda: get(cluster, "infd", "served").get("status", {}).get("replicas") == 2, 60, "adopted")
    assert cluster.kubectl("get", "service", "served", check=False).returncode == 0

    cluster.kubectl("scale", "deployment/served", "--replicas=4")
    change = json.dumps({"spec": {"runtime": {"image": "nim:2"}}})
    cluster.kubectl("patch", "infd", "served", "--type=merge", "-p", change)
    wait_until(lambda: _image(cluster, "served") == "nim:2", 60, "new image rolled out")
    assert replicas(cluster, "served") == 4

    assert process.end() == 0
    again = start()
    wait_until(lambda: again.ticks() >= 3, 60, "some ticks of the next process")
    assert (replicas(cluster, "served"), _image(cluster, "served")) == (4, "nim:2")
    assert "forbidden" not in process.log.read_text() + again.log.read_text()


def test_a_second_foreign_write_is_a_conflict_that_is_told(cluster: Cluster, start: Start) -> None:
    create(cluster, workload(3, "fought"), infd("fought", targetRef={"name": "fought"}, scaling={"minReplicas": 3}))
    start()
    wait_until(lambda: "status" in get(cluster, "infd", "fought"), 60, "first status")
    for to in (5, 4):
        cluster.kubectl("scale", "deployment/fought", f"--replicas={to}")
        wait_until(lambda to=to: _status(cluster, "fought")["replicas"] == to, 60, "adopted")  # type: ignore[misc]
    wait_until(lambda: _status(cluster, "fought")["lastDecisionReason"] == "Conflict", 60, "conflict")

    assert "ForeignWrite" in cluster.kubectl("describe", "infd", "fought").stdout
    assert replicas(cluster, "fought") == 4


def test_without_definitions_it_waits_instead_of_being_blind(control_plane: Path, tmp_path: Path) -> None:
    with Cluster(nodes=1) as bare:
        process = Process(tmp_path, bare.kubeconfig)
        try:
            wait_until(lambda: "definitions are missing" in process.log.read_text(), 60, "it says what is missing")
            assert process.get("readyz")[0] == 503
            definitions = [manifest for manifest in render() if manifest["kind"] == "CustomResourceDefinition"]
            bare.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(definitions))
            wait_until(process.ready, 60, "ready once they are there")
            assert process.end() == 0
        finally:
            process.kill()


def test_it_runs_under_a_user_id_that_has_no_name(tmp_path: Path, account: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_NAMES)
    process = Process(tmp_path, account, PYTHONPATH=str(tmp_path))
    try:
        wait_until(process.ready, 60, "ready")
        assert process.end() == 0
    finally:
        process.kill()


def test_it_scales_and_ends_where_nothing_can_be_written_to_a_disk(
    cluster: Cluster, account: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(READ_ONLY)
    create(cluster, workload(1, "unwritten"), infd("unwritten", targetRef={"name": "unwritten"}))
    config = yaml.safe_load(account.read_text())
    server, authority = config["clusters"][0]["cluster"], tmp_path / "ca.crt"
    # NB: as in a pod, where it is a file already; of one inside a kubeconfig the client makes a temporary file.
    authority.write_bytes(base64.b64decode(server.pop("certificate-authority-data")))
    server["certificate-authority"] = str(authority)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    process = Process(tmp_path, kubeconfig, PYTHONPATH=paths, PYTHONDONTWRITEBYTECODE="1")
    try:
        wait_until(process.ready, 60, "ready")
        wait_until(lambda: get(cluster, "infd", "unwritten").get("status", {}).get("sizing") is not None, 60, "sized")
        assert process.end() == 0
    finally:
        process.kill()
    assert "REFUSED" not in process.log.read_text()


def test_the_refusing_disk_refuses(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(READ_ONLY)
    command = [sys.executable, "-c", f"open({str(tmp_path / 'written')!r}, 'w')"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, check=False)

    assert done.returncode == 1
    assert b"Read-only file system" in done.stderr
    assert not (tmp_path / "written").exists()


@pytest.mark.slow
def test_without_the_right_to_watch_it_ends_with_an_error(cluster: Cluster, account: Path, start: Start) -> None:
    cluster.kubectl("create", "serviceaccount", "powerless", "-n", NAMESPACE)
    powerless = cluster.service_account_kubeconfig(NAMESPACE, "powerless")
    process = start(kubeconfig=powerless, ready=False)

    # It is tried for 96 s, as after an outage, and then given up rather than to work on with watches that are dead.
    assert process.child.wait(180) == 1
    assert "forbidden" in process.log.read_text().lower()


def _image(cluster: Cluster, name: str) -> str:
    container = get(cluster, "deployment", name)["spec"]["template"]["spec"]["containers"][0]
    return str(container["image"])


def _status(cluster: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = get(cluster, "infd", name).get("status", {})
    return found
