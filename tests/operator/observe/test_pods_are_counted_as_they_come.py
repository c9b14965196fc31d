"""Pods of others on a node are known without a look at all pods of the cluster for each target."""

from __future__ import annotations

import pytest

from firsttoken_operator.observe.store import DELETED, Store
from tests.operator.observe.bodies import pod
from tests.operator.observe.test_the_snapshot_shows_the_fleet import cluster


def test_others_on_a_node_are_counted_as_they_come_change_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Store] = []
    monkeypatch.setattr(Store, "gpu_pods", lambda store: looks.append(store) or [])
    store, other = cluster(("Pod", pod("own", ready=1, node="a"))), pod("other", ready=1, node="a", owned=False)
    counts = []
    for event, body in ((None, other), (None, other), (DELETED, other), (DELETED, other)):
        store.feed("Pod", event, body)
        counts.append(store.replica_pods("uid-nim")[0].others_there)

    assert counts == [1, 1, 0, 0]
    assert looks == []
