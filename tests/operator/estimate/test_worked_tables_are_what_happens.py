"""The worked table in the docstring of each estimator holds the figures that the estimator gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import ModuleType

import pytest

from firsttoken_operator.domain import Metrics, Value
from firsttoken_operator.estimate import (
    DEFAULT,
    demand,
    error_budget,
    forecast,
    irreducible_misses,
    miss_rate,
    replica_speed,
    tail_capacity,
    target_load,
    witnesses,
)
from firsttoken_operator.estimate.tail_capacity import TailCapacity, TailSample
from tests.operator.decide.builders import POLICY, TICK_SECONDS, WORK, Fleet, idle, late, lost, metrics, worked_table
from tests.operator.estimate.forecast.series import MONDAY, observe, predict

MINUTE, HOUR = 4, 240
"""Ticks."""
ALLOWED = 0.01
"""Share of first tokens that an SLA of P99 allows to be late."""
Row = tuple[str, ...]


def written(module: ModuleType) -> list[Row]:
    """Rows of the table in a module's docstring, without its heading; labels are left out."""
    lines = [line for line in (module.__doc__ or "").splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|"))[1:] for line in lines[2:]]


def of_demand() -> Iterable[Row]:
    table, state = worked_table(), demand.DemandState()
    twice = 1 + (2 * WORK.declared_seconds - 60e-3) / WORK.seconds_per_output_token

    def tick(seen: Metrics, ticks: int = 1) -> Row:
        nonlocal state
        for _ in range(ticks):
            state = demand.update(state, seen, table, TICK_SECONDS, DEFAULT.demand)
        found = demand.demand(state, seen, POLICY)
        return f"{state.request_cost:.2f}", "unknown" if found is None else f"{found.total_per_second:.1f}"

    def lengths(output_tokens: float, **changes: object) -> Metrics:
        known = {"input_tokens": Value(WORK.input_tokens), "output_tokens": Value(output_tokens)}
        return metrics(50.0, **known, **changes)

    yield tick(lengths(WORK.output_tokens), HOUR)
    yield tick(lengths(twice))
    yield tick(lengths(twice), MINUTE - 1)
    yield tick(lengths(twice), 4 * MINUTE)
    yield tick(lengths(twice, waiting=Value(600)), HOUR)
    yield tick(idle(), 8 * HOUR)
    yield tick(lost(), MINUTE)


def of_replica_speed() -> Iterable[Row]:
    law, state = DEFAULT.replica_speed, replica_speed.ReplicaSpeed()

    def after(measured: float, ticks: int) -> Row:
        nonlocal state
        for _ in range(ticks):
            state = replica_speed.update(state, measured, TICK_SECONDS, law)
        return f"{state.seconds:.0f}", f"{replica_speed.speed(state, law):.2f}"

    yield after(0.8, 1)
    yield after(0.8, 5 * MINUTE - 1)
    yield after(0.8, HOUR - 5 * MINUTE)
    yield after(0.5, HOUR)
    yield after(0.5, 0)
    yield after(1.0, 15 * MINUTE)
    yield after(1.0, 2 * HOUR - 15 * MINUTE)


def of_tail_capacity() -> Iterable[Row]:
    law, state = DEFAULT.tail_capacity, TailCapacity()

    def after(ticks: int, late: float, utilization: float) -> Row:
        nonlocal state
        aimed_at = error_budget.set_point(0.0, ALLOWED, DEFAULT.error_budget)
        signal = tail_capacity.error_signal(late, 0.0, 0.0, aimed_at, ALLOWED, law)
        for tick in range(ticks):
            sample = TailSample(
                error_signal=signal, budget_gain=1.0, is_clear=late > law.clear_violations * ALLOWED,
                utilization=utilization, violating_windows=tick / MINUTE if signal < 0 else 0.0, most_factor=2.0,
                interval_seconds=TICK_SECONDS, window_seconds=60.0,
            )  # fmt: skip
            state = tail_capacity.update(state, sample, 1.0, law)
        corrections = state.slow_correction, state.fast_correction, tail_capacity.factor(state, 1.0, law)
        return tuple(f"{each:.2f}" for each in corrections)

    yield after(HOUR, 0.0, 1.0)
    yield after(3 * HOUR, 0.0, 1.0)
    yield after(8 * HOUR, 0.0, 0.5)
    yield after(MINUTE, 0.05, 1.0)
    yield after(9 * MINUTE, 0.05, 1.0)
    yield after(HOUR - 10 * MINUTE, 0.05, 1.0)
    yield after(HOUR, 0.0, 0.9)
    yield after(HOUR, 0.0, 0.9)


def of_error_budget() -> Iterable[Row]:
    law, state = DEFAULT.error_budget, error_budget.ErrorBudget()

    def after(ticks: int, late: float | None, requests_per_second: float = 10.0) -> Row:
        nonlocal state
        for _ in range(ticks):
            requests = requests_per_second * TICK_SECONDS
            state = error_budget.update(state, late, 0.0, requests, TICK_SECONDS, law)
        used = error_budget.consumption(state, error_budget.set_point(0.0, ALLOWED, law), law)
        limit, windows = error_budget.utilization_limit(used, law), error_budget.window_multiplier(used, law)
        return f"{used:.2f}", f"{error_budget.gain(used, law):.2f}", f"{100 * limit:.0f} %", f"{windows:.1f}"

    yield after(0, None)
    yield after(HOUR, 0.002)
    yield after(HOUR, 0.05)
    yield after(8 * HOUR, None)
    yield after(12 * HOUR, 0.0038)
    yield after(12 * HOUR, 0.0038)


def of_irreducible_misses() -> Iterable[Row]:
    law, state = DEFAULT.irreducible_misses, irreducible_misses.IrreducibleMisses()

    def after(ticks: int, late: float, requests_per_second: float) -> Row:
        nonlocal state
        for _ in range(ticks):
            requests = requests_per_second * TICK_SECONDS
            state = irreducible_misses.update(state, late, requests, TICK_SECONDS, law)
        return f"{state.requests:.0f}", f"{100 * state.share:.2f} %"

    yield after(HOUR, 0.02, 1.0)
    yield after(7 * HOUR, 0.02, 1.0)
    yield after(MINUTE, 0.5, 1.0)
    yield after(0, 0.0, 0.0)
    yield after(8 * HOUR, 0.0, 1.0)


def of_miss_rate() -> Iterable[Row]:
    state: float | None = None

    def after(ticks: int, late: float | None) -> Row:
        nonlocal state
        for _ in range(ticks):
            state = miss_rate.update(state, late, TICK_SECONDS, POLICY.stabilization_seconds)
        return ("unknown",) if state is None else (f"{100 * state:.2f} %",)

    yield after(MINUTE, None)
    yield after(HOUR, 0.004)
    yield after(MINUTE, 0.1)
    yield after(5 * MINUTE, 0.004)
    yield after(HOUR, None)


def daily(tick: int) -> float:
    """10 requests/s at night; from 8 to 10 up to 40, from 18 to 20 down again."""
    hour = tick / HOUR % 24
    down = 0.0 if hour < 18 else min((hour - 18) / 2, 1.0)
    return 10.0 + 30.0 * (min(max(hour - 8, 0.0) / 2, 1.0) - down)


def of_forecast() -> Iterable[Row]:
    state: forecast.ForecastState | None = None
    tick = 0

    def after(rates: Iterable[float], horizon_seconds: float = 195.0) -> Row:
        nonlocal state, tick
        for rate in rates:
            tick += 1
            state = observe(state, forecast.Observation(MONDAY + tick * TICK_SECONDS, rate, 60.0, horizon_seconds))
        said = predict(state, MONDAY + tick * TICK_SECONDS, horizon_seconds)
        shown = said.level_per_second, said.peak_per_second, said.deviation_per_second
        return (*(f"{each:.1f}" for each in shown), said.method.value)

    yield after([10.0])
    yield after([10.0] * (HOUR - 1))
    yield after([15.0])
    yield after([20.0])
    yield after([20.0] * HOUR)
    yield after([0.0] * 2)
    yield after([0.0] * 8 * HOUR)
    state, tick = None, 0
    quarter_past_eight = 8 * HOUR + 15 * MINUTE
    for day in (0, 1, 4):
        yield after(map(daily, range(tick + 1, 24 * HOUR * day + quarter_past_eight + 1)), 600.0)


def of_target_load() -> Iterable[Row]:
    fleet = Fleet(12)

    def after(seen: Metrics, ticks: int) -> Row:
        decision = fleet.run(seen, ticks * TICK_SECONDS)[-1]
        return f"{fleet.known.loads[-1].requests_per_second:.1f}", str(decision.to_replicas)

    def at(requests_per_second: float, share_late: float = 0.002) -> Metrics:
        return metrics(requests_per_second, ttft=late(share_late))

    yield after(at(50.0), HOUR)
    yield after(at(54.0), 1)
    yield after(at(65.0), 1)
    yield after(at(50.0), HOUR)
    yield after(at(50.0, 0.2), 1)
    yield after(at(50.0, 0.2), HOUR - 1)
    yield after(at(50.0), HOUR)
    yield after(idle(), 1)
    yield after(idle(), 2 * HOUR)


def of_witnesses() -> Iterable[Row]:
    def plays(*seen: Metrics) -> list[str]:
        fleet = Fleet(12)
        fleet.run(metrics(50.0), 90)
        return [str(fleet.tick(each).to_replicas) for each in seen]

    jump = metrics(250.0)
    columns = [
        plays(*[metrics(50_000.0)] * 4, metrics(50.0), metrics(50.0)),
        plays(*[jump] * 6),
        plays(*[replace(jump, ttft=late(0.2))] * 6),
        plays(*[replace(jump, gateway_arrivals=Value(250.0))] * 6),
    ]
    return zip(*columns, strict=True)


WORKED: dict[ModuleType, Callable[[], Iterable[Row]]] = {
    demand: of_demand,
    replica_speed: of_replica_speed,
    miss_rate: of_miss_rate,
    irreducible_misses: of_irreducible_misses,
    error_budget: of_error_budget,
    tail_capacity: of_tail_capacity,
    forecast: of_forecast,
    target_load: of_target_load,
    witnesses: of_witnesses,
}


@pytest.mark.slow
@pytest.mark.parametrize("module", WORKED, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_worked_table_is_what_happens(module: ModuleType) -> None:
    assert written(module) == list(WORKED[module]())
