"""The runtimes that a resource can name: one file for each way in which a server is started, and this table.

`spec.runtime` takes its defaults and its limits from here, and `act.pods` what a pod needs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from firsttoken_operator.runtimes import nim, sglang, triton, trtllm_serve, vllm
from firsttoken_operator.runtimes.spec import ContainerSpec, RuntimeSpec


class RuntimeType(StrEnum):
    """Servers that the resource can name."""

    _value_: str
    spec: RuntimeSpec

    def __new__(cls, spec: RuntimeSpec) -> Self:
        """A member is the name of its runtime, and carries all that is known of it."""
        member = str.__new__(cls, spec.name)
        member._value_ = spec.name
        member.spec = spec
        return member

    NIM = nim.SPEC
    TRITON = triton.SPEC
    VLLM = vllm.SPEC
    SGLANG = sglang.SPEC
    TRTLLM_SERVE = trtllm_serve.SPEC

    @property
    def containers(self) -> tuple[ContainerSpec, ...]:
        """The containers of its versions."""
        return tuple(release.container for release in self.spec.releases)


CONTAINERS: tuple[ContainerSpec, ...] = tuple(container for runtime in RuntimeType for container in runtime.containers)
"""All of them."""
