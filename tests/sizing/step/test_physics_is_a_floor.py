"""No prompt is computed faster than the dense peak, no step decodes faster than weights and KV cache are read once."""

from __future__ import annotations

from dataclasses import astuple, replace
from itertools import product

import numpy as np
import pytest

from firsttoken_sizing.catalog import Gpu, Model, gpus, models, resolve_gpu, resolve_model
from firsttoken_sizing.catalog.precision import BYTES_PER_PARAMETER
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.support import Support, support
from firsttoken_sizing.profile import ConfigurationKey, Load, Point, Profile
from firsttoken_sizing.step import StepModel, shipped, step_for
from firsttoken_sizing.step.fit import fit_constants
from firsttoken_sizing.step.floor import least_constants
from firsttoken_sizing.step.model import StepModel as Step
from firsttoken_sizing.step.prior import work_of
from firsttoken_sizing.step.samples import usable_samples
from tests.fixtures.worked_examples import LLAMA_8B_H100_FP8, call_center_profile

ROUNDING = 1 - 1e-3
"""Shipped coefficients have four or five digits."""
BATCHES = (1.0, 3.0, 17.0, 64.0, 256.0)
PROMPTS = (1.0, 500.0, 20_000.0)
LENGTHS = (2000.0, 200.0)


def ideal(model: Model, gpu: Gpu, key: ConfigurationKey, engine: Engine) -> StepModel:
    """Hardware alone: written here again as bytes over bandwidth and FLOP over peak, by the constants 1."""
    least = least_constants(engine, gpu, key.precision, model)
    assert (least.weight_read, least.prefill) == (1.0, 1.0)
    return work_of(model, gpu, key, prompt_tokens=LENGTHS[0]).step(least)


def is_faster_than_physics(step: Step, floor: Step) -> bool:
    contexts = (100.0, 30_000.0)
    return any(
        step.decode_seconds(b, b * c) < ROUNDING * floor.decode_seconds(b, b * c) for b in BATCHES for c in contexts
    ) or any(step.prefill_seconds(p) < ROUNDING * floor.prefill_seconds(p) for p in PROMPTS)


def violations(engines: tuple[Engine, ...], known: tuple[Model, ...]) -> list[str]:
    found = []
    for model, gpu, engine, precision, ways in product(known, gpus(), engines, BYTES_PER_PARAMETER, (1, 2, 4, 8)):
        if support(engine, gpu, precision) is Support.NONE:
            continue
        key = ConfigurationKey(model.name, gpu.name, precision, ways)
        fitted = step_for(model=model, gpu=gpu, key=key, engine=engine, profiles=(), lengths=LENGTHS)
        if is_faster_than_physics(fitted.model, ideal(model, gpu, key, engine)):
            found.append(f"{engine} {key}")
    return found


def test_no_combination_of_measured_models_is_faster_than_physics() -> None:
    measured = {key.model for key, _, _ in shipped().fits}
    known = {m.architecture: m for m in models() if m.architecture in measured}

    assert len(known) == len(measured)
    assert violations(tuple(Engine), tuple(known.values())) == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", Engine, ids=str)
def test_no_combination_of_the_catalog_is_faster_than_physics(engine: Engine) -> None:
    assert violations((engine,), models()) == []


@pytest.mark.parametrize("engine", Engine, ids=str)
def test_every_shipped_fit_without_a_workload_keeps_to_it_as_well(engine: Engine) -> None:
    names = {m.architecture: m for m in models()}
    for (key, of, _), fit in shipped().fits.items():
        if of is engine:
            model = names[key.model]
            floor = ideal(model, resolve_gpu(key.gpu), replace(key, model=model.name), engine)
            assert not any(is_faster_than_physics(step, floor) for step in fit.without_one()), key


def test_constants_never_fall_below_the_floor_whatever_the_release() -> None:
    model = resolve_model("meta-llama/Llama-3.1-8B-Instruct")
    for gpu, engine, precision in product(gpus(), Engine, ("BF16", "FP8", "NVFP4")):
        least = astuple(least_constants(engine, gpu, precision, model))
        for release in engine.spec.releases:
            found = astuple(shipped().constants(engine, gpu, precision, model=model, release=release.name))
            assert all(ours >= floor for ours, floor in zip(found, least, strict=True))


def test_points_that_no_hardware_could_reach_are_fitted_no_faster_than_it() -> None:
    """Cached prompts, say: a hundred times the throughput."""
    profile = call_center_profile()
    points = tuple(
        replace(p, requests_per_second=100 * p.requests_per_second, ttft=type(p.ttft)(), itl=type(p.itl)())
        for p in profile.points
    )
    points = tuple(Point(p.requests_per_second, concurrency=p.concurrency) for p in points)
    impossible = Profile("cached", profile.key, 2000, 200, Load.CLOSED_LOOP, points)
    model, gpu = resolve_model(profile.key.model), resolve_gpu(profile.key.gpu)

    fitted = step_for(
        model=model,
        gpu=gpu,
        key=LLAMA_8B_H100_FP8,
        engine=Engine.VLLM,
        profiles=(impossible,),
        lengths=LENGTHS,
    )

    floor = ideal(model, gpu, LLAMA_8B_H100_FP8, Engine.VLLM)
    assert not is_faster_than_physics(fitted.model, floor)
    assert fitted.model.prefill_seconds(2000.0) == pytest.approx(floor.prefill_seconds(2000.0), rel=0.05)


def test_the_floor_of_a_fit_leaves_possible_points_alone() -> None:
    model, gpu = resolve_model(LLAMA_8B_H100_FP8.model), resolve_gpu(LLAMA_8B_H100_FP8.gpu)
    samples = usable_samples((call_center_profile(),))
    prior = shipped().constants(Engine.VLLM, gpu, "FP8", model=model)

    def work_at(prompt: float) -> object:
        return work_of(model, gpu, LLAMA_8B_H100_FP8, prompt_tokens=prompt)

    least = replace(
        least_constants(Engine.VLLM, gpu, "FP8", model), weight_read=0.1, kv_read=0.1, prefill=0.1, attention=0.1
    )
    free, bounded = (fit_constants(samples, work_at, prior, floor) for floor in (None, least))  # type: ignore[arg-type]

    assert astuple(bounded.constants) == pytest.approx(astuple(free.constants))


def test_whole_numbers_of_sequences_keep_their_context() -> None:
    """An array of whole numbers must not make the cost of a token of context a whole number, 0."""
    step = Step(0.01, 1e-5, 4e-8, 1e-5, 0.0)

    assert step.context_seconds(np.array([1, 8])) == pytest.approx([4e-8, 4e-8])
    assert step.decode_seconds(np.array([8]), np.array([16_000])) == pytest.approx(step.decode_seconds(8.0, 16_000.0))
