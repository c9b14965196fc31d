"""The right to patch pods, as the chart's policy leaves it: judged by a real API server with the operator's token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from firsttoken_operator.act.errors import Rejected
from firsttoken_operator.act.kubernetes import KubernetesCluster, ObjectRef
from firsttoken_operator.observe.projections import DELETION_COST, OWN_DELETION_COST
from tests.fixtures.connected import connected
from tests.operator.run.process import installed

pytestmark = pytest.mark.cluster

POD = {
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "replica", "namespace": "default", "labels": {"app": "nim"}, "annotations": {"team": "a"}},
    "spec": {"containers": [{"name": "nim", "image": "nim:1"}]},
}  # fmt: skip
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "another", "uid": "1-1"}
OURS = {DELETION_COST: "-1", OWN_DELETION_COST: "-1"}


@pytest.fixture(scope="module")
def confined(control_plane: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The operator's kubeconfig, on a cluster with the policies and the pod, and that pod."""
    with installed("scale.chooseVictims=true", nodes=1) as (cluster, kubeconfig):
        live = json.loads(cluster.kubectl("apply", "-o", "json", "-f", "-", stdin=json.dumps(POD)).stdout)
        yield kubeconfig, live


@pytest.fixture
async def operator(confined: tuple[Path, dict[str, Any]]) -> AsyncIterator[KubernetesCluster]:
    async with connected(confined[0]) as made:
        # The API server reads a new policy within a second or so. A label that is there already would be no change.
        values = (str(number) for number in range(50))
        while not await refusal(made, {"metadata": {"labels": {"number": next(values)}}}):
            await asyncio.sleep(0.2)
        yield made


async def refusal(operator: KubernetesCluster, patch: dict[str, Any]) -> str:
    """Words of the server that denies a patch of the pod; empty: it takes it."""
    try:
        await operator.patch(ObjectRef.of(POD), patch)
    except Rejected as error:
        return str(error)
    return ""


async def test_a_deletion_cost_is_set_and_taken_away(operator: KubernetesCluster) -> None:
    for cost in ("-1", None):
        assert not await refusal(operator, {"metadata": {"annotations": dict.fromkeys(OURS, cost)}})


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"annotations": {**OURS, "sidecar.istio.io/inject": "true"}}},
        {"metadata": {"annotations": {"team": None}}},
        {"metadata": {"annotations": {"team": "b"}}},
        {"metadata": {"labels": {"app": "another"}}},
        {"metadata": {"finalizers": ["example.com/stay"]}},
        {"metadata": {"ownerReferences": [OWNER]}},
        {"spec": {"activeDeadlineSeconds": 1}},
    ],
    ids=["annotation", "one less", "another value", "label", "finalizer", "owner", "deadline"],
)
async def test_everything_else_of_it_is_refused(operator: KubernetesCluster, patch: dict[str, Any]) -> None:
    said = await refusal(operator, patch)

    assert "the operator writes the deletion cost of a pod and nothing else of it" in said


async def test_no_other_image_gets_into_it(operator: KubernetesCluster, confined: tuple[Path, dict[str, Any]]) -> None:
    (container,) = confined[1]["spec"]["containers"]
    said = await refusal(operator, {"spec": {"containers": [container | {"image": "another:1"}]}})

    assert "the operator writes the deletion cost of a pod and nothing else of it" in said
