"""The whole question of one sizing, and the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from firsttoken_sizing.answer import Answer
from firsttoken_sizing.band import Band
from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.engines import DEFAULT, Engine
from firsttoken_sizing.engines.memory import Memory
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.profile import ConfigurationKey, Latencies, Profile
from firsttoken_sizing.rounding import ceiling
from firsttoken_sizing.workload import (
    Arrivals,
    Batching,
    Hardware,
    Pricing,
    Sla,
    SlaMode,
    Sparsity,
    SpeculativeDecoding,
    Workload,
)

if TYPE_CHECKING:
    from firsttoken_sizing.catalog.models import Model


class Basis(StrEnum):
    """Degree to which an answer stands on measurements.

    `Interpolated`: the point was measured without a statistic of the SLA, which others of its curve report on both
    sides of it.
    """

    MEASURED = "Measured"
    INTERPOLATED = "Interpolated"
    FITTED = "Fitted"
    EXTRAPOLATED = "Extrapolated"


class Infeasible(StrEnum):
    """Reason why no number of replicas meets the SLA (cause of condition SLAFeasible=False)."""

    SINGLE_REQUEST_TTFT = "SingleRequestTTFT"
    ITL_AT_BATCH_1 = "ITLAtBatch1"
    END_TO_END_INCONSISTENT = "EndToEndInconsistent"
    KV_CACHE_TOO_SMALL = "KVCacheTooSmall"
    CONTEXT_WINDOW_EXCEEDED = "ContextWindowExceeded"
    MODEL_DOES_NOT_FIT = "ModelDoesNotFit"


@dataclass(frozen=True, slots=True)
class SizingRequest:
    """One sizing question.

    `model` and `hardware.gpus` may be aliases. `precision` None: chosen among published formats, never below 8 bits
    unless `allowed_precisions` lists it. `profiles` are every measured profile that may be used; those that do not
    match the model, GPU, precision or parallelism are ignored. `pricing` is keyed by canonical GPU name.
    """

    model: str
    workload: Workload
    sla: Sla
    hardware: Hardware
    precision: str | None = None
    allowed_precisions: tuple[str, ...] = ()
    arrivals: Arrivals = Arrivals.POISSON
    profiles: tuple[Profile, ...] = ()
    pricing: dict[str, Pricing] = field(default_factory=dict)
    architecture: Model | None = None
    """The numbers of a model outside the catalog; `model` is then only its name."""
    engine: Engine = DEFAULT
    engine_release: str | None = None
    """Label of one of the engine's calibrated releases (`2025`, `2024`, `0.15`); None: the newest that each
    configuration was measured with."""
    batchings: tuple[Batching, ...] = ()
    """Ways of batching that the engine may be set to; the cheapest wins, ties in this order. Empty: the engine's own
    default."""
    sparsity: Sparsity | None = None
    speculative_decoding: SpeculativeDecoding | None = None
    declared_settings: DeclaredSettings = AS_INSTALLED
    """Settings that the engine is given in place of those that it has as it is installed."""
    pinned: ConfigurationKey | None = None
    """A running fleet's configuration: only this one is considered for the answer."""
    fewest_replicas: int | None = None
    """Replicas from which on the answer holds, where hits depend on their number; None: those that it asks for."""
    is_as_installed: bool = False
    """True of pods that are told nothing of the answer: what is not declared is what the engine does by itself."""

    @property
    def has_offline_batch(self) -> bool:
        """Tell whether replicas are told the batch that engines ship for work without a caller."""
        return self.sla.mode is SlaMode.OFFLINE and not self.is_as_installed


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of the answer; None where the pricing or the traffic does not say. Amounts in `currency`.

    Of the fleet for the declared peak unless a name says otherwise. `autoscaled`: of a fleet that follows the load,
    which stands at the declared average. `assumptions` are the sentences that must be read with the numbers.
    """

    currency: str
    per_hour: float | None = None
    per_year: float | None = None
    per_year_autoscaled: float | None = None
    """None for bought servers: they cost the same when they are idle."""
    gpu_hours_per_day: float | None = None
    gpu_hours_per_day_autoscaled: float | None = None
    per_thousand_requests_at_peak: float | None = None
    """Cost of the servers or GPUs bought, at the declared peak."""
    per_thousand_requests_at_peak_fractional: float | None = None
    """Cost of the fraction of servers that the load uses (as the DLI course counts)."""
    per_thousand_requests_at_average: float | None = None
    per_thousand_requests_autoscaled: float | None = None
    per_million_tokens_at_peak: float | None = None
    """Input and output tokens together."""
    per_million_tokens_at_average: float | None = None
    api_per_thousand_requests: float | None = None
    """Price that the declared per-token API takes for the same requests."""
    api_per_million_tokens: float | None = None
    api_per_year_at_average: float | None = None
    break_even_requests_per_second: float | None = None
    """Average load from which on this fleet is cheaper than the API."""
    break_even_percent_of_peak: float | None = None
    """The same as a share of the declared peak; above 100 the API is cheaper whatever the load."""
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """Course of an offline job on the sized fleet."""

    requests: int
    deadline_hours: float
    finish_hours: float
    """Hours with the fleet as sized; at most the deadline."""
    gpu_hours: float
    cost: float | None = None
    """Cost in the currency of the pricing; None without a price."""
    cost_per_thousand_requests: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """One of two pools: so many workers of one configuration."""

    configuration: ConfigurationKey
    workers: int

    @property
    def gpus(self) -> int:
        """GPUs of all its workers."""
        return self.workers * self.configuration.gpus_per_replica


@dataclass(frozen=True, slots=True)
class SeparatePools(Latencies):
    """Prefill and decode on workers of their own, for the declared peak. The latencies are those of both together."""

    prefill: WorkerPool
    decode: WorkerPool
    transfer_milliseconds: float
    """Time of the KV cache of a prompt from one pool to the other."""

    @property
    def gpus(self) -> int:
        """GPUs of both pools."""
        return self.prefill.gpus + self.decode.gpus


@dataclass(frozen=True, slots=True)
class Alternative:
    """A configuration that was considered and lost."""

    configuration: ConfigurationKey
    feasible: bool
    gpus: int | None
    """GPUs of the fleet; None where there is none, or where its size was not computed because it cannot win."""
    reason: str
    batching: Batching | None = None
    """None where prefill and decode have pools of their own."""
    pools: SeparatePools | None = None
    """Prefill and decode apart, where that takes fewer GPUs than the answer; `configuration` is then the decode
    worker's."""


