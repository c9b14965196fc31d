"""The constants are arguments: another config decides otherwise, in every estimator and in the decision itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import Decision, FleetSnapshot, Metrics, Value
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig
from tests.operator.decide.builders import SIZED, TICK_SECONDS, WORK, late, metrics, resource, running, target
from tests.operator.decide.builders import worked_table as table

REPLICAS = 20
SIZED_WITH_WORK = replace(SIZED, table=table())


def last(config: EstimatorConfig, seen: list[Metrics]) -> Decision:
    """The last decision on a fleet that stays as it is."""
    memory, decisions = Memory(), ()
    for tick, mtr in enumerate(seen):
        one = resource(target(REPLICAS), mtr, sized=SIZED_WITH_WORK)
        decisions, memory = decide(FleetSnapshot(tick * TICK_SECONDS, TICK_SECONDS, (one,)), memory, config)
    return decisions[0]


def full(ticks: int, **changes: object) -> list[Metrics]:
    return [metrics(95.0, ttft=late(0.2), **changes)] * ticks


SLOW = {"running": Value(running(table(), 95.0, REPLICAS, 1.5))}
LONG = {"input_tokens": Value(2 * WORK.input_tokens), "output_tokens": Value(WORK.output_tokens)}

CHANGES = {
    "demand": (
        replace(DEFAULT, demand=replace(DEFAULT.demand, long_prompt_exponent=0.0)),
        full(2, **LONG),
    ),
    "replica speed": (
        replace(DEFAULT, replica_speed=replace(DEFAULT.replica_speed, model_error=0.0)),
        full(240, **SLOW),
    ),
    "miss rate": (replace(DEFAULT, miss_rate=replace(DEFAULT.miss_rate, least_requests=2000)), full(240)),
    "error budget": (
        replace(DEFAULT, error_budget=replace(DEFAULT.error_budget, reserve_per_budget=0.0)),
        full(240),
    ),
    "tail capacity": (
        replace(DEFAULT, tail_capacity=replace(DEFAULT.tail_capacity, least_fast_correction=0.9)),
        full(240),
    ),
    "target load": (replace(DEFAULT, target_load=replace(DEFAULT.target_load, most_over_provisioning=0.05)), full(1)),
    "the forecast": (
        replace(
            DEFAULT,
            forecast=replace(DEFAULT.forecast, level=replace(DEFAULT.forecast.level, certain_deviations=1e9)),
        ),
        [*[metrics(20.0)] * 40, metrics(60.0)],
    ),
    "the decision": (
        replace(DEFAULT, witnesses=replace(DEFAULT.witnesses, scale_up_percent=10)),
        [metrics(300.0)] * 2,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_another_constant_decides_otherwise(name: str) -> None:
    config, seen = CHANGES[name]

    assert last(config, seen) != last(DEFAULT, seen)
