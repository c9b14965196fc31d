"""The fit of an engine, which points it may see, and what it says of a configuration that was left out."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation import silicon
from evaluation.engine_fit import START, Entry, Observation, fit
from firsttoken_sizing.step.calibration import constants

DATA = Path(__file__).resolve().parents[2].parent / "shared/data"
COLUMNS = (
    *("model", "device", "tp", "pp", "precision", "engine", "engine_version", "input_len", "output_len"),
    *("concurrency", "ttft_ms_avg", "itl_ms_avg", "notes"),
)


def made_up(folder: Path, rows: list[dict[str, object]]) -> list[silicon.Case]:
    """Cases of a file with these rows; what a row lacks is that of Llama 3.1 8B on an H100."""
    usual: dict[str, object] = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "device": "h100_sxm",
        "tp": 1,
        "pp": 1,
        "precision": "fp8",
        "engine": "vllm",
        "engine_version": "1",
        "input_len": 1000,
        "output_len": 101,
        "concurrency": 8,
        "ttft_ms_avg": 100.0,
        "itl_ms_avg": 9.0,
        "notes": "attn_dp=nan moe_tp=1.0; id=x",
    }
    with (folder / silicon.SILICON).open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(usual | row for row in rows)
    return silicon.read(folder)


def in_groups(factors: dict[str, float]) -> list[Observation]:
    """Times of an engine whose weights take so much longer in each group, and 1 % of noise."""
    rng = np.random.default_rng(7)
    made = []
    for group, factor in factors.items():
        for _ in range(500):
            cost = rng.uniform(0.2, 2.0, len(START)) / np.array(list(START.values()))
            times = cost * np.array(list(START.values()))
            times[list(START).index("weight_read")] *= factor
            made.append(Observation(cost, (group,), float(times.sum()) * float(rng.normal(1, 0.01))))
    return made


def weight_read(entry: Entry, group: str) -> float:
    return constants(entry, (group,)).weight_read / START["weight_read"]


def test_what_is_slower_in_one_group_is_found_there() -> None:
    entry = fit(in_groups({"old": 1.0, "new": 1.5}))

    assert weight_read(entry, "new") / weight_read(entry, "old") == pytest.approx(1.5, rel=0.1)


def test_a_group_without_measurements_has_what_the_others_have_in_common() -> None:
    entry = fit(in_groups({"old": 1.4, "new": 1.4}))

    assert 1.1 < weight_read(entry, "never seen") < 1.5


def test_a_few_points_far_off_do_not_move_the_fit() -> None:
    observations = in_groups({"old": 1.0})
    spoiled = [replace(o, seconds=5 * o.seconds) for o in observations[:4]] + observations[4:]

    assert weight_read(fit(spoiled), "old") == pytest.approx(weight_read(fit(observations), "old"), rel=0.1)


def test_a_prediction_does_not_depend_on_what_was_left_out_with_it(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"tp": ways, "precision": precision, "concurrency": c, "itl_ms_avg": 8.0 + c / 10 - ways}
        for ways in (1, 2, 4)
        for precision in ("fp8", "bf16")
        for c in (8, 16, 32)
    ]
    cases = made_up(tmp_path, rows)
    spoiled = [replace(c, end_to_end_seconds=9 * c.end_to_end_seconds) if is_of_tp_2(c) else c for c in cases]

    def predictions(of: list[silicon.Case]) -> list[float]:
        errors = silicon.errors_left_out(of)
        return [c.end_to_end_seconds * (1 + e / 100) for c, e in zip(of, errors, strict=True) if is_of_tp_2(c)]

    assert predictions(spoiled) == pytest.approx(predictions(cases))


def is_of_tp_2(case: silicon.Case) -> bool:
    return case.key.tensor_parallel == 2


def test_the_latency_is_that_of_a_request_of_mean_length(tmp_path: Path) -> None:
    """InferenceX draws lengths of 0.8 to 1: a mean request makes 922 of the 1024 tokens that the row names."""
    lengths = {"input_len": 1024, "output_len": 1024}
    random, fixed = made_up(tmp_path, [lengths | {"notes": "attn_dp=1.0; id=x"}, lengths])

    assert random.lengths.output_tokens == pytest.approx(921.6)
    assert random.end_to_end_seconds == pytest.approx(0.1 + 920.6 * 0.009)
    assert fixed.end_to_end_seconds == pytest.approx(0.1 + 1023 * 0.009)


def test_prompts_that_no_hardware_could_compute_are_unsound(tmp_path: Path) -> None:
    """128 requests of 8000 tokens in 0.2 s are 80 PFLOP/s for a model of 8 billion parameters."""
    possible, impossible = made_up(
        tmp_path, [{}, {"input_len": 8000, "concurrency": 128, "ttft_ms_avg": 100.0, "itl_ms_avg": 1.0}]
    )

    assert silicon.sound([possible, impossible]) == [possible]


def test_a_curve_whose_throughput_falls_is_unsound_as_a_whole(tmp_path: Path) -> None:
    cases = made_up(
        tmp_path,
        [{"concurrency": 8}, {"concurrency": 16, "itl_ms_avg": 30.0}, {"output_len": 201}],
    )

    assert silicon.sound(cases) == cases[2:]


@pytest.mark.parametrize(
    "row",
    [{"model": "unknown/model"}, {"tp": 16}, {"notes": "attn_dp=8.0; id=x"}, {"model": "llama-3.1-405b"}],
)
def test_rows_that_a_tensor_parallel_replica_cannot_answer_for_are_not_read(
    row: dict[str, object], tmp_path: Path
) -> None:
    assert made_up(tmp_path, [row]) == []


def test_dense_models_of_every_engine_are_inside_the_goals() -> None:
    if not (DATA / silicon.SILICON).is_file():
        pytest.skip(f"{silicon.SILICON} is not in ../shared/data")
    rows = silicon.rows(DATA)

    assert all(row.reached for row in rows)
    assert sum(any(figure.goal is not None for figure in row.figures) for row in rows) == 3
