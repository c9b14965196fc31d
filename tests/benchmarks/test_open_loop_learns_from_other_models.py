"""Constants of a server are learned from some models and hold for another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evaluation import open_loop
from evaluation.engine_fit import START
from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.profile import ConfigurationKey

DATA = Path(__file__).resolve().parents[2].parent / "shared/data"
SERVER = open_loop.Server(entry={"base": dict(START), "factors": {}}, computed_share=0.8, overhead_ms=10.0)


def stage(rate: float, model: str = "llama-3.1-8b", **latencies: float) -> open_loop.Stage:
    found, gpu = resolve_model(model), resolve_gpu("H100-SXM-80GB")
    key = ConfigurationKey(found.name, gpu.name, "FP16", 1)
    return open_loop.Stage(found, gpu, key, 500.0, 250.0, rate, Engine.VLLM.spec.release().scheduler, latencies)


def measured_by(server: open_loop.Server, rate: float) -> open_loop.Stage:
    """A stage as this server would answer it."""
    return replace(stage(rate), latencies=open_loop.predict(stage(rate), server))


def test_the_overhead_of_the_server_is_in_the_first_token_and_in_the_whole() -> None:
    without = open_loop.predict(stage(5.0), replace(SERVER, overhead_ms=0.0))
    with_it = open_loop.predict(stage(5.0), SERVER)

    added = {name: with_it[name] - without[name] for name in open_loop.GOALS}
    assert added == pytest.approx({"TTFT mean": 10, "TTFT p99": 10, "E2E": 10, "ITL": 10 / 250})


def test_a_server_is_found_again_by_the_stages_it_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_loop, "_start", lambda *_: dict(START))
    stages = [measured_by(SERVER, rate) for rate in (2.0, 10.0, 20.0)]
    found = open_loop.learn(Path(), stages)

    assert found.computed_share == SERVER.computed_share
    assert found.overhead_ms == pytest.approx(SERVER.overhead_ms, abs=1.5)
    assert open_loop.predict(stage(7.0), found)["E2E"] == pytest.approx(
        open_loop.predict(stage(7.0), SERVER)["E2E"], rel=0.03
    )


def test_a_model_that_is_left_out_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_loop, "_start", lambda *_: dict(START))
    known = [measured_by(SERVER, rate) for rate in (2.0, 5.0)]
    other = stage(5.0, "Qwen/Qwen3-14B", **{"TTFT mean": 1e4, "TTFT p99": 1e5, "ITL": 1e3, "E2E": 1e6})

    assert open_loop.learn(Path(), [*known, other], without=other.key.model) == open_loop.learn(Path(), known)


def test_the_time_between_tokens_is_that_of_the_decode_steps() -> None:
    assert stage(1.0, **{"TTFT mean": 50.0, "E2E": 2540.0}).step_seconds == pytest.approx(0.010)


def test_errors_of_a_model_that_was_left_out_are_inside_the_goals() -> None:
    if not (DATA / open_loop.FILE).is_file():
        pytest.skip(f"{open_loop.FILE} is not in ../shared/data")
    rows = open_loop.rows(DATA)

    assert [row.what.removeprefix("vLLM, open loop, ") for row in rows[:-1]] == list(open_loop.GOALS)
    assert all(figure.goal is not None for row in rows[:-1] for figure in row.figures if figure.name == "mean")
    of_all, of_warm = (row for row in rows if "TTFT p99" in row.what)
    assert of_all.points > of_warm.points
    assert all(row.reached for row in rows if row is not of_all)


def test_a_tail_that_more_load_shortens_began_before_the_server_was_warm() -> None:
    def of_run(run: str, rate: float, tail: float) -> open_loop.Stage:
        return replace(stage(rate, **{"TTFT p99": tail}), run=run)

    stages = [of_run("a", 5, 480), of_run("a", 10, 68), of_run("b", 5, 67), of_run("b", 10, 61), of_run("c", 6, 900)]

    assert open_loop.before_warm(stages) == [True, False, False, False, False]
