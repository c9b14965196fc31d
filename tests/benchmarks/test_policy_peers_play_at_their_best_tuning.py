from __future__ import annotations

from collections import Counter

import pytest

from policies.cells import TARGET_PERCENT, Cell
from policies.contenders import CLAIRVOYANT, PEERS, TUNING_PARAMETERS
from policies.plan import Extent, asked_percent, best_tunings, first_cells, later_cells
from policies.results import Outcome
from policies.summary import Summary
from tests.benchmarks.policy_builders import outcome

WEEK = "conv-week"


def swept(*reached: tuple[float, float, float], ceiling: float = 99.9) -> list[Outcome]:
    """Plays of `hpa`: (tuning, attainment, GPU-hours), and the static fleet's."""
    plays = [outcome(Cell(WEEK, "hpa", tuning), attained, hours) for tuning, attained, hours in reached]
    return [outcome(Cell(WEEK, "static-peak"), ceiling, 500.0), *plays]


@pytest.mark.parametrize(
    ("reached", "ceiling", "best"),
    [
        ([(0.5, 99.8, 150), (0.7, 99.1, 120), (1.0, 97.0, 100)], 99.9, 0.7),
        ([(0.5, 98.0, 150), (0.7, 97.0, 120), (1.0, 90.0, 100)], 99.9, 0.5),
        ([(0.5, 96.5, 150), (0.7, 96.1, 120), (1.0, 95.0, 100)], 97.0, 0.7),
    ],
    ids=["the cheapest that reaches the target", "the best where none does", "less is asked below a low ceiling"],
)
def test_the_tuning_is_chosen_in_hindsight(
    reached: list[tuple[float, float, float]], ceiling: float, best: float
) -> None:
    assert best_tunings(swept(*reached, ceiling=ceiling)) == {(WEEK, "hpa"): best}


@pytest.mark.parametrize(("ceiling", "asked"), [(100.0, 99.0), (99.5, 99.0), (99.4, 98.4), (81.3, 80.3)])
def test_the_target_is_asked_where_a_static_fleet_reaches_it(ceiling: float, asked: float) -> None:
    assert asked_percent(ceiling) == pytest.approx(asked)


def test_other_seeds_do_not_choose_the_tuning() -> None:
    plays = swept((0.5, 99.8, 150), (0.7, 99.1, 120))
    plays.append(outcome(Cell(WEEK, "hpa", 0.5, seed=2), 99.9, 1.0))

    assert best_tunings(plays) == {(WEEK, "hpa"): 0.7}


def test_only_the_best_tuning_makes_a_line() -> None:
    plays = swept((0.5, 99.8, 150), (0.7, 99.1, 120))
    plays.append(outcome(Cell(WEEK, "hpa", 0.7, seed=2), 99.3, 130))

    line = Summary(plays).line(WEEK, "hpa")

    assert line is not None
    assert line.tuning == 0.7
    assert line.gpu_hours.mean == pytest.approx(125)
    assert [play.cell.seed for play in line.plays] == [1, 2]


def test_every_tuning_is_played_once_and_the_best_on_the_other_seeds() -> None:
    extent = Extent((WEEK,))
    first = first_cells(extent)
    later = later_cells(extent, {(WEEK, "hpa"): 0.7})

    assert [cell.tuning for cell in first if cell.policy == "hpa"] == list(TUNING_PARAMETERS["hpa"].values)
    assert [(cell.tuning, cell.seed) for cell in later] == [(0.7, 2), (0.7, 3)]
    assert len({cell.key for cell in first}) == len(first)


def test_the_conditions_of_the_bar_are_played() -> None:
    cells = first_cells(Extent((WEEK, "code")))
    cells = [cell for cell in cells if cell.asked_percent == TARGET_PERCENT and not cell.standby]
    ours = [cell for cell in cells if cell.scenario == WEEK and cell.policy == "firsttoken"]
    conditions = Counter((cell.cold_start_seconds, cell.capacity_error_percent) for cell in ours)

    assert conditions == {(180, 0): 5, (60, 0): 2, (600, 0): 2, (180, -30): 2, (180, 30): 2}
    starts = [c.cold_start_seconds for c in cells if c.scenario == WEEK and c.policy == CLAIRVOYANT]
    assert Counter(starts) == {180: 3, 60: 1, 600: 1}
    assert {cell.cold_start_seconds for cell in cells if cell.scenario == "code"} == {180}


def test_a_quick_run_has_one_seed_and_two_tunings() -> None:
    cells = first_cells(Extent((WEEK, "code"), days=2, quick=True))

    assert {cell.seed for cell in cells} == {1}
    assert all(len({c.tuning for c in cells if c.policy == peer}) == 2 for peer in PEERS)
    assert {cell.days for cell in cells if cell.scenario == WEEK} == {2}
    # An hour is the same one in every run, so that what is known of it is used.
    assert {cell.days for cell in cells if cell.scenario == "code"} == {None}
    assert later_cells(Extent((WEEK,), days=2, quick=True), {(WEEK, "hpa"): 0.5}) == []


def test_quick_tunings_are_some_of_all() -> None:
    assert all(set(parameter.quick) <= set(parameter.values) for parameter in TUNING_PARAMETERS.values())
