"""The switch: what a ConfigMap says, what stays when it cannot be read, and that nothing at all is written."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from kubernetes.aio import client

from firsttoken_operator.act.errors import Unavailable, Withheld
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.domain import Reason
from firsttoken_operator.run.settings import Settings
from firsttoken_operator.run.switch import WriteSwitch
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.observe.bodies import NAMESPACE, autoscaler, inference_deployment
from tests.operator.run.sizings import settled
from tests.operator.run.test_a_new_loop_goes_on_where_the_last_one_ended import REF, process_that_finds

SWITCH = ObjectRef("v1", "ConfigMap", "system", "ft-writes")


def set_to(cluster: FakeCluster, data: dict[str, str] | None) -> None:
    """Make the switch say this; None: delete it."""
    cluster.objects.pop(SWITCH, None)
    if data is not None:
        cluster.objects[SWITCH] = {"data": data}


@pytest.mark.parametrize(
    ("data", "stopped"),
    [
        pytest.param(None, False, id="no ConfigMap"),
        pytest.param({"writes": "active"}, False, id="active"),
        pytest.param({"writes": "paused"}, True, id="paused"),
        pytest.param({"writes": "false"}, True, id="false"),
        pytest.param({"writes": "Active"}, True, id="another case"),
        pytest.param({"writes": "\x1b[31m" + "x" * 10_000}, True, id="garbage"),
        pytest.param({"write": "active"}, True, id="a misspelt key"),
        pytest.param({}, True, id="empty"),
    ],
)
async def test_it_stops_writes_unless_it_clearly_does_not(data: dict[str, str] | None, stopped: bool) -> None:
    cluster = FakeCluster()
    set_to(cluster, data)
    await WriteSwitch(cluster, "system/ft-writes").read()

    assert bool(cluster.withheld) is stopped
    assert len(cluster.withheld) < 200
    assert cluster.withheld.isprintable()


async def test_nothing_is_written_before_it_was_read_and_what_it_said_stays_while_it_cannot_be() -> None:
    cluster = FakeCluster(error=Unavailable("GET /configmaps: 503"))
    switch = WriteSwitch(cluster, "system/ft-writes")
    await switch.read()
    assert "was not read yet" in cluster.withheld

    for data, stopped in (({"writes": "paused"}, True), (None, False)):
        cluster.error = None
        set_to(cluster, data)
        await switch.read()
        assert bool(cluster.withheld) is stopped
        cluster.error = Unavailable("GET /configmaps: 503")
        await switch.read()
        assert bool(cluster.withheld) is stopped


async def test_it_says_what_it_does_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(error=Unavailable("GET /configmaps: 503"))
    switch = WriteSwitch(cluster, "system/ft-writes")
    with caplog.at_level(logging.INFO):
        await switch.read()
        await switch.read()
        cluster.error = None
        set_to(cluster, {"writes": "paused"})
        await switch.read()
        await switch.read()
        set_to(cluster, None)
        await switch.read()
        await switch.read()

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "cannot read the switch of all writes, which stay stopped as they are: GET /configmaps: 503"),
        ("WARNING", "all writes are stopped: ConfigMap system/ft-writes says writes: paused; delete it to go on"),
        ("INFO", "no ConfigMap system/ft-writes stops writes"),
    ]


async def test_no_write_leaves_the_process_while_it_is_set() -> None:
    api = client.ApiClient(client.Configuration(host="http://127.0.0.1:1"))
    cluster = KubernetesCluster(api)
    cluster.withheld = "stopped"
    ref = ObjectRef("apps/v1", "Deployment", "ns", "d")
    manifest: dict[str, Any] = {"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "ns", "name": "e"}}
    try:
        with pytest.raises(Withheld):
            await cluster.patch_scale(ref, 3, uid="u", resource_version="1")
        with pytest.raises(Withheld):
            await cluster.replace_status(ref, {}, uid="u")
        with pytest.raises(Withheld):
            await cluster.apply(manifest)
        with pytest.raises(Withheld):
            await cluster.create(manifest)
        with pytest.raises(Unavailable):
            await cluster.read(ref)
    finally:
        await cluster.close()


async def test_decisions_go_on_and_are_told_in_log_and_metrics_only(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster({REF: {"status": {}}}, withheld="stopped by hand")
    loop, parts = process_that_finds({}, cluster, Settings())
    raised = inference_deployment("rag")
    raised["spec"]["scaling"] = {"minReplicas": 5}
    parts.store.feed("InferenceDeployment", "MODIFIED", raised)
    await settled(parts.sizer, parts.store)
    with caplog.at_level(logging.INFO):
        (decision,) = await loop.tick(time.monotonic())
    parts.sizer.close()
    metrics = parts.metrics.registry

    assert decision.changes
    assert metrics.get_sample_value("firsttoken_writes_paused") == 1
    assert metrics.get_sample_value("firsttoken_desired_replicas", {"namespace": NAMESPACE, "name": "rag"}) == 5
    told = [record for record in caplog.records if "stopped by hand" in record.getMessage()]
    assert [record.__dict__["fields"]["withheld"] for record in told] == [Reason.WRITES_PAUSED]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_who_scales_while_writes_are_stopped_is_no_rival() -> None:
    cluster = FakeCluster({REF: {"status": {}}}, withheld="stopped by hand")
    loop, parts = process_that_finds({}, cluster, Settings())
    await settled(parts.sizer, parts.store)
    parts.store.feed("HorizontalPodAutoscaler", None, autoscaler("hpa"))
    (decision,) = await loop.tick(time.monotonic())
    parts.sizer.close()

    assert decision.reason is not Reason.CONFLICT
