"""A resource whose decision raises: the others go on, and its GPUs stay charged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import FleetSnapshot, PoolSnapshot, ResourceSnapshot
from firsttoken_operator.run import isolation
from firsttoken_operator.run.isolation import decide_isolated
from tests.operator.decide.builders import metrics, resource, target

POOL = PoolSnapshot("h100", budget_gpus=20, inventory_gpus=20, on_prem=False, scale_down_limit_percent=100,
                    scale_down_limit_window_seconds=600)  # fmt: skip


class FailingMetrics(dict[str, Any]):
    """Metrics that explode when read."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("unreadable")


def named(name: str, **changes: Any) -> ResourceSnapshot:
    made = resource(target(10, uid=f"d-{name}"), metrics(100.0), pool="h100")
    return replace(made, uid=name, name=name, **changes)


def fleet(*resources: ResourceSnapshot) -> FleetSnapshot:
    return FleetSnapshot(0.0, 15.0, resources, {"h100": POOL})


def test_without_a_failing_resource_it_is_the_plain_decision() -> None:
    snapshot = fleet(named("a"), named("b"))
    decided = decide_isolated(snapshot, Memory())

    assert (decided.decisions, decided.failed) == (decide(snapshot, Memory())[0], ())


def test_the_others_are_decided_and_the_failing_one_is_named() -> None:
    failing = named("bad", metrics=FailingMetrics())
    decided = decide_isolated(fleet(named("a"), failing), Memory())

    assert [d.name for d in decided.decisions] == ["a"]
    assert [r.name for r in decided.failed] == ["bad"]


def test_the_gpus_of_the_failing_one_are_not_given_to_others() -> None:
    alone = decide_isolated(fleet(named("a")), Memory()).decisions[0]
    beside = decide_isolated(fleet(named("a"), named("bad", metrics=FailingMetrics())), Memory()).decisions[0]

    assert alone.to_replicas == 20
    assert beside.to_replicas == 10


def test_a_fault_of_no_resource_in_particular_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(snapshot: FleetSnapshot, memory: Memory) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(isolation, "decide", broken)
    with pytest.raises(ZeroDivisionError):
        decide_isolated(fleet(named("a")), Memory())


def test_a_pool_that_fails_stops_no_other_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    def brittle(snapshot: FleetSnapshot, memory: Memory) -> Any:
        if sum(r.pool == "h100" for r in snapshot.resources) > 1:
            raise ZeroDivisionError
        return decide(snapshot, memory)

    monkeypatch.setattr(isolation, "decide", brittle)
    pools = {"h100": POOL, "a100": replace(POOL, name="a100")}
    found = (named("a"), named("b"), named("elsewhere", pool="a100"), named("free", pool=None))
    decided = decide_isolated(FleetSnapshot(0.0, 15.0, found, pools), Memory())

    assert [d.name for d in decided.decisions] == ["elsewhere", "free"]
    assert [r.name for r in decided.failed] == ["a", "b"]
