"""A runtime that tells no TTFT is scaled by arrivals, its queue and the sizing model; what it does not tell is said."""

from __future__ import annotations

import pytest

from firsttoken_operator.decide import judge
from firsttoken_operator.domain import ConditionType, Metrics, Missing, Outcome, Reason, Shortcoming, Value
from tests.operator.act.objects import decision
from tests.operator.decide.builders import Fleet, metrics, resource, target

FLAG = "--metrics-config=histogram_latencies=true"
UNOBSERVED = Shortcoming(Reason.TTFT_NOT_OBSERVED, f"Triton publishes no TTFT: {FLAG}")
NOT_THERE = Missing(Reason.NO_SERIES)


def blind(arrivals: float, **changes: object) -> Metrics:
    """Metrics of a Triton without the histogram, which knows no running requests either."""
    untold = {"ttft": None, "first_tokens": NOT_THERE, "running": NOT_THERE, "kv_percent": NOT_THERE}
    return metrics(arrivals, family="Triton", shortcomings=(UNOBSERVED,), **(untold | changes))


def test_more_that_arrive_get_more_at_once() -> None:
    decision = Fleet(replicas=16).tick(blind(150))

    assert (decision.outcome, decision.to_replicas, decision.reason) == (Outcome.UP, 30, Reason.DEMAND_ABOVE_CAPACITY)


def test_a_queue_gets_more() -> None:
    decision = Fleet(replicas=16).tick(blind(75, waiting=Value(6000)))

    assert (decision.outcome, decision.reason) == (Outcome.UP, Reason.BACKLOG)


def test_fewer_that_arrive_give_back_step_by_step_after_a_whole_window() -> None:
    fleet = Fleet(replicas=30)
    before = fleet.run(blind(75), 300)
    after = fleet.run(blind(75), 1800)

    assert {decision.to_replicas for decision in before} == {30}
    assert after[-1].to_replicas < 20
    assert after[-1].to_replicas >= 15, "the model's capacity is 5 requests/s each"


@pytest.mark.parametrize(
    "spoiled",
    [
        {"health": Reason.PARTIAL},
        {"health": Reason.MISSING},
        {"error_share": Value(0.02)},
        {"error_share": NOT_THERE},
        {"waiting": NOT_THERE},
    ],
    ids=["partial", "missing", "errors", "errors not known", "queue not known"],
)
def test_every_rule_that_needs_no_ttft_still_forbids(spoiled: dict[str, object]) -> None:
    fleet = Fleet(replicas=30)

    assert min(decision.to_replicas for decision in fleet.run(blind(20, **spoiled), 3600)) == 30


def test_the_conditions_name_the_flag_that_would_tell() -> None:
    about = resource(target(5), blind(20.0))
    judged = {each.kind: each for each in judge(about, decision(about, 5, 5))}

    met, healthy = judged[ConditionType.SLA_MET], judged[ConditionType.METRICS_HEALTHY]
    assert (met.holds, met.reason) == (None, Reason.TTFT_NOT_OBSERVED)
    assert (healthy.holds, healthy.reason) == (True, Reason.PRESENT)
    assert FLAG in met.message
    assert f"TTFTNotObserved: {UNOBSERVED.text}" in healthy.message
