"""Measurements are kept by what the weights are and by the release of the engine; names are aliases."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing import Arrivals, Engine, Hardware, InvalidInput, Sizing, size
from firsttoken_sizing.catalog import Model, gpus, models, resolve_gpu, resolve_model
from firsttoken_sizing.engines.support import Support, support
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.step import shipped, step_for
from tests.fixtures.worked_examples import H100, call_center, call_center_profile

_BY_ARCHITECTURE: dict[str, list[Model]] = defaultdict(list)
for _model in models():
    _BY_ARCHITECTURE[_model.architecture].append(_model)
SAME = [alike for alike in _BY_ARCHITECTURE.values() if len(alike) > 1]
PRECISIONS = ("BF16", "FP8", "INT8", "NVFP4")


def asked(model: str, precision: str = "FP8", engine: Engine = Engine.TENSORRT_LLM) -> SizingRequest:
    question = call_center(arrivals=Arrivals.CLOSED_LOOP, ttft_milliseconds=2000)
    plain = replace(question, hardware=Hardware(gpus=(H100,)), profiles=(), pricing={})
    return replace(plain, model=model, precision=precision, engine=engine)


def numbers(sizing: Sizing) -> tuple[object, ...]:
    capacity, band = sizing.requests_per_second_per_replica, sizing.error_band_percent
    return sizing.replicas, sizing.gpus, capacity, band, sizing.basis, sizing.ttft, sizing.itl


def test_the_catalog_has_architectures_with_several_names() -> None:
    names = [{m.name.rpartition("/")[2] for m in alike} for alike in SAME]

    assert any({"Llama-3.1-70B-Instruct", "Llama-3.3-70B-Instruct"} <= of for of in names)
    assert len(SAME) >= 6


@pytest.mark.parametrize("engine", Engine, ids=str)
def test_llama_3_1_and_3_3_70b_have_one_answer(engine: Engine) -> None:
    older, newer = (size(asked(f"meta-llama/Llama-3.{n}-70B-Instruct", engine=engine)) for n in (1, 3))

    assert older.feasible
    assert numbers(older) == numbers(newer)


@pytest.mark.parametrize("alike", SAME, ids=lambda alike: alike[0].name)
def test_models_of_one_architecture_are_the_same_to_physics(alike: list[Model]) -> None:
    assert len({(m.parameters_billion, m.active_parameters_billion, m.kv_bytes_per_token) for m in alike}) == 1


@given(
    alike=st.sampled_from(SAME),
    gpu=st.sampled_from(gpus()),
    engine=st.sampled_from(Engine),
    precision=st.sampled_from(PRECISIONS),
    ways=st.sampled_from((1, 2, 4, 8)),
)
def test_step_times_are_those_of_the_architecture(
    alike: list[Model], gpu: object, engine: Engine, precision: str, ways: int
) -> None:
    found = resolve_gpu(gpu.name)  # type: ignore[attr-defined]
    same_size = [m for m in alike if m.weight_bytes(precision) == alike[0].weight_bytes(precision)]
    steps = {
        step_for(
            model=model,
            gpu=found,
            key=ConfigurationKey(model.name, found.name, precision, ways),
            engine=engine,
            profiles=(),
            lengths=(2000.0, 200.0),
        ).model
        for model in same_size
    }

    assert len(steps) == 1


def test_a_profile_of_another_name_of_the_architecture_is_used() -> None:
    profile = call_center_profile()
    question = replace(asked("meta-llama/Llama-3.1-8B-Instruct"), profiles=(profile,))

    assert profile.key.model != question.model
    assert numbers(size(question)) == numbers(size(replace(question, model=profile.key.model)))


def test_the_newest_release_that_was_measured_answers_and_an_older_one_if_asked_for() -> None:
    model, gpu = resolve_model("meta-llama/Meta-Llama-3-8B-Instruct"), resolve_gpu(H100)
    key = ConfigurationKey(model.name, H100, "FP16")
    newest, old = (shipped().fit(model, key, Engine.TENSORRT_LLM, release) for release in (None, "2024"))

    assert newest is not None
    assert old is not None
    assert (newest.release, old.release) == ("", "2024")
    for release in (None, "2024"):
        found = step_for(
            model=model,
            gpu=gpu,
            key=key,
            engine=Engine.TENSORRT_LLM,
            profiles=(),
            lengths=(2000.0, 200.0),
            release=release,
        )
        assert found.release == (release or "")


def test_a_declared_release_answers_alone_and_an_unknown_one_is_refused() -> None:
    question = asked("meta-llama/Meta-Llama-3-8B-Instruct", "FP16")
    old, recent = (size(replace(question, engine_release=release)) for release in ("2024", "2025"))

    assert numbers(recent) == numbers(size(question)) != numbers(old)
    assert any(w.startswith("OldMeasurements") for w in old.warnings)
    with pytest.raises(InvalidInput, match=r"sizing\.engineRelease: vLLM '2024' was not calibrated; use 2025 or 0\.15"):
        size(replace(question, engine=Engine.VLLM, engine_release="2024"))


def test_an_answer_of_old_measurements_says_so_and_what_would_improve_it() -> None:
    old, recent = (size(asked("meta-llama/Meta-Llama-3-8B-Instruct", precision)) for precision in ("FP8", "FP16"))

    (warning,) = (w for w in old.warnings if w.startswith("OldMeasurements"))
    assert "firsttoken import" in warning
    assert not any(w.startswith("OldMeasurements") for w in recent.warnings)
    own = size(replace(asked("meta-llama/Meta-Llama-3-8B-Instruct"), profiles=(call_center_profile(),)))
    assert not any(w.startswith("OldMeasurements") for w in own.warnings)


def test_every_shipped_fit_is_of_a_combination_that_the_engine_runs() -> None:
    """The table and the measurements contradict each other nowhere."""
    of = [(key, engine) for key, engine, _ in shipped().fits]

    assert [
        (key.gpu, key.precision, engine)
        for (key, engine), _ in product(of, range(1))
        if support(engine, resolve_gpu(key.gpu), key.precision) is Support.NONE
    ] == []