@dataclass(frozen=True, slots=True, repr=False)
class Sizing(Answer, Latencies):
    """The answer. The latencies are those of the operating point.

    Where `feasible` is False `cause` says why, `table` and `basis` are None, and sizes, rates and the error band are 0
    and stand for nothing; `configuration` is then the one that came nearest.
    """

    request: SizingRequest
    """The question: the limits that the answer keeps, and the engine that it is for."""
    feasible: bool
    reason: str
    """One sentence: why this size, or why none and what would make it feasible."""
    cause: Infeasible | None
    configuration: ConfigurationKey | None
    arrivals: Arrivals
    binding_constraint: str
    peak_requests_per_second: float
    table: CapacityTable | None = None
    replicas: int = 0
    """Replicas for the declared peak."""
    replicas_low: int = 0
    """Replicas for the declared peak if one carries the most of its band."""
    replicas_high: int = 0
    """The same if it carries the least."""
    replicas_for_average: int | None = None
    gpus: int = 0
    servers: int = 0
    requests_per_second_per_replica: float = 0.0
    """Largest rate of one replica inside the SLA."""
    requests_per_second_per_server: float = 0.0
    concurrency_per_replica: float = 0.0
    basis: Basis | None = None
    band: Band | None = None
    """Shares of `requests_per_second_per_replica` between which the real ones lie, nine times of ten; of a measured
    point the repeatability of that benchmark."""
    latency_bands: dict[str, Band] = field(default_factory=dict)
    """The same of `ttft`, `itl` and `end_to_end`, at as many requests in flight."""
    utilization_cap_percent: float = 0.0
    """Largest rate inside the SLA, as a share of the largest stable one."""
    memory: Memory | None = None
    batching: Batching | None = None
    cached_input_percent: float = 0.0
    """Share of a prompt that is in the cache of the replica it is sent to."""
    engine_settings: dict[str, str | int | float] = field(default_factory=dict)
    """Settings that the answer assumes of the engine, under the engine's own option names."""
    cost: Cost | None = None
    job: Job | None = None
    """Answer to a declared offline job."""
    warnings: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    @property
    def separate_pools(self) -> SeparatePools | None:
        """Prefill and decode apart, with the parallelism of each pool, where that takes fewer GPUs than this answer."""
        return next((a.pools for a in self.alternatives if a.pools), None)

    @property
    def error_band_percent(self) -> float:
        """Farthest that the real requests a second of one replica lie from the answer; 0 for none."""
        return self.band.percent if self.band else 0.0

    @property
    def careful_share(self) -> float:
        """Share of the answer that a start prepares for, where the band is wide; 1 where it is not."""
        law = PARAMETERS.bands
        return max(self.band.low, law.least_careful) if self.band and self.band.low < law.wide_below else 1.0

    @property
    def careful_replicas(self) -> int:
        """Replicas for the declared peak where one carries that share."""
        return min(self.replicas_high, ceiling(self.replicas / self.careful_share))
