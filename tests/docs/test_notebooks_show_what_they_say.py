from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.notebook import MEASUREMENTS, NOTEBOOKS, Output, shown
from tests.docs.pages import ROOT

COURSE = ROOT / "examples/course.ipynb"
NIM_CSV = ROOT.parent / "shared" / "samples" / "dli" / "nim.csv"


def texts(outputs: list[list[Output]]) -> list[str]:
    return ["".join(o.get("text") or o["data"]["text/plain"]) for cell in outputs for o in cell]


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_shows_what_its_cells_say(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MEASUREMENTS, raising=False)
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]

    # Written anew by `python -m tests.docs`.
    assert list(shown(file)) == [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_the_courses_own_file_gives_the_numbers_of_the_course(monkeypatch: pytest.MonkeyPatch) -> None:
    if not NIM_CSV.exists():
        pytest.skip("../shared/samples/dli/nim.csv is not here")
    monkeypatch.setenv(MEASUREMENTS, str(NIM_CSV))

    found = texts(list(shown(COURSE)))

    assert any("53 profiles" in text for text in found)
    assert "{300: (41.6, 39, 5), 500: (70.7, 23, 3)}" in found
