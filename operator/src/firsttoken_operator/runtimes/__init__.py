"""The runtimes that a resource can name: one file for each that the operator renders, and this table.

`spec.runtime` takes its defaults and its limits from here, and `act.manifests` what a pod needs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from firsttoken_operator.runtimes import nim
from firsttoken_operator.runtimes.spec import ContainerSpec, RuntimeSpec
from firsttoken_sizing.engines import Engine


class RuntimeType(StrEnum):
    """Engines that the resource can name."""

    _value_: str
    spec: RuntimeSpec

    def __new__(cls, spec: RuntimeSpec) -> Self:
        """A member is the name of its runtime, and carries all that is known of it."""
        member = str.__new__(cls, spec.name)
        member._value_ = spec.name
        member.spec = spec
        return member

    NIM = nim.SPEC
    TRITON = RuntimeSpec("Triton", Engine.TENSORRT_LLM)
    VLLM = RuntimeSpec("VLLM", Engine.VLLM)


RENDERED: dict[RuntimeType, ContainerSpec] = {t: t.spec.container for t in RuntimeType if t.spec.container}
"""Those that the operator runs itself; the first one's settings are the defaults of `spec.runtime`."""
