"""Calibration of an engine against what the hardware could do: the constants that turn physics into step times.

Ten numbers: three times that the engine adds, and seven factors by which it takes longer than the ideal (1: as fast as
the data sheet says). They were fitted by `benchmarks/fit_catalog.py` and are read from `data/calibrations.json`:

    {"calibrations": [{
        "engine": "TensorRT-LLM",      a name of `engines.Engine`
        "release": "2024",             an older generation of the engine; "" is the current one
        "base": {"step_seconds": ..., "layer_seconds": ..., ... all ten},
        "factors": {                   what multiplies the base on a kind of GPU or for a precision
            "hopper": {"prefill": 0.9, ...}, "FP8": {...}, ...
        },
        "source": "...", "points": 500, "configurations": 10
    }]}

Keys of `factors` are those of `groups_of`: GPU architectures, precision classes, kinds of model and architectures of
models (`Model.architecture`); an unknown one multiplies by 1, so every GPU, precision and model has an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from firsttoken_sizing.catalog import Attention, Gpu, Model

FILE = "calibrations.json"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants of one engine on one kind of GPU for one class of precision. All non-negative."""

    step_seconds: float
    """Scheduling and sampling, paid by every step."""
    layer_seconds: float
    """Launching the kernels of one layer."""
    sequence_seconds: float
    """Bookkeeping for each running sequence in a step."""
    weight_read: float
    """Time to read the weights, over bytes / memory bandwidth."""
    kv_read: float
    """Time to read the KV cache, over bytes / memory bandwidth.

    NB: the bytes are those of a cache in 16 bits, whatever the precision: that engines in FP8 keep a narrower one is in
    the factor of FP8. Counting its bytes instead leaves nim_dli.csv as it is with a configuration left out, and is
    worse with a GPU left out (median 9.3 % for 7.0)."""
    decode: float
    """Matrix products of decode tokens, over FLOP / tensor-core rate of the precision."""
    prefill: float
    """Matrix products of prompt tokens, over FLOP / tensor-core rate of the precision."""
    attention: float
    """Attention of prompts, over FLOP / 16-bit tensor-core rate."""
    all_reduce: float
    """Exchange between the GPUs of a replica, over what an idle machine measures."""
    attention_wave: float = 0.0
    """Decode attention of one head, over its bytes / the bandwidth share of one multiprocessor. 0: the engine spreads
    one sequence over the whole GPU, as all do since 2024, and `kv_read` says it all."""


TERMS = tuple(field.name for field in fields(Calibration))
"""The ten constants in the order of `Calibration`."""


def precision_class(precision: str) -> str:
    """Precisions that an engine treats alike: `16-bit`, `FP8`, `INT8`, `INT4` (weights only) or `FP4`."""
    return {"FP16": "16-bit", "BF16": "16-bit", "NVFP4": "FP4", "MXFP4": "FP4"}.get(precision, precision)


def groups_of(gpu: Gpu, precision: str, model: Model) -> tuple[str, ...]:
    """Group of configurations that engines treat alike, from which the factors of a configuration follow.

    The GPU's architecture, the precision class, the kernels of `dense`, `MoE` or `MLA` (a mixture of experts, too) in
    that class, and the model's architecture, whose other configurations say something of this one. Kind and class go
    together because the kernels of experts in 4, 8 and 16 bits have little in common.
    """
    kind = "MLA" if model.attention is Attention.MLA else "MoE" if model.experts else "dense"
    width = precision_class(precision)
    return gpu.architecture, width, f"{kind} {width}", model.architecture


def constants(entry: Mapping[str, Any], groups: Iterable[str]) -> Calibration:
    """The constants of one entry of the file: `base` times the factors of every group."""
    factors = [entry.get("factors", {}).get(group, {}) for group in groups]
    values = {}
    for term in TERMS:
        value = float(entry["base"].get(term, 0.0))
        for by_term in factors:
            value *= float(by_term.get(term, 1.0))
        values[term] = value
    return Calibration(**values)
