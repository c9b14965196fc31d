from __future__ import annotations

import csv
from pathlib import Path

import pytest

from firsttoken_sizing.step import StepModel

DATA = Path(__file__).resolve().parents[2].parent / "shared/data"


@pytest.fixture(scope="module", autouse=True)
def _data() -> None:
    if not (DATA / "nim_dli.csv").is_file():
        pytest.skip("needs ../shared/data/nim_dli.csv")


def test_every_goal_is_reached() -> None:
    from evaluation.nim import rows

    found = rows(DATA)

    assert [row.points for row in found] == [555, 26, 527, 555, 555, 555]
    assert [row.what for row in found if not row.reached] == []


def test_what_is_left_out_does_not_reach_the_prediction(tmp_path: Path) -> None:
    """With other rates in every row that is left out the predictions are the same, with other ones elsewhere not."""
    from evaluation.data import NIM, read_profiles, read_rows
    from evaluation.nim_fit import step_of_known, step_without

    key, profiles = next(iter(read_profiles(DATA / NIM).items()))
    tested, *known = profiles
    rows = list(read_rows(DATA / NIM))
    first = next(row for row in rows if row["model"].startswith("meta-llama3-70b") and row["device"].startswith("A100"))

    def with_other_rates(folder: Path, *same: str) -> Path:
        folder.mkdir()
        with (folder / NIM).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, first.keys())
            writer.writeheader()
            for row in rows:
                factor = 3 if all(row[field] == first[field] for field in same) else 1
                writer.writerow({**row, "request_throughput_rps": factor * float(row["request_throughput_rps"])})
        return folder

    left_out = with_other_rates(tmp_path / "left out", "model", "device", "precision", "tp")
    elsewhere = with_other_rates(tmp_path / "elsewhere", "precision")

    def alone(data: Path) -> StepModel:
        return step_without(data, key, lambda other: other == key)

    assert tested not in known
    assert step_of_known(left_out, key, known) == step_of_known(DATA, key, known)
    assert alone(left_out) == alone(DATA)
    assert alone(elsewhere) != alone(DATA)
