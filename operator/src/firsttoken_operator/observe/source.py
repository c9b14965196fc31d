"""The port to a time-series database: what a query answers, and nothing about how it is asked.

An answer is a `Vector` of numbers exactly as they came (NaN and Inf included) or `Missing` with a reason. Which numbers
can be believed is decided in `measure`, never here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from firsttoken_operator.domain import Missing


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of an instant vector. `timestamp` is the evaluation time in seconds of the database's own clock."""

    labels: Mapping[str, str]
    value: float
    timestamp: float


@dataclass(frozen=True, slots=True)
class Vector:
    """An instant vector. With `warnings` it may be incomplete (a partial response of a federated database)."""

    samples: tuple[Sample, ...]
    warnings: tuple[str, ...] = ()
    overflowing: frozenset[str] = frozenset()
    """Namespaces with more series than are read: none of theirs is here."""


@dataclass(frozen=True, slots=True)
class CutOff(Missing):
    """An answer that was too large to be read to its end."""

    overflowing: frozenset[str] = frozenset()
    """The namespaces that filled it."""


class MetricsSource(Protocol):
    """Source of live metrics. One instance for each that the cluster administrator named."""

    async def query(self, promql: str) -> Vector | Missing:
        """Evaluate one instant query now. Never raises for what the network or the other side did."""
        ...
