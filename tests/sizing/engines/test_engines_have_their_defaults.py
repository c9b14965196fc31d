"""Defaults of an engine where it was not configured."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.memory import replica_memory
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.engines.spec import CURRENT
from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.step.model import StepModel


@pytest.mark.parametrize("engine", Engine)
def test_every_engine_is_known_with_its_source(engine: Engine) -> None:
    assert all(release.source for release in engine.spec.releases)
    assert engine.spec.batching in engine.spec.batchings
    assert Engine(engine.spec.name) is engine


@pytest.mark.parametrize("engine", Engine)
def test_the_releases_of_an_engine_are_those_that_were_calibrated(engine: Engine) -> None:
    text = files("firsttoken_sizing.step").joinpath("data", "calibrations.json").read_text(encoding="utf-8")
    calibrated = {entry["release"] for entry in json.loads(text)["calibrations"] if entry["engine"] == engine.value}

    # One that was never calibrated has the constants of the default engine.
    assert {release.name for release in engine.spec.releases} == (calibrated or {CURRENT})
    assert engine.spec.releases[0].name == CURRENT


def test_tensorrt_llm_takes_whole_prompts_as_the_measured_nim_did() -> None:
    assert {release.scheduler for release in Engine.TENSORRT_LLM.spec.releases} == {Scheduler()}


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_vllm_and_sglang_cut_prompts_to_8192_tokens_a_step_and_schedule_ahead(engine: Engine) -> None:
    schedulers = {release.scheduler for release in engine.spec.releases}

    assert schedulers == {Scheduler(8192, chunked_prefill=True, steps_ahead=1)}


@pytest.mark.parametrize("engine", Engine)
def test_the_batch_limit_is_positive(engine: Engine) -> None:
    assert all(release.max_batch >= 1 for release in engine.spec.releases)


def cache_gib(engine: Engine, gpu: str) -> float:
    memory = replica_memory(
        resolve_model("llama3-8b"),
        resolve_gpu(gpu),
        precision="FP8",
        input_tokens=1000.0,
        output_tokens=100.0,
        engine=engine,
    )
    return memory.kv_cache_gib


def test_sglang_reserves_an_amount_and_not_a_share() -> None:
    """12 GiB for a chunk of 8192 tokens and 1 GiB on an H100; a quarter of the chunk on a card of 24 GB."""
    weights = resolve_model("llama3-8b").weight_bytes("FP8") / 2**30

    assert cache_gib(Engine.SGLANG, "H100-SXM-80GB") == pytest.approx(
        resolve_gpu("H100-SXM-80GB").memory_gib - 13 - weights
    )
    assert cache_gib(Engine.SGLANG, "L4") == pytest.approx(resolve_gpu("L4").memory_gib - 4 - weights)


def test_vllm_keeps_what_tensorrt_llm_keeps() -> None:
    assert cache_gib(Engine.VLLM, "H100-SXM-80GB") == cache_gib(Engine.TENSORRT_LLM, "H100-SXM-80GB")


def test_an_engine_that_schedules_ahead_shows_the_first_token_a_step_later() -> None:
    step = StepModel(0.010, 1e-5, 1e-9, 1e-5, 0.0)
    lengths = Lengths(500.0, 500.0, 200.0)
    at_once, ahead = (poisson.predict(step, lengths, 5.0, Scheduler(steps_ahead=steps)) for steps in (0, 1))

    assert ahead.itl == at_once.itl
    assert ahead.ttft.mean is not None
    assert at_once.ttft.mean is not None
    # A step that only decodes: what the prompts of others add to it is in the wait for the own step.
    assert ahead.ttft.mean - at_once.ttft.mean == pytest.approx(10, rel=0.1)
