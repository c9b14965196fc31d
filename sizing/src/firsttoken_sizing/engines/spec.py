"""Specification of an engine for the sizing: one value an engine, one file a value.

How fast an engine is was measured and is data (`step/data/calibrations.json`, by name and release); everything else
that tells engines apart is a field here, so that nothing outside their files asks which engine it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.engines.clients import VariedClients
from firsttoken_sizing.engines.scheduler import KvAdmission, Scheduler
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import Batching

if TYPE_CHECKING:
    from firsttoken_sizing.catalog import Gpu, Model

EngineSettings = dict[str, str | int | float]
"""Options of an engine under its own names."""

CURRENT = ""
"""Name of an engine's current release in the calibrations."""
SIXTEEN_BITS = 16


class MemoryRule(Protocol):
    """Division of a GPU between weights, KV cache and the rest. GiB."""

    def other_gib(self, gpu: Gpu) -> float:
        """Kept for what is neither weights nor cache."""
        ...

    def cache_gib(self, gpu: Gpu, weights_gib: float) -> float:
        """Left for the KV cache; negative where the weights do not fit."""
        ...

    def with_share(self, share: float) -> MemoryRule:
        """The rule with another share than the engine has as it is installed."""
        ...


@dataclass(frozen=True, slots=True)
class ShareOfGpu:
    """An engine that takes a share of a GPU and finds out what its activations need before it sizes the cache.

    The settings of engines that do so mean different things (a share of the memory that is free after the weights, of
    all memory), but where queues begin in measurements differs no more between them than between two models.
    """

    usable_fraction: float
    reserve_gib: float = 3.5
    """CUDA context, communication buffers and the rest that is neither weights nor cache. The reserve of NVIDIA
    aiconfigurator 0.11 (`systems/*.yaml`), the careful end of the 1.5 to 3.5 that were seen."""
    activations_gib: float = 2.0
    """Within the 1 to 4 that engines profile at a budget of 8,192 tokens a step."""

    def other_gib(self, gpu: Gpu) -> float:
        """The same on every GPU."""
        return self.reserve_gib + self.activations_gib

    def cache_gib(self, gpu: Gpu, weights_gib: float) -> float:
        """`f * (total - other) - weights - activations`."""
        return self.usable_fraction * (gpu.memory_gib - self.reserve_gib) - weights_gib - self.activations_gib

    def with_share(self, share: float) -> ShareOfGpu:
        """The same with another usable fraction."""
        return replace(self, usable_fraction=share)


@dataclass(frozen=True, slots=True)
class Setup:
    """A sized replica as an engine is told of it."""

    key: ConfigurationKey
    batching: Batching
    scheduler: Scheduler
    max_batch: int
    kv_cache_bits: int
    memory_share: float
    """Share of a GPU that weights and KV cache take together."""
    prefix_caching: bool
    declared: DeclaredSettings = AS_INSTALLED


@dataclass(frozen=True, slots=True)
class Release:
    """A generation of an engine whose speed was measured, with its defaults."""

    name: str
    about: str
    scheduler: Scheduler
    max_batch: int
    """Sequences that run at once where memory allows."""
    offline_max_batch: int
    """The same for work that no caller waits for."""
    source: str
    """Source of `scheduler`, `max_batch` and `offline_max_batch`."""
    is_collected: bool = True
    """Measured by several people with their own settings, which scatter more than those of one."""
    varied_clients: VariedClients | None = None
    """Clients of the benchmarks behind its fits, where the requests of those varied in length; None: all were alike."""
    is_old: bool = False
    """Superseded: an answer that stands on it says so."""

    @property
    def label(self) -> str:
        """Value of `sizing.engineRelease`."""
        return self.name or "2025"


@dataclass(frozen=True, slots=True)
class PeakConstants:
    """Fitted constants of the memory that a static batch takes (`peak_memory`).

    Gibibytes, or counts of 16-bit numbers kept alive for each token or vocabulary entry.
    """

    context_gib: float
    """CUDA context and libraries."""
    recent_context_gib: float
    """The same, on top, for Hopper and newer."""
    hidden_vectors: float
    """Vectors of the hidden size for each prompt token."""
    hidden_vectors_8_bit: float
    """The same, on top, where activations are quantized as well."""
    feed_forward_vectors: float
    """Vectors of the feed-forward width (both halves of a gated one), divided by TP."""
    attention_vectors: float
    """Vectors of the width of queries, keys and values, divided by TP."""
    logits_per_vocabulary_entry: float
    """Numbers for each entry of the vocabulary and sequence: logits and the workspace of sampling."""
    peer_gib: float
    """Communication buffers for each other GPU of the tensor-parallel group."""
    first_peer_gib: float
    """Memory that tensor parallelism takes however many GPUs."""
    linked_peer_gib: float
    """On top of `peer_gib` for each other GPU behind NVLink, on Hopper and newer."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One engine, as it is installed unless a field says otherwise."""

    name: str
    """Value of `sizing.engine`, and key of the calibrations."""
    aliases: tuple[str, ...]
    """Parts of names, in lower case, by which benchmarks mean this engine where no engine's own name occurs."""
    releases: tuple[Release, ...]
    """Those that were calibrated, the current one first."""
    batchings: frozenset[Batching]
    """Ways of batching that it can be set to."""
    kv_admission: KvAdmission
    memory: MemoryRule
    kv_cache_bits: Callable[[Model, str], int]
    """Bits of one number of the KV cache, by model and precision of the weights."""
    settings: Callable[[Setup], EngineSettings]
    """The options of a replica."""
    peak_memory: PeakConstants | None = None
    """Memory of one static batch; None: not measured."""
    step_holds_batch: bool = True
    """True where a step needs a token for every sequence that may run: with a smaller budget vLLM does not start."""
    limits_each_rank: bool = True
    """True where batch and budget of a step are those of each group of a replica with attention data parallelism."""
    attention_data_parallel_of_all: bool = False
    """True where every GPU of a replica is a group of its own, or none is."""
    labels: tuple[str, ...] = ()
    """Whole names that benchmark files write in place of `name`."""

    @property
    def batching(self) -> Batching:
        """Batching of the engine as it is installed."""
        return Batching.CHUNKED_PREFILL if self.release().scheduler.chunked_prefill else Batching.IN_FLIGHT

    def release(self, name: str = CURRENT) -> Release:
        """The calibrated release of this name."""
        return next(release for release in self.releases if release.name == name)


def sixteen_bits(model: Model, precision: str) -> int:
    """The KV cache of an engine that keeps 16 bits unless told otherwise."""
    return SIXTEEN_BITS
