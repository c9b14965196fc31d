"""Floor of physics: what no engine is faster than, whatever was measured or fitted.

A prompt takes at least its matrix products at the dense peak of the precision, a decode step at least one reading of
the weights and of the KV cache. Points that say otherwise were not measured as they are labeled (a cached prompt,
several tokens a step, a narrower cache), so constants, fits and answers stop at the floor.
"""

from __future__ import annotations

from dataclasses import fields, replace

from firsttoken_sizing.catalog import Gpu, Model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.spec import SIXTEEN_BITS
from firsttoken_sizing.step.calibration import Calibration
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.prior import StepWork, tensor_flops


def least_constants(engine: Engine, gpu: Gpu, precision: str, model: Model) -> Calibration:
    """The constants of an engine that adds nothing to physics: every factor of reading and prefill is 1.

    The KV cache is read as wide as the engine keeps it, and attention may be computed at the rate of the precision
    (the work counts both in 16 bits). What an engine adds, and what it may overlap, has no floor.
    """
    return Calibration(
        step_seconds=0.0,
        layer_seconds=0.0,
        sequence_seconds=0.0,
        weight_read=1.0,
        kv_read=engine.spec.kv_cache_bits(model, precision) / SIXTEEN_BITS,
        decode=0.0,
        prefill=1.0,
        attention=tensor_flops(gpu, "BF16") / tensor_flops(gpu, precision),
        all_reduce=0.0,
    )


def raised(constants: Calibration, least: Calibration) -> Calibration:
    """The constants, none below its floor."""
    return Calibration(*(max(getattr(constants, f.name), getattr(least, f.name)) for f in fields(Calibration)))


def at_least(step: StepModel, work: StepWork, least: Calibration) -> StepModel:
    """The step model, no part of which is faster than `work` at the constants of `least`; else the same."""
    ideal = work.step(least)
    raised_parts = {
        name: max(getattr(step, name), getattr(ideal, name))
        for name in (
            "base_seconds",
            "per_context_token_seconds",
            "per_prefill_token_seconds",
            "per_prefill_token_squared_seconds",
            "expert_seconds",
        )
    }
    if step.attention_wave_sequences:
        # A full wave reads every token of its sequences once.
        whole = ideal.per_context_token_seconds * step.attention_wave_sequences
        raised_parts["attention_wave_seconds"] = max(step.attention_wave_seconds, whole)
    flat = replace(step, **raised_parts, batch_shape=())
    shape = tuple(
        (sequences, max(factor, ideal.batch_seconds(sequences) / flat.batch_seconds(sequences)))
        for sequences, factor in step.batch_shape
    )
    return replace(flat, batch_shape=shape)
