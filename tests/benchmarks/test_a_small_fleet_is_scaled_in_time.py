"""The benchmark at scale with few resources: nothing is missed, quiet is quiet, and queries do not grow with the fleet.

Bounds hold on any CPU and beside other tests; the goals are held by `benchmarks/scale.py` on a machine of its own.
"""

from __future__ import annotations

import json

import pytest

from at_scale.figures import AutoscalerFigures, Spent
from at_scale.running import Plan, measure
from at_scale.tables import tables

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

RESOURCES = 24
SETTINGS = {"tickSeconds": 5, "rateWindowSeconds": 20}
"""Faster than is shipped, so that a test has several ticks; four scrapes still fit into the window."""
MOST_QUERIES_A_TICK = 20
"""Whatever the number of resources is."""
MOST_RANGE_QUERIES = 60
"""Once after a start: the past."""
MOST_SECONDS = 120.0


@pytest.fixture(scope="module")
def measured(control_plane: object) -> AutoscalerFigures:
    plan = Plan(
        resources=RESOURCES,
        phases=("quiet", "step", "restart"),
        mixed=True,
        quiet_seconds=30.0,
        settle_seconds=35.0,
        settings=SETTINGS,
    )
    return measure("ours", plan)


def phases(measured: AutoscalerFigures) -> dict[str, Spent]:
    assert measured.onboarding is not None
    assert measured.quiet is not None
    assert measured.step is not None
    return {"onboarding": measured.onboarding.spent, "quiet": measured.quiet, "step": measured.step.spent}


def test_all_are_decided_soon_after_they_are_declared(measured: AutoscalerFigures) -> None:
    assert measured.onboarding is not None
    assert measured.onboarding.sized is not None
    assert (measured.onboarding.decided.never, measured.onboarding.sized.never) == (0, 0)
    assert (measured.onboarding.sized.longest or 0) < MOST_SECONDS


def test_every_sound_resource_is_written_after_the_step(measured: AutoscalerFigures) -> None:
    assert measured.step is not None
    assert (measured.step.delays.never, measured.step.delays.early) == (0, 0)
    assert 0 < (measured.step.delays.p50 or 0) <= (measured.step.delays.longest or 0) < MOST_SECONDS


def test_nothing_is_written_while_nothing_happens(measured: AutoscalerFigures) -> None:
    assert measured.quiet is not None
    assert measured.quiet.ticks >= 2
    assert measured.quiet.refused_writes == 0
    assert measured.quiet.writes_per_minute == {}


def test_a_tick_asks_no_more_than_so_many_questions(measured: AutoscalerFigures) -> None:
    for spent in phases(measured).values():
        assert spent.queries_per_second * spent.seconds <= MOST_QUERIES_A_TICK * (spent.ticks + 2)
        assert spent.range_queries <= MOST_RANGE_QUERIES


def test_it_is_healthy_throughout(measured: AutoscalerFigures) -> None:
    for spent in phases(measured).values():
        assert spent.health is not None
        assert spent.health.answers.keys() == {"200"}


def test_a_restart_misses_and_lowers_nothing(measured: AutoscalerFigures) -> None:
    assert measured.restart is not None
    assert measured.restart.decided_seconds is not None
    assert measured.restart.sized_seconds is not None
    assert (measured.restart.writes.never, measured.restart.lowered) == (0, 0)


def test_the_figures_are_written_as_json_and_as_tables(measured: AutoscalerFigures) -> None:
    document = json.loads(json.dumps(measured.document()))

    assert document["resources"] == RESOURCES
    assert document["about"]["settings"] == SETTINGS
    assert f"| firsttoken, {RESOURCES} |" in tables([measured])
