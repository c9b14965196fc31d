"""Exposition of one tenant's pods makes the reading of them fail: that resource has no metrics, and says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from firsttoken_operator.domain import Metrics, Missing, Reason
from firsttoken_operator.observe.freshness import LivePod
from firsttoken_operator.observe.measure import measure
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run import measuring
from firsttoken_operator.run.measuring import Measuring
from firsttoken_operator.run.settings import Settings
from tests.operator.observe.bodies import EPOCH, deployment, inference_deployment, pod, replica_set


async def test_a_resource_whose_metrics_cannot_be_read_is_missing_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(reading: Any, pods: Iterable[LivePod], *rest: Any) -> Metrics:
        pods = tuple(pods)
        if any(each.name == "bad-pod" for each in pods):
            raise ZeroDivisionError
        return measure(reading, pods, *rest)

    monkeypatch.setattr(measuring, "measure", failing)
    store = Store()
    for name in ("bad", "good"):
        store.feed("InferenceDeployment", None, inference_deployment(name, target=name))
        store.feed("Deployment", None, deployment(name))
        store.feed("ReplicaSet", None, replica_set(f"{name}-1", of=name))
        store.feed("Pod", None, pod(f"{name}-pod", of=f"{name}-1", ready=0))
    found = await Measuring(Settings()).metrics(store, EPOCH)

    why = {uid: metrics.arrivals.reason for uid, metrics in found.items() if isinstance(metrics.arrivals, Missing)}
    assert why == {"uid-bad": Reason.BAD_RESPONSE, "uid-good": Reason.SOURCE_NOT_CONFIGURED}
