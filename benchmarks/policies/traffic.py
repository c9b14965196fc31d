"""The traffic of a scenario, and the resource that declares it: the trace's mean lengths, mean rate and peak.

Under another seed a week or an episode has other arrivals and lengths; a recorded hour is what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import yaml

from firsttoken_lab.replay.series import Series, read_series
from firsttoken_lab.replay.setting import Setting, setting_of
from firsttoken_lab.replay.traffic import Shaping, Traffic, made_of, read_traffic
from firsttoken_operator.api.documents import parse_documents
from firsttoken_sizing.simulation.requests import read_trace
from policies.scenarios import DAY_SECONDS, Kind, Scenario

_FIELD = "--traces"
_DEPLOYMENT = Path(__file__).with_name("deployment.yaml")
_SECONDS_A_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Declared:
    """Declaration of `spec.traffic`: mean tokens, requests a second on average and at the peak."""

    input_tokens: int
    output_tokens: int
    average: float
    peak: float


@lru_cache(maxsize=16)
def setting(scenario: Scenario, traces: Path) -> Setting:
    """The resource of a scenario, sized. Its declaration is of all the days, however many are played."""
    return sized(declared(scenario, traces))


def sized(traffic: Declared) -> Setting:
    """The resource with this declared traffic, sized."""
    document = yaml.safe_load(_DEPLOYMENT.read_text(encoding="utf-8"))
    document["spec"]["traffic"] |= {
        "inputTokens": traffic.input_tokens,
        "outputTokens": traffic.output_tokens,
        "averageRequestsPerSecond": f"{traffic.average:g}",
        "peakRequestsPerSecond": f"{traffic.peak:g}",
    }
    documents = parse_documents(yaml.safe_dump(document), file=_DEPLOYMENT.name)
    answer = setting_of(documents.deployments[0], documents.pools, ())
    if isinstance(answer, str):
        raise RuntimeError(f"{traffic}: no size: {answer}")
    return answer


@lru_cache(maxsize=1)
def traffic(scenario: Scenario, traces: Path, seed: int, days: int | None) -> Traffic:
    """The requests. The last one is kept: a week of them takes memory, and plays of the same come one after another."""
    resource = setting(scenario, traces)
    lengths = resource.subject.lengths
    shaping = Shaping(scenario.rate_scale, scenario.length_variation, resource.longest_tokens, seed)
    if scenario.kind is Kind.HOUR:
        return read_traffic(traces / scenario.file, lengths, shaping)
    series = series_of(scenario, traces)
    if days is not None:
        series = _between(series, 0.0, days * DAY_SECONDS)
    return made_of(series, scenario.name, lengths, shaping)


def after(played: Traffic, seconds: float) -> Traffic:
    """Requests after the warm-up, counted from its end."""
    rest = played.requests.only(played.requests.arrival_s >= seconds)
    rest = replace(rest, arrival_s=rest.arrival_s - seconds)
    series = played.series
    if series is not None:
        series = replace(series, at_seconds=series.at_seconds - seconds)
    return replace(played, requests=rest, start_epoch_seconds=played.start_epoch_seconds + seconds, series=series)


def declared(scenario: Scenario, traces: Path) -> Declared:
    """Declare the traffic as one would who looks at the whole trace; rates to two digits."""
    if scenario.kind is Kind.HOUR:
        requests = read_trace(traces / scenario.file, field=_FIELD)
        prompt, output = float(requests.input_tokens.mean()), float(requests.output_tokens.mean())
        minutes = np.bincount((requests.arrival_s // _SECONDS_A_MINUTE).astype(np.int64))
        average, peak = len(requests) / float(requests.arrival_s[-1]), float(minutes.max()) / _SECONDS_A_MINUTE
    else:
        series = series_of(scenario, traces)
        at, rate = series.at_seconds, series.requests_per_second
        average, peak = float(np.trapezoid(rate, at) / at[-1]), float(rate.max())
        if series.mean_input_tokens is None or series.mean_output_tokens is None:
            assert scenario.lengths is not None, f"{scenario.name} needs lengths"
            prompt, output = scenario.lengths
        else:
            means = (series.mean_input_tokens, series.mean_output_tokens)
            prompt, output = (float(np.average(tokens, weights=rate)) for tokens in means)
    average, peak = (float(f"{rate * scenario.rate_scale:.2g}") for rate in (average, peak))
    return Declared(round(prompt), round(output), average, max(average, peak))


def series_of(scenario: Scenario, traces: Path) -> Series:
    """The days of a week with scaled lengths, or an episode. Rates are not scaled yet.

    Windows without a rate are gaps of the publication: the rate is a straight line across them.
    """
    if scenario.episode is not None:
        return scenario.episode.series
    whole = read_series(traces / scenario.file, _FIELD)
    begin = scenario.first_day * DAY_SECONDS
    series = _between(whole, begin, begin + scenario.days * DAY_SECONDS)
    known = series.requests_per_second > 0
    scales = (scenario.input_scale, scenario.output_scale)
    prompt, output = (
        None if means is None else means[known] * scale
        for means, scale in zip((series.mean_input_tokens, series.mean_output_tokens), scales, strict=True)
    )
    at_seconds = series.at_seconds[known]
    return replace(
        series,
        at_seconds=at_seconds - at_seconds[0],
        requests_per_second=series.requests_per_second[known],
        mean_input_tokens=prompt,
        mean_output_tokens=output,
    )


def _between(series: Series, begin: float, end: float) -> Series:
    inside = (series.at_seconds >= begin) & (series.at_seconds <= end)
    prompt, output = (
        None if means is None else means[inside] for means in (series.mean_input_tokens, series.mean_output_tokens)
    )
    return replace(
        series,
        at_seconds=series.at_seconds[inside],
        requests_per_second=series.requests_per_second[inside],
        mean_input_tokens=prompt,
        mean_output_tokens=output,
    )
