"""Declaration of a team: traffic, SLA, hardware. The question that a sizing answers.

Plain frozen values with units in their names; nothing here knows where they came from (custom resource, CLI, notebook).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

REQUESTS_PER_PREFIX = (1.001, 1_000_000)
"""Fewest and most requests that begin alike on average: of 1 nothing would come again."""


class Percentile(StrEnum):
    """Statistic of a latency that a limit is about."""

    MEAN = "Mean"
    P50 = "P50"
    P90 = "P90"
    P95 = "P95"
    P99 = "P99"

    @property
    def key(self) -> str:
        """Name of the field that holds this statistic (`mean`, `p95`...)."""
        return self.value.lower()

    @property
    def share(self) -> float | None:
        """Share of the requests that must be inside a limit on it, 0..1; None for the mean."""
        return None if self is Percentile.MEAN else int(self.value[1:]) / 100


class Arrivals(StrEnum):
    """Arrival process of requests, and so the way in which a latency curve is read."""

    POISSON = "Poisson"
    CLOSED_LOOP = "ClosedLoop"


class SlaMode(StrEnum):
    """Kind of answer that the user waits for."""

    STREAMING = "Streaming"
    SEQUENTIAL = "Sequential"
    OFFLINE = "Offline"


class Routing(StrEnum):
    """Router in front of the replicas."""

    RANDOM = "Random"
    ROUND_ROBIN = "RoundRobin"
    LEAST_LOADED = "LeastLoaded"
    PREFIX_AWARE = "PrefixAware"
    """To a replica that has the beginning of the prompt in its cache."""

    @property
    def evens_out(self) -> bool:
        """Tell whether the arrivals at a replica are evener than its own share of random ones."""
        return self in (Routing.ROUND_ROBIN, Routing.LEAST_LOADED)


class Batching(StrEnum):
    """Batching of an engine."""

    IN_FLIGHT = "InFlight"
    """Requests join and leave at every step; whole prompts (also: continuous batching)."""
    CHUNKED_PREFILL = "ChunkedPrefill"
    """In-flight, with prompts cut to the token budget of a step."""
    STATIC = "Static"
    """A batch runs until its last request is done."""


class Sparsity(StrEnum):
    """Zeros in the weights that tensor cores skip."""

    TWO_OF_FOUR = "TwoOfFour"
    """Sparsity that keeps two of every four weights (2:4 structured sparsity)."""


class DraftMethod(StrEnum):
    """Source of the tokens that are proposed."""

    N_GRAM = "NGram"
    """Look-up in the prompt, which takes no time."""
    MTP = "MTP"
    """Layers of the checkpoint itself (multi-token prediction)."""


@dataclass(frozen=True, slots=True)
class SpeculativeDecoding:
    """Tokens are proposed cheaply and checked in one step of the model: so many, each right so often."""

    draft_tokens: int
    acceptance_percent: float
    method: DraftMethod = DraftMethod.N_GRAM


@dataclass(frozen=True, slots=True)
class OfflineJob:
    """A job without a user who waits: so many requests, done before the deadline."""

    requests: int
    deadline_hours: float


@dataclass(frozen=True, slots=True)
class Limit:
    """One latency limit: at most `milliseconds` at `percentile`."""

    milliseconds: float
    percentile: Percentile


@dataclass(frozen=True, slots=True)
class Sla:
    """The latency limits of a deployment; an absent limit does not bind."""

    mode: SlaMode = SlaMode.STREAMING
    time_to_first_token: Limit | None = None
    inter_token_latency: Limit | None = None
    end_to_end: Limit | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Declared traffic of one deployment (all replicas together).

    `cached_input_percent`, the share of a prompt that begins as an earlier one did, saves prefill work, not KV space.
    Rates are requests a second; `None` means not declared. Exactly one of `peak_requests_per_second`,
    `concurrent_requests` and `offline` is set once the custom resource was resolved. Lengths are spread as their P99
    says (log-normal), or as `..._quantiles` do: pairs of a share (0..1) and tokens, both rising.
    """

    input_tokens: float
    output_tokens: float
    input_tokens_p99: float | None = None
    output_tokens_p99: float | None = None
    input_token_quantiles: tuple[tuple[float, float], ...] = ()
    output_token_quantiles: tuple[tuple[float, float], ...] = ()
    cached_input_percent: float = 0.0
    prefixes_in_use: int | None = None
    """Different beginnings of prompts that come again, at a time; None: every replica has all of them in its cache."""
    requests_per_prefix: float | None = None
    """Mean number of requests that begin alike before no more come, as the turns of a conversation do; those that begin
    like no other count. None: they come without end."""
    average_requests_per_second: float | None = None
    peak_requests_per_second: float | None = None
    concurrent_requests: int | None = None
    offline: OfflineJob | None = None
    routing: Routing = Routing.RANDOM


class GpuOrder(StrEnum):
    """Order in which GPU types are taken: by price and then as listed, or as listed whatever they cost."""

    PRICE = "Price"
    LISTED = "Listed"


@dataclass(frozen=True, slots=True)
class Hardware:
    """GPUs that may be used, in order of preference on a tie, and fixed parallelism where the user set it."""

    gpus: tuple[str, ...]
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    gpus_per_server: int = 8
    attention_data_parallel: int | None = None
    """Groups of a replica's GPUs with an attention of their own; None: 1 where `tensor_parallel` is declared, else
    what is best."""
    gpu_order: GpuOrder = GpuOrder.PRICE


@dataclass(frozen=True, slots=True)
class Pricing:
    """Cost of a GPU: either a cloud price an hour, or a server bought and amortised.

    Amounts are in `currency`. With `gpu_hour` (on demand) set those of a server are ignored. `reserved_gpu_hour` is
    paid at all times, a GPU of `spot_gpu_hour` may be taken back; a size is priced on demand, a plan by all three.
    """

    gpu_hour: float | None = None
    server_price: float | None = None
    amortization_years: float | None = None
    hosting_per_year: float = 0.0
    license_per_gpu_year: float = 0.0
    currency: str = "USD"
    input_per_million_tokens: float | None = None
    output_per_million_tokens: float | None = None
    reserved_gpu_hour: float | None = None
    spot_gpu_hour: float | None = None
