"""docs/keda.md with the real KEDA: it writes what an Advisory resource says, through Prometheus and from the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from demo.scenario import Scenario
from tests.docs.pages import ROOT, blocks, save_files
from tests.e2e.play import Play, play
from tests.e2e.test_a_request_wakes_it_up_from_zero import COUNTER, gateway_of
from tools.cluster import wait_until
from tools.cluster.keda import Keda

PAGE = ROOT / "docs/keda.md"
NAME, NAMESPACE = "support-rag", "call-center"
SCENARIO = Scenario(cold_start_seconds=30, initial_replicas=4)
FOLLOW_SECONDS = 60.0
SERVER = "http://prometheus-operated.monitoring.svc:9090"
Json = dict[str, Any]


def scaled_objects() -> dict[str, Json]:
    """The ScaledObjects of the page by the type of their trigger."""
    documents = (yaml.safe_load(block.text) for block in blocks(PAGE, "yaml"))
    found = (document for document in documents if document["kind"] == "ScaledObject")
    return {document["spec"]["triggers"][0]["type"]: document for document in found}


def test_both_follow_at_once_and_by_one_replica_too() -> None:
    prometheus, direct = scaled_objects()["prometheus"], scaled_objects()["metrics-api"]
    behavior = prometheus["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    query = f'firsttoken_desired_replicas{{namespace="{NAMESPACE}",name="{NAME}"}}'

    assert behavior == direct["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert {(way["stabilizationWindowSeconds"], way["tolerance"]) for way in behavior.values()} == {(0, "0")}
    assert prometheus["spec"]["triggers"][0]["metadata"] == {
        "serverAddress": SERVER, "query": f"max({query})", "threshold": "1", "ignoreNullValues": "false",
    }  # fmt: skip
    assert direct["spec"]["triggers"][0]["metadata"]["valueLocation"] == query


@pytest.fixture(scope="module")
def played(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    folder = tmp_path_factory.mktemp("keda")
    save_files(PAGE, folder)
    with play(SCENARIO, initial_load=40, example=folder / f"{NAME}.yaml") as p, Keda(p.cluster):
        address = urlsplit(p.stage.operator_url).netloc
        p.cluster.prometheus.add_target(address, job="firsttoken", honor_labels=True)
        yield p


def here(p: Play, trigger: str) -> Json:
    """The page's ScaledObject, with the addresses of this machine."""
    made = scaled_objects()[trigger]
    where = made["spec"]["triggers"][0]["metadata"]
    if trigger == "prometheus":
        where["serverAddress"] = p.cluster.prometheus_url
    else:
        where["url"] = f"{p.stage.operator_url}/metrics"
        # The operator is a process of this machine, and a Service has no endpoints there.
        del where["aggregateFromKubeServiceEndpoints"], where["aggregationType"]
    return made


def replicas(p: Play) -> int:
    found: Json = json.loads(p.stage.kubectl("-n", NAMESPACE, "get", "deployment", NAME, "-o", "json"))
    return int(found["spec"]["replicas"])


def advice(p: Play) -> int:
    return int(p.stage.status().get("desiredReplicas", 0))


def advised(p: Play, least: int) -> None:
    """Set the least that is advised."""
    p.stage.patch_spec({"scaling": {"minReplicas": least}})
    wait_until(lambda: advice(p) == least, 60, f"an advice of {least}")


def rested(p: Play, least: int) -> None:
    """Begin with so many replicas under the load that they carry, whatever was played before."""
    p.load(40)
    p.stage.patch_spec({"scaling": {"minReplicas": least}})
    p.sleep_until(p.now + 30)  # What was queued is answered.
    p.stage.kubectl("-n", NAMESPACE, "scale", "deployment", NAME, f"--replicas={least}")
    wait_until(lambda: advice(p) == least, 180, "the load of before is forgotten")


def writers(p: Play) -> set[str]:
    """Field managers of the replicas."""
    shown = p.stage.kubectl("-n", NAMESPACE, "get", "deployment", NAME, "-o", "json", "--show-managed-fields")
    entries = json.loads(shown)["metadata"]["managedFields"]
    return {entry["manager"] for entry in entries if "f:replicas" in entry["fieldsV1"].get("f:spec", {})}


@pytest.mark.real_keda
@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("trigger", ["prometheus", "metrics-api"])
def test_the_replicas_are_what_is_advised_and_stay_without_advice(played: Play, trigger: str) -> None:
    p = played
    rested(p, 4)
    p.stage.apply([here(p, trigger)])
    wait_until(lambda: replicas(p) == advice(p) > 0, FOLLOW_SECONDS, "the advice is followed")

    p.load(150)
    wait_until(lambda: advice(p) > 20, 120, "more is advised under load")
    wait_until(lambda: replicas(p) == advice(p), FOLLOW_SECONDS, "and followed")
    most = advice(p) + 10
    advised(p, most)
    wait_until(lambda: replicas(p) == most, FOLLOW_SECONDS, "followed to the minimum")
    advised(p, most + 1)
    wait_until(lambda: replicas(p) == most + 1, FOLLOW_SECONDS, "one more is no tolerance")
    assert "firsttoken-scale" not in writers(p)
    assert p.stage.condition("ScalingActive") == ("False", "Advisory")

    # Without firsttoken there is no number, and none is not zero.
    assert p.stage.operator is not None
    p.stage.operator.stop()
    began = p.now
    condition = "ScalingActive"

    def is_blind() -> bool:
        found = json.loads(p.stage.kubectl("-n", NAMESPACE, "get", "hpa", f"keda-hpa-{NAME}", "-o", "json"))
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        return conditions.get(condition) == "False"

    wait_until(is_blind, 400, "the autoscaler has no metric")
    p.sleep_until(p.now + 10)
    assert set(p.sizes_since(began)) == {most + 1}
    p.stage.start_operator(p.identity)
    p.stage.kubectl("-n", NAMESPACE, "delete", "scaledobject", NAME)


@pytest.mark.real_keda
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_the_last_replica_goes_and_a_request_brings_one_back(played: Play) -> None:
    p = played
    made = here(p, "prometheus")
    # As the page has it, and sooner than KEDA's half a minute and five minutes.
    made["spec"] |= {"minReplicaCount": 0, "pollingInterval": 1, "cooldownPeriod": 1}
    with gateway_of(p.stage) as counted:
        p.cluster.add_http_sd(counted, job="gateway")
        p.stage.start_operator(p.identity, gateway=COUNTER)
        p.load(0)
        p.stage.kubectl("-n", NAMESPACE, "scale", "deployment", NAME, "--replicas=2")
        p.stage.patch_spec({"scaling": {"minReplicas": 0}})
        p.stage.apply([made])
        wait_until(lambda: replicas(p) == 0, 300, "the last replica gone")
        assert advice(p) == 0
        wait_until(lambda: p.stage.condition("Ready") == ("True", "ScaledToZero"), 60, "scaled to zero")
        assert stays(p, 10) == {0}, "nothing wakes it up while nothing comes"

        answered = (p.stage.stats() or {})["ended"]
        p.load(3)
        wait_until(lambda: (p.stage.stats() or {})["ended"] > answered, 120, "a request answered")
        assert "firsttoken-scale" not in writers(p)
        p.stage.start_operator(p.identity)
        p.stage.kubectl("-n", NAMESPACE, "delete", "scaledobject", NAME)


def stays(p: Play, seconds: float) -> set[int]:
    """Sizes that the target has within so many seconds. NB: read, since a watch may tell of earlier ones only now."""
    ends, found = p.now + seconds, {replicas(p)}
    while p.now < ends:
        found.add(replicas(p))
    return found
