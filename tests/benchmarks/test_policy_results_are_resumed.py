from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from policies import running
from policies.cells import Cell
from policies.fingerprint import digest, fingerprint
from policies.results import Results
from tests.benchmarks.policy_builders import outcome

CELL = Cell("conv-week", "hpa", 0.5, seed=2)


@pytest.mark.parametrize(
    "change",
    [
        {"scenario": "m-large"},
        {"policy": "keda"},
        {"tuning": None},
        {"tuning": 0.7},
        {"seed": 3},
        {"cold_start_seconds": 60.0},
        {"capacity_error_percent": 30},
        {"days": 2},
        {"asked_percent": 99.5},
        {"standby": 1},
    ],
    ids=str,
)
def test_cells_that_differ_have_other_keys(change: dict[str, object]) -> None:
    assert replace(CELL, **change).key != CELL.key  # type: ignore[arg-type]


def test_an_outcome_is_found_again_by_another_run(tmp_path: Path) -> None:
    file = tmp_path / "new" / "results.jsonl"
    kept = outcome(CELL, factor=0.77)

    Results(file).add(kept, "code")

    assert Results(file).get(CELL, "code") == kept
    assert Results(file).get(replace(CELL, seed=3), "code") is None


def test_a_figure_of_other_code_is_not_used(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    results.add(outcome(CELL), "old code")

    assert results.get(CELL, "new code") is None
    assert results.get(CELL, "old code") is not None


def test_a_line_that_was_cut_off_costs_one_play(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    other = replace(CELL, seed=3)
    results = Results(file)
    results.add(outcome(CELL), "code")
    results.add(outcome(other), "code")
    file.write_text(file.read_text()[:-40])

    resumed = Results(file)
    assert resumed.get(CELL, "code") is not None
    assert resumed.get(other, "code") is None

    resumed.add(outcome(other), "code")
    assert Results(file).get(other, "code") == outcome(other)


def test_a_line_of_an_older_form_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    Results(file).add(outcome(CELL), "code")
    file.write_text(file.read_text().replace('"scale_events"', '"scalings"'))

    assert Results(file).get(CELL, "code") is None


def test_what_is_known_is_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "ProcessPoolExecutor", None)
    results = Results(tmp_path / "results.jsonl")
    cells = [CELL, replace(CELL, policy="firsttoken", tuning=None)]
    for cell in cells:
        results.add(outcome(cell), fingerprint(cell))

    assert running.played(cells, results, tmp_path) == [outcome(cell) for cell in cells]


def test_only_our_figures_depend_on_our_law() -> None:
    prints = {name: fingerprint(replace(CELL, policy=name)) for name in ("firsttoken", "hpa", "clairvoyant")}

    assert prints["hpa"] == prints["clairvoyant"] != prints["firsttoken"]
    assert fingerprint(replace(CELL, scenario="m-large")) != prints["hpa"]


def test_the_hash_of_sources_changes_with_a_character(tmp_path: Path) -> None:
    file = tmp_path / "law.py"
    file.write_text("HEADROOM = 0.85\n")
    before = digest([file])
    file.write_text("HEADROOM = 0.86\n")

    assert digest([file]) != before
