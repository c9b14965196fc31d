"""A question as a notebook asks it: plain words and numbers, which become a `SizingRequest`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypedDict, get_type_hints

from firsttoken_sizing.benchmarks import ImportResult, read_benchmarks
from firsttoken_sizing.catalog import resolve_gpu
from firsttoken_sizing.catalog.architecture import model_from_config
from firsttoken_sizing.declared import DeclaredSettings
from firsttoken_sizing.engines import DEFAULT, Engine
from firsttoken_sizing.errors import InvalidInput, one_of
from firsttoken_sizing.notebook.values import count, number, percent, prices, several, text, texts
from firsttoken_sizing.profile import Profile
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.workload import (
    Arrivals,
    Batching,
    DraftMethod,
    GpuOrder,
    Hardware,
    Limit,
    OfflineJob,
    Percentile,
    Pricing,
    Routing,
    Sla,
    SlaMode,
    Sparsity,
    SpeculativeDecoding,
    Workload,
)

Benchmarks = str | Path | ImportResult | Profile | Iterable[str | Path | Profile]


class Needed(TypedDict):
    """Words that every question has."""

    gpus: str | Sequence[str]
    """Names such as `H100-SXM-80GB`; of several the cheapest feasible one wins, unless `gpu_order` says otherwise."""
    input_tokens: float
    output_tokens: float


class Parallelism(TypedDict, total=False):
    """GPUs of a replica, where they are not for the sizing to choose."""

    tensor_parallel: int
    pipeline_parallel: int
    attention_data_parallel: int
    gpus_per_server: int
    gpu_order: str
    """`Price` (the default) or `Listed`: the first of `gpus` that is feasible."""


class Limits(TypedDict, total=False):
    """Limits on latencies, of each at most one."""

    ttft_mean_ms: float
    ttft_p50_ms: float
    ttft_p90_ms: float
    ttft_p95_ms: float
    ttft_p99_ms: float
    itl_mean_ms: float
    itl_p50_ms: float
    itl_p90_ms: float
    itl_p95_ms: float
    itl_p99_ms: float
    e2e_mean_ms: float
    e2e_p50_ms: float
    e2e_p90_ms: float
    e2e_p95_ms: float
    e2e_p99_ms: float


class Asked(Needed, Parallelism, Limits, total=False):
    """Everything that a question may say."""

    requests_per_second: float
    """Rate at the peak, of all replicas together."""
    average_requests_per_second: float
    concurrent_requests: int
    """Requests always outstanding, in place of a rate."""
    offline_requests: int
    deadline_hours: float
    input_tokens_p99: float
    output_tokens_p99: float
    cached_input_percent: float
    prefixes_in_use: int
    requests_per_prefix: float
    routing: str
    mode: str
    precision: str
    allowed_precisions: Sequence[str]
    arrivals: str
    """`Poisson` (the default) or `ClosedLoop`."""
    engine: str
    engine_release: str
    batching: str | Sequence[str]
    sparsity: str
    draft_tokens: int
    acceptance_percent: float
    draft_method: str
    """`NGram` (the default) or `MTP`."""
    max_batch_size: int
    max_batched_tokens: int
    kv_cache_bits: int
    gpu_memory_percent: float
    benchmarks: Benchmarks
    """Result files of benchmark tools, what `read_benchmarks` gave, or profiles."""
    pricing: Pricing | Mapping[str, Pricing]
    """Cost of every GPU, or of each by name."""
    config: Mapping[str, object]
    """The config.json of a model outside the catalog."""


_KINDS = get_type_hints(Asked)
_LIMITS = {"ttft": "sla.timeToFirstToken", "itl": "sla.interTokenLatency", "e2e": "sla.endToEnd"}
_FIELDS = {
    "model.name": "model",
    "model.architecture": "config",
    "traffic.peakRequestsPerSecond": "requests_per_second",
    "peakRequestsPerSecond": "requests_per_second",
    "concurrentRequests": "concurrent_requests",
    "traffic.offline.requests": "offline_requests",
    "traffic.offline.deadlineHours": "deadline_hours",
    "traffic.offline": "offline_requests",
    "gpusPerServer": "gpus_per_server",
    "sizing.engineSettings.kvCacheType": "kv_cache_bits",
    "sizing.speculativeDecoding.method": "draft_method",
    "sizing.engineSettings.maxBatchSize": "max_batch_size",
    **{field: f"{name}_p95_ms" for name, field in _LIMITS.items()},
}
"""Fields of the YAML that are called otherwise than their last part."""
_FIELD = re.compile(r"\b(?:model|traffic|sla|hardware|sizing)(?:\.[a-zA-Z]+)+|\b(?:" + "|".join(_FIELDS) + r")\b")
_FLAG = re.compile(r"--([a-z][a-z-]*[a-z])")


def request_of(model: str, asked: Mapping[str, Any]) -> SizingRequest:
    """The request that the words mean; one that is None is not said.

    Raises `InvalidInput` for a word that is none, for one that is missing, and for a value of another kind.
    """
    for name in asked:
        if name not in Asked.__annotations__:
            near = get_close_matches(name, Asked.__annotations__, n=3)
            fix = f"did you mean {' or '.join(near)}?" if near else "help(firsttoken_sizing.size) lists all"
            raise InvalidInput(name, "is not known", fix)
    asked = {name: _value(name, value) for name, value in asked.items() if value is not None}
    if missing := [name for name in sorted(Asked.__required_keys__) if name not in asked]:
        raise InvalidInput(", ".join(missing), "missing", "every question needs them")
    gpus, config = asked["gpus"], asked.get("config")
    return SizingRequest(
        model=text("model", model),
        architecture=None if config is None else model_from_config(model, config),
        workload=_workload(asked),
        sla=_sla(asked),
        hardware=Hardware(
            gpus=gpus,
            tensor_parallel=asked.get("tensor_parallel"),
            pipeline_parallel=asked.get("pipeline_parallel"),
            attention_data_parallel=asked.get("attention_data_parallel"),
            gpus_per_server=asked.get("gpus_per_server", Hardware(()).gpus_per_server),
            gpu_order=one_of(GpuOrder, "gpu_order", asked.get("gpu_order", GpuOrder.PRICE)),
        ),
        precision=asked.get("precision"),
        allowed_precisions=asked.get("allowed_precisions", ()),
        arrivals=one_of(Arrivals, "arrivals", asked.get("arrivals", Arrivals.POISSON)),
        profiles=_profiles(asked.get("benchmarks", ())),
        pricing=_pricing(asked.get("pricing", {}), gpus),
        engine=one_of(Engine, "engine", asked.get("engine", DEFAULT)),
        engine_release=asked.get("engine_release"),
        batchings=tuple(one_of(Batching, "batching", name) for name in asked.get("batching", ())),
        sparsity=one_of(Sparsity, "sparsity", asked["sparsity"]) if "sparsity" in asked else None,
        speculative_decoding=_speculation(asked),
        declared_settings=DeclaredSettings(
            max_batch=asked.get("max_batch_size"),
            tokens_per_step=asked.get("max_batched_tokens"),
            kv_cache_bits=asked.get("kv_cache_bits"),
            memory_share=asked["gpu_memory_percent"] / 100 if "gpu_memory_percent" in asked else None,
        ),
    )


def _value(word: str, value: object) -> object:
    """The value as its kind in `Asked` has it."""
    kind = _KINDS[word]
    if word.endswith("_percent"):
        return percent(word, value)
    if kind is int:
        return count(word, value)
    if kind is float:
        return number(word, value)
    if kind is str:
        return text(word, value)
    if kind in (str | Sequence[str], Sequence[str]):
        return texts(word, value)
    if word == "config" and not isinstance(value, Mapping):
        raise InvalidInput(word, "is not a mapping", "give the content of config.json")
    return value


@contextmanager
def in_our_words() -> Iterator[None]:
    """Say the fields of an `InvalidInput` as they are called here, not as in the YAML or on the command line."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(_renamed(error.field), _renamed(error.problem), _renamed(error.fix)) from None


