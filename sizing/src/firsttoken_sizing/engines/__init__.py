"""The engines: one file each, and this table.

To add one, write its file and give it a line in `Engine`. How fast it is comes from measurements (`step/data`, written
by `benchmarks/fit_catalog.py`); until there are some, the constants of `DEFAULT` stand for it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from firsttoken_sizing.engines import sglang, tensorrt_llm, vllm
from firsttoken_sizing.engines.spec import EngineSpec


class Engine(StrEnum):
    """Program that runs the model: engines differ in step times and in how they pack work into a step."""

    _value_: str
    spec: EngineSpec

    def __new__(cls, spec: EngineSpec) -> Self:
        """A member is the name of its engine, and carries all that is known of it."""
        member = str.__new__(cls, spec.name)
        member._value_ = spec.name
        member.spec = spec
        return member

    TENSORRT_LLM = tensorrt_llm.SPEC
    VLLM = vllm.SPEC
    SGLANG = sglang.SPEC


DEFAULT = Engine.TENSORRT_LLM
"""Assumed where nothing tells the engine."""


def is_called(engine: Engine, name: str) -> bool:
    """Tell whether a benchmark that gives this name to what it measured means `engine`; without a name it means any."""
    words = name.casefold()
    if any(other.casefold() in words for other in Engine):
        return engine.casefold() in words
    return not words or any(alias in words for alias in engine.spec.aliases)


def proper_name(label: str) -> str:
    """The name of the engine that a benchmark file calls `label`; another label stays as it is."""
    return next((engine.value for engine in Engine if label in engine.spec.labels), label)
