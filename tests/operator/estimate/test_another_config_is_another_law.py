"""The constants are arguments: another config decides otherwise, in every estimator, in the decision and beside it."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from firsttoken_operator.decide import Memory, calibration_state, decide, judge, judge_owners
from firsttoken_operator.domain import ConditionType, Decision, FleetSnapshot, Metrics, Reason, Value
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig
from tests.fixtures.source import modules
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


ONE_IS_A_CONFLICT = replace(DEFAULT, decision=replace(DEFAULT.decision, foreign_writes_for_conflict=1))
KEEPS_CLOSE = replace(DEFAULT, tail_capacity=replace(DEFAULT.tail_capacity, least_factor=0.95))


@pytest.mark.parametrize(("config", "conflicts"), [(DEFAULT, False), (ONE_IS_A_CONFLICT, True)])
def test_another_config_judges_the_owners_otherwise(config: EstimatorConfig, conflicts: bool) -> None:
    def at(seconds: float, replicas: int) -> FleetSnapshot:
        return FleetSnapshot(seconds, TICK_SECONDS, (resource(target(replicas), metrics(95.0)),))

    before = judge_owners(at(0.0, REPLICAS), {}, 600.0, config)
    (seen,) = judge_owners(at(TICK_SECONDS, 9), before.ownerships, 600.0, config).snapshot.resources

    assert bool(seen.conflict) is conflicts


@pytest.mark.parametrize(("config", "state"), [(DEFAULT, Reason.LEARNED), (KEEPS_CLOSE, Reason.PEGGED)])
def test_the_condition_is_that_of_the_law_in_force(config: EstimatorConfig, state: Reason) -> None:
    decision = replace(last(DEFAULT, full(1)), capacity_factor=0.9)
    said = judge(resource(target(REPLICAS), metrics(95.0), sized=SIZED_WITH_WORK), decision, None, config)
    calibrated = next(judgement for judgement in said if judgement.kind is ConditionType.CALIBRATED)

    assert calibrated.reason is calibration_state(decision.capacity_factor, config) is state


def test_no_decision_reads_the_constants_past_its_argument() -> None:
    read = [
        f"{module}:{name.lineno}"
        for module, tree in modules()
        if "/decide/" in module
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for name in ast.walk(statement)
        if isinstance(name, ast.Name) and name.id == "DEFAULT"
    ]

    assert read == []
