from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2].parent / "shared/data"


@pytest.fixture(scope="module", autouse=True)
def _data() -> None:
    if not (DATA / "nim_dli.csv").is_file():
        pytest.skip("needs ../shared/data/nim_dli.csv")


def test_every_goal_is_reached() -> None:
    from evaluation.ttft import rows

    found = rows(DATA)

    assert [row.points for row in found] == [502, 502, 502]
    assert [row.what for row in found if not row.reached] == []


def test_the_shipped_constants_are_those_that_most_lengths_choose() -> None:
    from evaluation.folds import folds
    from evaluation.ttft import Constants, chosen_without
    from firsttoken_sizing.engines.scheduler import PREFILL_TOKENS_PER_STEP
    from firsttoken_sizing.performance.closed_loop import CLIENTS

    lengths = {(f.tested.input_tokens, f.tested.output_tokens) for f in folds(DATA)}
    chosen = [chosen_without(DATA, *pair) for pair in lengths]

    assert 2 * chosen.count(Constants(CLIENTS.handover_seconds, PREFILL_TOKENS_PER_STEP)) > len(chosen)


def test_a_fold_knows_nothing_of_the_workload_that_it_tests() -> None:
    from evaluation.folds import folds
    from evaluation.nim_fit import step_of_known

    fold = next(f for f in folds(DATA) if f.key.tensor_parallel == 1)

    assert fold.tested not in fold.known
    assert replace(step_of_known(DATA, fold.key, fold.known), max_batch=fold.step.max_batch) == fold.step
