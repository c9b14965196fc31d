"""Pods or nodes of which many stop being ready at once: nothing is lowered on what is left, and not for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import decide, judge_facts
from firsttoken_operator.domain import Decision, FleetSnapshot, PoolSnapshot, Reason
from tests.operator.decide.builders import TICK_SECONDS, Fleet, metrics, resource, target

MINUTES = 60.0
POOL = PoolSnapshot("h100", 64, 64, on_prem=False, scale_down_limit_percent=100, scale_down_limit_window_seconds=600)


def first_down(
    pods: tuple[float, ...] = (),
    nodes: tuple[float, ...] = (),
    *,
    pool: str | None = "h100",
    most_seconds: float = 3600,
) -> tuple[float | None, Decision]:
    """Time until replicas are lowered of 40 that need 10, and the last decision.

    `pods` and `nodes`: minutes before the beginning at which some of the 40 and of 8 were lost.
    """
    fleet, began = Fleet(replicas=40, pools={"h100": POOL}, pool=pool), 2400.0
    fleet.run(metrics(190), began)
    decision = None
    for tick in range(round(most_seconds / TICK_SECONDS)):
        passed = tick * TICK_SECONDS
        lost = tuple(minutes * MINUTES + passed for minutes in pods)
        tgt = target(40, ready=40 - len(lost), starting=len(lost), waits_seconds=(9e4,) * len(lost), lost_seconds=lost)
        of_pool = replace(POOL, nodes=8, lost_seconds=tuple(minutes * MINUTES + passed for minutes in nodes))
        r = resource(tgt, metrics(50), pool=pool)
        seen = judge_facts(FleetSnapshot(fleet.now_seconds, TICK_SECONDS, (r,), {"h100": of_pool}))
        (decision,), fleet.memory = decide(seen, fleet.memory)
        fleet.now_seconds += TICK_SECONDS
        if decision.to_replicas < 40:
            return passed, decision
    assert decision is not None
    return None, decision


def test_a_third_of_the_pods_holds_the_size_for_half_an_hour() -> None:
    undisturbed, _ = first_down()
    waited, _ = first_down(pods=(0.0,) * 12)
    _, held = first_down(pods=(0.0,) * 12, most_seconds=25 * MINUTES)

    assert undisturbed is not None
    assert undisturbed < 10 * MINUTES
    assert waited == pytest.approx(30 * MINUTES, abs=TICK_SECONDS)
    assert held.reason is Reason.READINESS_LOST


def test_a_third_of_the_nodes_of_the_pool_holds_all_that_is_in_it() -> None:
    waited, _ = first_down(nodes=(0.0,) * 3)

    assert waited == pytest.approx(30 * MINUTES, abs=TICK_SECONDS)


@pytest.mark.parametrize(
    "lost", [{"pods": (0.0,) * 8}, {"nodes": (0.0,)}, {"pods": (40.0,) * 20}, {"nodes": (40.0,) * 8},
             {"nodes": (0.0,) * 8, "pool": None}],
    ids=["a fifth of the pods", "one node of eight", "pods long gone", "nodes long gone", "nodes of another pool"],
)  # fmt: skip
def test_few_or_what_is_long_gone_hold_nothing(lost: dict[str, object]) -> None:
    undisturbed, _ = first_down()
    waited, _ = first_down(**lost)  # type: ignore[arg-type]

    assert waited == undisturbed


def test_what_is_lost_hinders_no_scale_up() -> None:
    shaken = Fleet(replicas=16, resource_changes={"is_shaken": True})

    assert shaken.tick(metrics(150)).to_replicas == 30
