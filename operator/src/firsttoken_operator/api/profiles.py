"""Measured points as a resource and as values: a BenchmarkProfile to a `Profile`, and back.

Nothing here reads a cluster, a file or a clock.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.api.benchmark_profile import KIND as BENCHMARK_KIND
from firsttoken_operator.api.benchmark_profile import BenchmarkProfile, LatencyMilliseconds
from firsttoken_operator.api.engine_settings import declared_settings, settings_document
from firsttoken_operator.api.problems import problems_of, refusal_of
from firsttoken_sizing.profile import ConfigurationKey, Latency, Point, Profile
from firsttoken_sizing.workload import Percentile

MAX_NAME_LENGTH = 253


def profile(benchmark: BenchmarkProfile) -> Profile:
    """The measured points of a resource."""
    spec = benchmark.spec
    return Profile(
        name=benchmark.metadata.name,
        key=ConfigurationKey(
            spec.model,
            spec.gpu,
            spec.precision.value,
            spec.tensor_parallel,
            spec.pipeline_parallel,
            spec.attention_data_parallel,
        ),
        input_tokens=spec.input_tokens,
        output_tokens=spec.output_tokens,
        load=spec.load,
        points=tuple(
            Point(
                requests_per_second=point.requests_per_second,
                concurrency=point.concurrency,
                offered_requests_per_second=point.offered_requests_per_second,
                ttft=_latency(point.ttft_milliseconds),
                itl=_latency(point.itl_milliseconds),
                end_to_end=_latency(point.end_to_end_milliseconds),
            )
            for point in spec.points
        ),
        engine=spec.engine,
        engine_version=spec.engine_version,
        source=spec.source,
        settings=declared_settings(spec.engine_settings),
    )


def benchmark_document(measured: Profile) -> dict[str, Any]:
    """The BenchmarkProfile of a profile, as plain YAML values; `profile` is its inverse up to the spelling of the name.

    Raises `InvalidDocument` where the profile breaks the schema (points without concurrency in a closed loop).
    """
    key = measured.key
    optional = {"engine": measured.engine, "engineVersion": measured.engine_version, "source": measured.source}
    document = {
        "apiVersion": API_VERSION,
        "kind": BENCHMARK_KIND,
        "metadata": {"name": _object_name(measured.name)},
        "spec": {
            "model": key.model,
            "gpu": key.gpu,
            "precision": key.precision,
            "tensorParallel": key.tensor_parallel,
            "pipelineParallel": key.pipeline_parallel,
            **({"attentionDataParallel": groups} if (groups := key.attention_data_parallel) > 1 else {}),
            "inputTokens": _plain(measured.input_tokens),
            "outputTokens": _plain(measured.output_tokens),
            "load": measured.load.value,
            "points": [_point_document(point) for point in measured.points],
            **{name: text for name, text in optional.items() if text},
            **({"engineSettings": settings} if (settings := settings_document(measured.settings)) else {}),
        },
    }
    try:
        BenchmarkProfile.model_validate(document)
    except ValidationError as error:
        raise refusal_of(problems_of(error), measured.name, BENCHMARK_KIND) from error
    return document


def _latency(measured: LatencyMilliseconds) -> Latency:
    return Latency(measured.mean, measured.p50, measured.p90, measured.p95, measured.p99)


def _point_document(point: Point) -> dict[str, Any]:
    loads = {
        "concurrency": point.concurrency,
        "offeredRequestsPerSecond": point.offered_requests_per_second,
        "requestsPerSecond": point.requests_per_second,
    }
    document: dict[str, Any] = {name: _plain(value) for name, value in loads.items() if value is not None}
    for name, latency in (
        ("ttftMilliseconds", point.ttft),
        ("itlMilliseconds", point.itl),
        ("endToEndMilliseconds", point.end_to_end),
    ):
        statistics = {p.key: _plain(value) for p in Percentile if (value := latency.at(p)) is not None}
        if statistics:
            document[name] = statistics
    return document


def _plain(value: float) -> int | float:
    """Whole numbers without a decimal point, as a person would write them."""
    return int(value) if float(value).is_integer() else value


def _object_name(text: str) -> str:
    """A valid object name that still reads like `text` (`meta/Llama-3 8B` -> `meta-llama-3-8b`)."""
    name = re.sub(r"[^a-z0-9.]+", "-", text.lower())
    name = re.sub(r"[-.]*\.[-.]*", ".", name)[:MAX_NAME_LENGTH].strip("-.")
    return name or "profile"
