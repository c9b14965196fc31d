"""Formats of weights that an engine runs on a kind of GPU: natively, by emulation, or not at all.

The table and its sources are in `data/support.json`. What the table does not name does not run; an engine that it does
not name at all runs whatever the GPU computes in, and emulates the rest.
"""

from __future__ import annotations

import json
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from firsttoken_sizing.catalog import BYTES_PER_PARAMETER, Gpu, gpus
from firsttoken_sizing.engines import Engine

_SAME_KIND = {"FP16": "BF16", "BF16": "FP16"}


class Support(StrEnum):
    """Way in which an engine runs a format on a GPU."""

    NATIVE = "Native"
    EMULATED = "Emulated"
    """Weights are stored in the format and turned into 16 bits for every product."""
    NONE = "None"


def support(engine: Engine, gpu: Gpu, precision: str) -> Support:
    """Way in which the engine runs weights of this precision on the GPU."""
    entry = _engines().get(engine.value)
    if entry is None:
        return Support.NATIVE if precision in gpu.dense_tflops else Support.EMULATED
    known = entry["architectures"].get(gpu.architecture, {})
    if precision in known.get("native", ()):
        return Support.NATIVE
    return Support.EMULATED if precision in known.get("emulated", ()) else Support.NONE


def nearest(engine: Engine, gpu: Gpu, precision: str) -> str:
    """The nearest that can run, as advice: another format there, another engine there, another GPU for this engine."""
    advice = []
    runnable = [p for p in BYTES_PER_PARAMETER if support(engine, gpu, p) is not Support.NONE]
    if runnable:
        advice.append(f"set model.precision to {min(runnable, key=lambda p: _distance(p, precision))}")
    others = [other.value for other in Engine if support(other, gpu, precision) is not Support.NONE]
    if others:
        advice.append(f"set sizing.engine to {' or '.join(others)}")
    able = [other for other in gpus() if support(engine, other, precision) is Support.NATIVE]
    if able:
        closest = min(able, key=lambda other: (other.vendor != gpu.vendor, abs(other.memory_gib - gpu.memory_gib)))
        advice.append(f"set hardware.gpus to {closest.name}")
    return ", or ".join(advice) or "choose a GPU that `firsttoken gpus` lists with another architecture"


def _distance(precision: str, other: str) -> tuple[float, bool]:
    return abs(BYTES_PER_PARAMETER[precision] - BYTES_PER_PARAMETER[other]), _SAME_KIND.get(precision) != other


@cache
def _engines() -> dict[str, Any]:
    text = files("firsttoken_sizing.engines").joinpath("data", "support.json").read_text(encoding="utf-8")
    engines: dict[str, Any] = json.loads(text)["engines"]
    return engines
