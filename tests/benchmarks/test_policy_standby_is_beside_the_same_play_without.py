from __future__ import annotations

from dataclasses import replace

from policies.cells import COLD_START_SECONDS, Cell
from policies.fronts import points
from policies.plan import OTHER_STARTS, STANDBY, Extent, first_cells
from policies.results import Outcome
from policies.summary import Summary
from policies.tables import tables
from tests.benchmarks.policy_builders import outcome

BARE = Cell("conv-week", "firsttoken")


def asleep(cell: Cell, attainment: float, gpu_hours: float, standby_gpu_hours: float) -> Outcome:
    play = outcome(cell, attainment, gpu_hours)
    return replace(play, figures=replace(play.figures, standby_gpu_hours=standby_gpu_hours))


PLAYS = [
    outcome(BARE, 99.4, 200.0),
    asleep(replace(BARE, standby=1), 99.6, 250.0, 48.0),
    asleep(replace(BARE, standby=2), 99.7, 300.0, 96.0),
    asleep(replace(BARE, standby=1, cold_start_seconds=600.0), 99.0, 260.0, 50.0),
]


def test_each_is_beside_the_play_of_the_same_requests() -> None:
    (table,) = [each for each in tables(Summary(PLAYS), []) if "standby" in each.title]

    assert table.rows == (
        ("conv-week, start 180 s", "0", "99.40", "98.4", "200.0", "0.0", ""),
        ("conv-week, start 180 s", "1", "99.60", "98.6", "250.0", "48.0", "+25.0"),
        ("conv-week, start 180 s", "2", "99.70", "98.7", "300.0", "96.0", "+50.0"),
    )


def test_it_is_in_no_other_line_and_on_no_front() -> None:
    line = Summary(PLAYS).line("conv-week", "firsttoken")

    assert line is not None
    assert line.gpu_hours.mean == 200
    assert [point.gpu_hours for point in points(PLAYS, "conv-week", "firsttoken")] == [200]


def test_the_whole_run_plays_it_on_weeks_hours_and_episodes() -> None:
    cells = first_cells(Extent(("conv-week", "code", "step", "conv-week-50"), ("firsttoken", "hpa")))
    kept = {(cell.scenario, cell.policy, cell.standby, cell.cold_start_seconds) for cell in cells if cell.standby}
    usual = {(name, "firsttoken", n, COLD_START_SECONDS) for name in ("conv-week", "code", "step") for n in STANDBY}

    assert kept == usual | {("conv-week", "firsttoken", min(STANDBY), max(OTHER_STARTS))}