def _renamed(text: str) -> str:
    def snake(field: str) -> str:
        last = field.rpartition(".")[2]
        return re.sub("(?<=[a-z])([A-Z])", lambda found: f"_{found.group().lower()}", last)

    def renamed(found: re.Match[str]) -> str:
        field = found.group()
        for known, name in sorted(_FIELDS.items(), key=lambda item: -len(item[0])):
            if field == known or field.startswith(f"{known}."):
                return name
        return snake(field)

    return _FLAG.sub(lambda found: found.group(1).replace("-", "_"), _FIELD.sub(renamed, text))


def _workload(asked: Mapping[str, Any]) -> Workload:
    requests, hours = asked.get("offline_requests"), asked.get("deadline_hours")
    if (requests is None) != (hours is None):
        raise InvalidInput("offline_requests, deadline_hours", "one is missing", "give both or neither")
    return Workload(
        input_tokens=asked["input_tokens"],
        output_tokens=asked["output_tokens"],
        input_tokens_p99=asked.get("input_tokens_p99"),
        output_tokens_p99=asked.get("output_tokens_p99"),
        cached_input_percent=asked.get("cached_input_percent", 0.0),
        prefixes_in_use=asked.get("prefixes_in_use"),
        requests_per_prefix=asked.get("requests_per_prefix"),
        average_requests_per_second=asked.get("average_requests_per_second"),
        peak_requests_per_second=asked.get("requests_per_second"),
        concurrent_requests=asked.get("concurrent_requests"),
        offline=OfflineJob(requests, hours) if requests is not None and hours is not None else None,
        routing=one_of(Routing, "routing", asked.get("routing", Routing.RANDOM)),
    )


