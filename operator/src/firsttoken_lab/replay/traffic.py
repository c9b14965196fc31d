"""The traffic of a replay: a trace file of requests as they are, or of rates, from which requests are made.

Which of the two a file is, its first line says. `rate_scale` thins requests (each is kept with that chance, which keeps
what kind of process they are) and multiplies rates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from firsttoken_lab.replay import series as rates
from firsttoken_lab.replay.calendar import MONDAY_EPOCH_SECONDS
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.simulation.requests import COLUMNS, Requests, read_trace

FIELD = "--trace"
SAMPLE = Path(__file__).with_name("sample-hour.csv")
"""An hour of rates, made up by `tools/sample_hour.py`: shares of the busiest minute's."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """Changes to a trace on its way to the replay."""

    rate_scale: float = 1.0
    length_variation: float = 1.0
    """Coefficient of variation of the lengths that are made for a series."""
    longest_tokens: int | None = None
    """Input and output that a replica can hold: longer recorded requests are left out, made ones are cut."""
    seed: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Traffic that is replayed. Arrivals count from the first point of the file."""

    name: str
    requests: Requests
    rate_scale: float
    left_out: int
    """Recorded requests that no replica could hold."""
    start_epoch_seconds: float = MONDAY_EPOCH_SECONDS
    """Time of its begin, since 1970-01-01T00:00 UTC; a Monday at 00:00 UTC where that is not known."""
    series: rates.Series | None = None
    """Rates (scaled) and mean lengths that the requests were drawn from; None: they were recorded."""


def read_traffic(file: Path, declared: Lengths, shaping: Shaping) -> Traffic:
    """Read a trace; `declared` lengths are for a series that has none, and say how much of a prompt is cached.

    Raises `InvalidInput` that names file, line and column.
    """
    names = rates.header(file, FIELD)
    if all(name in names for name in COLUMNS):
        return _recorded(file, declared, shaping)
    if all(name in names for name in rates.REQUIRED):
        return made_of(rates.read_series(file, FIELD), file.name, declared, shaping)
    raise InvalidInput(
        FIELD,
        f"{file}, line 1 names neither {','.join(COLUMNS)} nor {','.join(rates.REQUIRED)}",
        "give requests or a series of rates, as CSV with a first line of names",
    )


def sample_traffic(peak_requests_per_second: float, declared: Lengths, shaping: Shaping) -> Traffic:
    """The sample hour, its busiest minute at this peak."""
    scaled = replace(shaping, rate_scale=shaping.rate_scale * peak_requests_per_second)
    return made_of(rates.read_series(SAMPLE, FIELD), SAMPLE.name, declared, scaled)


def _recorded(file: Path, declared: Lengths, shaping: Shaping) -> Traffic:
    if shaping.rate_scale > 1:
        raise InvalidInput("--rate-scale", f"{shaping.rate_scale:g} adds to recorded requests", "use at most 1")
    cached = declared.cached_input_percent
    requests = read_trace(file, cached_input_percent=cached, field=FIELD)
    kept = np.random.default_rng(shaping.seed).random(len(requests)) < shaping.rate_scale
    fits = np.ones(len(requests), np.bool_)
    if shaping.longest_tokens is not None:
        fits = requests.input_tokens + requests.output_tokens <= shaping.longest_tokens
    if not (kept & fits).any():
        raise InvalidInput(
            FIELD,
            f"{file} has no request that is left of --rate-scale {shaping.rate_scale:g} and that a replica of"
            f" {shaping.longest_tokens} tokens holds",
            "use a larger scale, or a model or replica with more context",
        )
    left_out = int((kept & ~fits).sum())
    return Traffic(file.name, requests.only(kept & fits), shaping.rate_scale, left_out)


def made_of(series: rates.Series, name: str, declared: Lengths, shaping: Shaping, field: str = FIELD) -> Traffic:
    """Requests made from a series; `field` is the argument that refusals name."""
    rng = np.random.default_rng(shaping.seed)
    arrival = rates.arrivals(series, shaping.rate_scale, rng, field)
    prompt, output = (
        np.rint(rates.lengths(means, series.at_seconds, arrival, mean, shaping.length_variation, rng))
        for means, mean in (
            (series.mean_input_tokens, declared.input_tokens),
            (series.mean_output_tokens, declared.output_tokens),
        )
    )
    if shaping.longest_tokens is not None:
        output = np.minimum(output, shaping.longest_tokens // 2)
        prompt = np.minimum(prompt, shaping.longest_tokens - np.maximum(1, output))
    prompt = np.maximum(1, prompt)
    uncached = np.maximum(1, np.rint(prompt * declared.uncached_input_tokens / declared.input_tokens))
    columns = (prompt, uncached, np.maximum(1, output))
    input_tokens, uncached_tokens, output_tokens = (column.astype(np.int64) for column in columns)
    requests = Requests(arrival, input_tokens, uncached_tokens, output_tokens)
    began = MONDAY_EPOCH_SECONDS if series.start_epoch_seconds is None else series.start_epoch_seconds
    scaled = replace(series, requests_per_second=shaping.rate_scale * series.requests_per_second)
    return Traffic(name, requests, shaping.rate_scale, 0, began, scaled)
