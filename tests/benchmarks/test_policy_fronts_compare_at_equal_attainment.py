"""Fronts: what a policy needs at an attainment, over its settings, and the lines of the bar that compare them."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

import policy
from policies import front_picture
from policies.cells import TARGET_PERCENT, Cell
from policies.contenders import CLAIRVOYANT, asking
from policies.fingerprint import CAUSAL, fingerprint
from policies.fronts import Point, front, hours_at, points
from policies.plan import MORE_ASKED_PERCENT, Extent, first_cells
from policies.results import Outcome
from policies.scenarios import SCENARIOS, Kind
from policies.summary import Summary
from policies.tables import FRONTS, ResultTable, tables
from policies.verdict import Verdict, verdicts
from tests.benchmarks.policy_builders import outcome

WEEK, OURS = "conv-week", "firsttoken"
PAGE = Path(__file__).resolve().parents[2] / "docs/policy.md"
HPA = [Point(1.0, 98.0, 100.0), Point(0.7, 99.0, 110.0), Point(0.5, 99.9, 150.0), Point(0.6, 98.9, 130.0)]


def plays(own: tuple[tuple[float, float, float], ...], bound: float = 104.0) -> list[Outcome]:
    """`own`: asked, attained, GPU-hours. The HPA and the clairvoyant are as above and below."""
    ours = [outcome(Cell(WEEK, OURS, asked_percent=asked), attained, hours) for asked, attained, hours in own]
    hpa = [outcome(Cell(WEEK, "hpa", each.setting), each.attainment_percent, each.gpu_hours) for each in HPA]
    return [
        *ours,
        *hpa,
        outcome(Cell(WEEK, CLAIRVOYANT), 99.0, 100.0),
        outcome(Cell(WEEK, CAUSAL), 99.0, bound),
    ]


def line(number: str, those: list[Outcome]) -> list[Verdict]:
    return [verdict for verdict in verdicts(Summary(those)) if verdict.asks.startswith(f"{number} ")]


def test_a_setting_that_another_one_beats_is_not_on_the_front() -> None:
    assert [each.setting for each in front(HPA)] == [1.0, 0.7, 0.5]


@pytest.mark.parametrize(
    ("attainment", "hours"),
    [
        (99.0, 110.0),
        (99.9, 150.0),
        (97.0, 100.0),
        (99.95, None),
        (100 - 0.1**0.5, 130.0),
    ],
    ids=["on a setting", "on the last one", "below the least", "above the most", "half of the way in logarithms"],
)
def test_between_two_settings_hours_are_interpolated(attainment: float, hours: float | None) -> None:
    assert hours_at(HPA, attainment) == (None if hours is None else pytest.approx(hours))


def test_a_front_is_of_one_seed_and_the_usual_conditions() -> None:
    others = [
        outcome(Cell(WEEK, "hpa", 0.5, seed=2), 99.0, 1.0),
        outcome(Cell(WEEK, "hpa", 0.7, cold_start_seconds=60.0), 99.0, 2.0),
        outcome(Cell(WEEK, OURS, capacity_error_percent=30), 99.0, 3.0),
    ]
    known = [*plays(((99.0, 99.4, 120.0), (99.9, 99.9, 140.0))), *others]

    assert [each.setting for each in points(known, WEEK, "hpa")] == [0.5, 0.6, 0.7, 1.0]
    assert points(known, WEEK, OURS) == [Point(99.0, 99.4, 120.0), Point(99.9, 99.9, 140.0)]


def test_what_is_asked_beside_the_sla_makes_no_line_of_a_table() -> None:
    summary = Summary(plays(((99.9, 99.9, 140.0), (99.0, 99.4, 120.0))))

    own = summary.line(WEEK, OURS)
    assert own is not None
    assert own.gpu_hours.mean == 120.0


@pytest.mark.parametrize(("hours", "holds"), [(125.0, True), (131.0, False)])
def test_ours_is_held_to_the_front_of_every_peer(hours: float, holds: bool) -> None:
    (verdict,) = line("11", plays(((99.0, 100 - 0.1**0.5, hours),)))

    assert verdict.holds is holds
    assert "hpa" in verdict.found


@pytest.mark.parametrize(
    ("hours", "attained", "holds"), [(109.0, 99.1, True), (110.0, 99.1, False), (108, 98.9, False)]
)
def test_ours_is_held_to_the_causal_bound(hours: float, attained: float, holds: bool) -> None:
    against = line("9", plays(((99.0, attained, hours),)))[0]

    assert "causal bound, mean" in against.asks
    assert against.holds is holds


def test_a_bound_that_a_policy_beats_is_none() -> None:
    weak = line("9", plays(((99.0, 99.1, 104.0),), bound=111.0))[-1]

    assert not weak.holds
    assert "hpa with 110.0" in weak.found


def test_large_fleets_have_a_line_of_their_own() -> None:
    large = [outcome(Cell("m-small-50", OURS), 99.2, 109.0), outcome(Cell("m-small-50", CLAIRVOYANT), 99.0, 100.0)]

    (over,) = line("10", large)
    assert not over.holds
    assert not line("2", large)


def test_everything_that_makes_a_front_is_played() -> None:
    cells = first_cells(Extent((WEEK, "m-small-50", "code")))

    for scenario in (WEEK, "m-small-50"):
        for name in (OURS, CAUSAL, CLAIRVOYANT):
            asked = {cell.asked_percent for cell in cells if (cell.scenario, cell.policy) == (scenario, name)}
            assert asked == {TARGET_PERCENT, *MORE_ASKED_PERCENT}
    assert {cell.seed for cell in cells if cell.scenario == "m-small-50"} == {1}
    assert not [cell for cell in cells if (cell.scenario, cell.policy) == ("code", CAUSAL)]
    assert {cell.cold_start_seconds for cell in cells if cell.policy == CAUSAL} == {60, 180, 600}


def test_a_higher_attainment_leaves_fewer_misses_to_aim_at() -> None:
    usual, more = asking(TARGET_PERCENT).error_budget, asking(99.9).error_budget

    assert more.set_point_share == pytest.approx(usual.set_point_share / 10)


def test_only_the_bound_depends_on_its_own_modules() -> None:
    prints = {name: fingerprint(Cell(WEEK, name)) for name in ("hpa", CAUSAL, CLAIRVOYANT, OURS)}

    assert prints["hpa"] == prints[CLAIRVOYANT]
    assert len(set(prints.values())) == 3


def test_a_large_fleet_is_its_week_at_a_higher_rate() -> None:
    for scenario in (each for each in SCENARIOS.values() if each.kind is Kind.FLEET):
        week = SCENARIOS[scenario.name.removesuffix("-50")]
        assert (scenario.file, scenario.days, scenario.warm_up_seconds) == (week.file, week.days, week.warm_up_seconds)
        assert scenario.rate_scale > 4 * week.rate_scale


def headings_and_rows() -> tuple[tuple[str, ...], ...]:
    """The page's table of fronts, its headings first."""
    text = PAGE.read_text(encoding="utf-8").partition(f"### {FRONTS}\n")[2].partition("\n### ")[0]
    rows = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in text.splitlines() if row]
    return (rows[0], *rows[2:])


def test_the_picture_of_fronts_is_of_the_table_on_the_page() -> None:
    headings, *rows = headings_and_rows()
    picture = PAGE.with_name("policy-fronts.svg").read_text(encoding="utf-8")

    assert picture == front_picture.drawn(front_picture.rows(headings, rows))


def test_a_run_draws_a_panel_for_each_week(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "policy.md"
    page.write_text(f"{policy.HEADING}\n", encoding="utf-8")
    known = plays(((99.0, 99.4, 120.0), (99.9, 99.9, 140.0)))
    (table,) = [each for each in tables(Summary(known), []) if each.title == FRONTS]

    policy.report([table], page)

    root = ElementTree.fromstring((tmp_path / "policy-fronts.svg").read_text(encoding="utf-8"))
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert WEEK in texts
    assert {"firsttoken", "hpa", "causal-bound"} <= set(texts)
    assert isinstance(table, ResultTable)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 2