def _sla(asked: Mapping[str, Any]) -> Sla:
    limits: dict[str, Limit | None] = {}
    for latency in _LIMITS:
        named = {p: name for p in Percentile if (name := f"{latency}_{p.key}_ms") in asked}
        if len(named) > 1:
            raise InvalidInput(", ".join(named.values()), "are two limits on one latency", "keep one of them")
        limits[latency] = next((Limit(asked[name], p) for p, name in named.items()), None)
    usual = SlaMode.OFFLINE if "offline_requests" in asked else SlaMode.STREAMING
    return Sla(one_of(SlaMode, "mode", asked.get("mode", usual)), limits["ttft"], limits["itl"], limits["e2e"])


def _profiles(benchmarks: Benchmarks) -> tuple[Profile, ...]:
    if isinstance(benchmarks, ImportResult):
        return benchmarks.profiles
    every: list[str | Path | Profile] = (
        [benchmarks]
        if isinstance(benchmarks, str | Path | Profile)
        else several("benchmarks", benchmarks, '["results.json"]')
    )
    if not all(isinstance(one, str | Path | Profile) for one in every):
        raise InvalidInput("benchmarks", "holds what is neither a file nor a Profile", "name result files")
    files = [Path(one) for one in every if not isinstance(one, Profile)]
    read = read_benchmarks(files).profiles if files else ()
    return (*read, *(one for one in every if isinstance(one, Profile)))


def _pricing(pricing: Pricing | Mapping[str, Pricing], gpus: Iterable[str]) -> dict[str, Pricing]:
    named = pricing if isinstance(pricing, Mapping) else dict.fromkeys(gpus, prices("pricing", pricing))
    return {resolve_gpu(text("pricing", name)).name: prices("pricing", price) for name, price in named.items()}


def _speculation(asked: Mapping[str, Any]) -> SpeculativeDecoding | None:
    if "draft_tokens" not in asked and "acceptance_percent" not in asked:
        return None
    if "draft_tokens" not in asked or "acceptance_percent" not in asked:
        raise InvalidInput("draft_tokens, acceptance_percent", "one is missing", "give both or neither")
    method = one_of(DraftMethod, "draft_method", asked.get("draft_method", DraftMethod.N_GRAM))
    return SpeculativeDecoding(asked["draft_tokens"], asked["acceptance_percent"], method)
