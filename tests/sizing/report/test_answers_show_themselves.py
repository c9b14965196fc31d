from __future__ import annotations

import sys
from pathlib import Path

import pytest

import firsttoken_sizing as ft
from firsttoken_sizing.answer import Answer
from firsttoken_sizing.report.pictures import Picture
from tests.fixtures.worked_examples import DGX_H100, H100, LLAMA_8B, call_center

COURSE = Path(__file__).resolve().parents[2] / "fixtures/benchmarks/dli-llama3-8b-h100-fp8-2000-200.csv"
WORDS = {
    "gpus": H100,
    "precision": "FP8",
    "input_tokens": 2000,
    "output_tokens": 200,
    "requests_per_second": 200,
    "ttft_mean_ms": 300,
    "arrivals": "ClosedLoop",
    "benchmarks": COURSE,
}


def answers() -> dict[str, Answer]:
    places = [ft.Place("own", H100, DGX_H100), ft.Place("<cloud>", H100, ft.Pricing(gpu_hour=4))]
    return {
        "a size": ft.size(LLAMA_8B, **WORDS),
        "no size": ft.size(LLAMA_8B, **{**WORDS, "ttft_mean_ms": 1}),
        "curves": ft.curve(LLAMA_8B, **WORDS),
        "a simulation": ft.simulate(LLAMA_8B, replicas=1, rate=2, seconds=20, **WORDS),
        "benchmarks": ft.read_benchmarks(COURSE),
        "places": ft.side_by_side(LLAMA_8B, places=places, **WORDS),
    }


ANSWERS = answers()


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_a_line_a_table_and_rows(answer: Answer) -> None:
    assert repr(answer).startswith("<")
    assert len(repr(answer)) < 420
    assert "\n" not in repr(answer)
    html, rows = answer._repr_html_(), answer.to_rows()
    assert html.startswith("<div><p>")
    assert html.count("<table>") == html.count("</table>") == 1
    assert all(set(row) == set(rows[0]) for row in rows)
    assert all(value is None or isinstance(value, str | int | float) for row in rows for value in row.values())
    frame = answer.to_frame()
    assert list(frame.columns) == list(rows[0])
    assert len(frame) == len(rows)


def test_lines_say_what_was_found() -> None:
    assert repr(ANSWERS["a size"]).startswith(
        "<39 replicas of H100-SXM-80GB FP8 TP1: 39 GPUs, 5 servers; one carries 5.195 requests/s, bound by TTFT Mean;"
    )
    assert repr(ANSWERS["no size"]).startswith("<no size: SingleRequestTTFT: ")
    assert repr(ANSWERS["benchmarks"]) == "<8 points in 1 profile, 1 run left out>"
    assert "chosen: H100-SXM-80GB FP8 TP1" in repr(ANSWERS["curves"])


def test_names_of_columns_have_units_and_what_is_not_known_is_none() -> None:
    (size,), (none,) = ANSWERS["a size"].to_rows(), ANSWERS["no size"].to_rows()

    assert size["ttft_mean_ms"] == pytest.approx(220.8)
    assert size["itl_p99_ms"] is None
    assert (none["replicas"], none["gpus"], none["bound_by"]) == (None, None, "SingleRequestTTFT")
    assert [row["inside_sla"] for row in ANSWERS["curves"].to_rows()[:5]] == [True, True, True, True, False]


def test_names_from_outside_are_escaped() -> None:
    assert "&lt;cloud&gt;" in ANSWERS["places"]._repr_html_()
    assert "<cloud>" not in ANSWERS["places"]._repr_html_()


def test_without_pandas_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(ModuleNotFoundError, match=r"^to_frame needs pandas: pip install 'firsttoken\[notebook\]'"):
        ft.size(call_center()).to_frame()


def test_curves_are_drawn_and_saved(tmp_path: Path) -> None:
    picture = ft.curve(LLAMA_8B, **WORDS).plot(x="ITL", y="rps-per-8-gpus", by="precision")

    assert isinstance(picture, Picture)
    assert picture._repr_png_().startswith(b"\x89PNG")
    picture.save(tmp_path / "curve.html")
    assert "plotly" in (tmp_path / "curve.html").read_text(encoding="utf-8")
    with pytest.raises(ft.InvalidInput, match=r"^file: 'txt' is not known; use one of html, png"):
        picture.save(tmp_path / "curve.txt")
    with pytest.raises(ft.InvalidInput, match=r"^x: 'speed' is not known"):
        ft.curve(LLAMA_8B, **WORDS).plot(x="speed")
