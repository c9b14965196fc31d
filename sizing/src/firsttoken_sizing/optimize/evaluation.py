"""The values of the search: a candidate, what is known about it before it is sized, and how it ended.

Only values and how they scale; how they come about is in the modules beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from firsttoken_sizing.band import Band
from firsttoken_sizing.engines.clients import VariedClients
from firsttoken_sizing.engines.memory import Memory
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance.closed_loop import BenchmarkClients
from firsttoken_sizing.profile import ConfigurationKey, Point
from firsttoken_sizing.request import Basis, Infeasible
from firsttoken_sizing.step import FittedStep, StepModel
from firsttoken_sizing.step.bands import Banded
from firsttoken_sizing.workload import Batching


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing that could be deployed."""

    key: ConfigurationKey
    batching: Batching


@dataclass(frozen=True, slots=True)
class CandidateBound:
    """A candidate that fits into memory, and what is cheap to know about it.

    `step` is `fitted` with the batch limit of memory and engine. `points` are the measured ones of this workload, empty
    where there are none or where they were measured with another way of batching.
    """

    candidate: Candidate
    memory: Memory
    fitted: FittedStep
    step: StepModel
    scheduler: Scheduler
    clients: BenchmarkClients | VariedClients
    """Clients of a closed loop."""
    points: tuple[Point, ...]
    basis: Basis
    """The best that an answer about it can stand on."""
    limited_by_memory: bool
    """True where the KV cache and not the engine limits the batch."""
    most_requests_per_second: float
    """Rate of one replica by the step model, with every batch slot taken and no limit on latency."""


def slowed(step: StepModel, factor: float) -> StepModel:
    """The step model with every time multiplied by `factor`."""
    seconds = {f.name: getattr(step, f.name) * factor for f in fields(step) if f.name.endswith("_seconds")}
    return replace(step, **seconds)


@dataclass(frozen=True, slots=True)
class InfeasibleCandidate:
    """Candidate that cannot serve this workload at any size, and why. `shortfall` ranks them: less is nearer."""

    candidate: Candidate
    cause: Infeasible
    sentence: str
    shortfall: float
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Performance of one replica of a candidate inside the SLA.

    `point` holds measured statistics only where `basis` is Measured (and the mean of E2E that follows from them).
    `curve` gives the operating points of one replica from light to heavy load; it is called for the winner only.
    """

    bound: CandidateBound
    point: Point
    basis: Basis
    band_of: Callable[[], Band]
    """Band of the capacity; called for what is compared or answered, because it takes as long as the capacity."""
    times_of: Callable[[Banded], Band]
    """Band of a latency of `point`, at as many requests in flight."""
    binding: str
    saturation_requests_per_second: float
    curve: Callable[[Point], tuple[Point, ...]]
    source: str
    by_physics: bool = False
    """True where no measurement of the configuration stands behind it."""
    from_points: bool = False
    """True where its operating points are measured ones, and not those of the step model."""
    alone: Evaluation | None = None
    """Evaluation of a replica by itself, where this is of one among many that share their arrivals."""

    @property
    def key(self) -> ConfigurationKey:
        """The configuration of a replica."""
        return self.bound.candidate.key

    @property
    def band(self) -> Band:
        """Band of the capacity."""
        return self.band_of()

    @property
    def capacity(self) -> float:
        """Largest rate of one replica inside the SLA, requests a second."""
        return self.point.requests_per_second
