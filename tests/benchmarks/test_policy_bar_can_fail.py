"""Every line of the bar holds for the plays below, and does not once one of them is worse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from policies.cells import Cell
from policies.contenders import CLAIRVOYANT, PEERS, STATIC_P95, STATIC_PEAK
from policies.plan import CAPACITY_ERRORS, OTHER_STARTS
from policies.results import Outcome, Span
from policies.summary import Summary
from policies.tables import tables
from policies.verdict import verdicts
from tests.benchmarks.policy_builders import outcome

OURS = "firsttoken"
WEEKS, HOUR = ("conv-week", "m-large", "m-small"), "mooncake"


def good_plays() -> list[Outcome]:
    plays = []
    for scenario in (*WEEKS, HOUR, "step"):
        plays += [
            outcome(Cell(scenario, OURS), 99.6, 105.0),
            outcome(Cell(scenario, CLAIRVOYANT), 99.1, 100.0),
            outcome(Cell(scenario, STATIC_PEAK), 99.55, 200.0),
            outcome(Cell(scenario, STATIC_P95), 98.0, 150.0),
        ]
        plays += [outcome(Cell(scenario, peer, 0.5), 99.3, 120.0) for peer in PEERS]
    for scenario in WEEKS:
        for start in OTHER_STARTS:
            plays.append(outcome(Cell(scenario, OURS, cold_start_seconds=start), 99.2, 107.0))
            plays.append(outcome(Cell(scenario, CLAIRVOYANT, cold_start_seconds=start), 99.1, 101.0))
        for error in CAPACITY_ERRORS:
            wrong = Cell(scenario, OURS, capacity_error_percent=error)
            plays.append(outcome(wrong, 99.3, 110.0, later=Span(99.4, 110.0), factor=100 / (100 + error)))
    return plays


def failing(plays: list[Outcome]) -> list[str]:
    return [verdict.asks for verdict in verdicts(Summary(plays)) if not verdict.holds]


def changed(plays: list[Outcome], which: Callable[[Cell], bool], **figures: object) -> list[Outcome]:
    return [replace(p, figures=replace(p.figures, **figures)) if which(p.cell) else p for p in plays]  # type: ignore[arg-type]


def test_the_bar_holds_for_good_plays() -> None:
    found = verdicts(Summary(good_plays()))

    assert [verdict.asks for verdict in found if not verdict.holds] == []
    assert {verdict.asks.split()[0] for verdict in found} == {*"12345678", "11"}


@pytest.mark.parametrize(
    ("which", "figures", "line"),
    [
        (lambda c: c.policy == OURS and c.scenario == "m-large" and c.cold_start_seconds == 600,
         {"attainment_percent": 98.9}, "1 m-large"),
        (lambda c: c.policy == OURS and c.capacity_error_percent == 30 and c.scenario == "conv-week",
         {"attainment_percent": 98.9}, "1 conv-week"),
        (lambda c: c.policy == OURS and c.scenario == "m-small", {"gpu_hours": 115.0}, "2 weeks, cold start 180 s"),
        (lambda c: c.policy == OURS and c.cold_start_seconds == 60, {"gpu_hours": 115.0}, "2 weeks, cold start 60 s"),
        (lambda c: c.policy == OURS and c.scenario == "step", {"attainment_percent": 98.2}, "3 step"),
        (lambda c: c.policy == "llm-d", {"attainment_percent": 99.7}, "4 ahead of llm-d"),
        (lambda c: c.policy == "hpa", {"gpu_hours": 104.0}, "4 ahead of hpa"),
        (lambda c: c.policy == OURS and c.scenario == HOUR, {"attainment_percent": 98.5}, "5 mooncake"),
        (lambda c: c.capacity_error_percent == -30 and c.scenario == "m-small",
         {"later": Span(99.4, 125.0)}, "6 m-small, capacity -30 %"),
        (lambda c: c.capacity_error_percent == 30 and c.scenario == "m-small",
         {"later": Span(98.9, 105.0)}, "6 m-small, capacity +30 %"),
        (lambda c: c.policy == STATIC_P95 and c.scenario == "step",
         {"attainment_percent": 99.1, "gpu_hours": 99.0}, "7 step"),
        (lambda c: c.policy == STATIC_P95 and c.scenario == "m-large",
         {"attainment_percent": 99.0, "gpu_hours": 99.0}, "7 m-large"),
        (lambda c: c.policy == "knative" and c.scenario == "conv-week", {"seconds": 61.0}, "8 a week"),
    ],
)  # fmt: skip
def test_a_worse_play_fails_its_line(which: Callable[[Cell], bool], figures: dict[str, object], line: str) -> None:
    failed = failing(changed(good_plays(), which, **figures))

    assert any(asks.startswith(line) for asks in failed), failed


def test_less_is_asked_where_the_static_fleet_misses_the_target() -> None:
    plays = changed(good_plays(), lambda c: c.policy == STATIC_PEAK, attainment_percent=98.0)
    plays = changed(plays, lambda c: c.policy == OURS, attainment_percent=97.1)

    assert not any(asks.startswith("1 ") for asks in failing(plays))


def test_the_speed_of_the_clairvoyant_is_not_judged() -> None:
    plays = changed(good_plays(), lambda c: c.policy == CLAIRVOYANT, seconds=500.0)

    assert failing(plays) == []


def test_lines_that_a_part_of_the_run_cannot_answer_are_left_out() -> None:
    found = verdicts(Summary([outcome(Cell("code", OURS)), outcome(Cell("code", CLAIRVOYANT), gpu_hours=90)]))

    assert [verdict.asks[0] for verdict in found] == ["7"]


def test_the_sheets_show_every_policy_and_the_bar() -> None:
    plays = good_plays()
    summary = Summary(plays)
    page = "\n".join(table.for_page() for table in tables(summary, verdicts(summary)))

    assert all(f"| {play.cell.policy} |" in page for play in plays)
    assert "| 5 mooncake: within 1 point of static's ceiling | yes |" in page
    assert "conv-week, +30 %, seed 1" in page
    for table in tables(summary, verdicts(summary)):
        assert all(len(row) == len(table.headings) for row in table.rows), table.title
        assert table.for_terminal().row_count == len(table.rows)
