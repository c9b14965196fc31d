"""A series of rates, and requests made from it: `t,rps[,mean_in,mean_out]`, plain or gzip, further columns ignored.

Between two points the rate is a straight line, and requests come as a Poisson process with that rate. Lengths are
log-normal around the means of the rows, which are straight lines as well.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.simulation.requests import opened

REQUIRED = ("t", "rps")
_MEANS = ("mean_in", "mean_out")
_MOST_REQUESTS = 50_000_000
"""Requests that a laptop's memory holds."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One entry a point in each array, `at_seconds` from 0 on and strictly rising; rates in requests a second.

    The mean tokens are None where the file has none. At a point without traffic they say nothing (NaN).
    """

    at_seconds: NDArray[np.float64]
    requests_per_second: NDArray[np.float64]
    mean_input_tokens: NDArray[np.float64] | None = None
    mean_output_tokens: NDArray[np.float64] | None = None
    start_epoch_seconds: float | None = None
    """Time of second 0, since 1970-01-01T00:00 UTC; None: that is not known."""


def header(file: Path, field: str) -> list[str]:
    """The names in the first line. Raises `InvalidInput` under the name `field` where the file cannot be read."""
    return [name.strip() for name in next(_rows(file, field), [])]


def read_series(file: Path, field: str) -> Series:
    """The points of a file. Raises `InvalidInput` under the name `field`, with file, line and column."""
    rows = _rows(file, field)
    names = [name.strip() for name in next(rows, [])]
    if missing := [name for name in REQUIRED if name not in names]:
        raise InvalidInput(field, f"{file}, line 1 has no column {', '.join(missing)}", f"name {','.join(REQUIRED)}")
    wanted = [name for name in (*REQUIRED, *_MEANS) if name in names]
    columns: dict[str, list[float]] = {name: [] for name in wanted}
    for line, row in enumerate(rows, 2):
        if not row:
            continue
        for name in wanted:
            column = names.index(name)
            if name in _MEANS and columns["rps"][-1] == 0 and not _text(row, column):
                columns[name].append(math.nan)  # Nothing came, so nothing had a length.
                continue
            columns[name].append(_number(row, column, f"{file}, line {line}, column {name}", field))
        at, rates = columns["t"], columns["rps"]
        if len(at) > 1 and at[-1] <= at[-2]:
            raise InvalidInput(field, f"{file}, line {line}, column t: {at[-1]:g} does not rise", "sort the points")
        for name in _MEANS:
            if rates[-1] > 0 and name in columns and columns[name][-1] < 1:
                raise InvalidInput(
                    field, f"{file}, line {line}, column {name}: {columns[name][-1]:g} is below 1 token", "correct it"
                )
    if len(columns["t"]) < 2:
        raise InvalidInput(field, f"{file} has fewer than two points", f"give lines of {','.join(REQUIRED)}")
    at_seconds, rate = np.array(columns["t"]), np.array(columns["rps"])
    mean_input, mean_output = (
        np.where(rate > 0, columns[name], np.nan) if name in columns else None for name in _MEANS
    )
    return Series(at_seconds - at_seconds[0], rate, mean_input, mean_output)


def arrivals(series: Series, rate_scale: float, rng: np.random.Generator, field: str) -> NDArray[np.float64]:
    """Seconds of the requests, ascending. Raises `InvalidInput` where there would be none, or more than memory holds.

    A Poisson number for each stretch between two points, spread over it by the inverse of its cumulated rate.
    """
    at, rate = series.at_seconds, series.requests_per_second * rate_scale
    width, left, right = np.diff(at), rate[:-1], rate[1:]
    expected = width * (left + right) / 2
    if expected.sum() > _MOST_REQUESTS:
        raise InvalidInput(
            field, f"gives {expected.sum():.3g} requests, more than {_MOST_REQUESTS:g}", "use a smaller --rate-scale"
        )
    stretch = np.repeat(np.arange(len(width)), rng.poisson(expected))
    if not len(stretch):
        raise InvalidInput(field, "gives no requests", "use a larger --rate-scale")
    share = rng.random(len(stretch))
    # left*x + (right-left)*x^2/2 = share*(left+right)/2 for x in 0..1, in the form that is stable where left = right.
    from_rate, to_rate = left[stretch], right[stretch]
    root = np.sqrt(from_rate**2 + share * (to_rate**2 - from_rate**2))
    x = share * (from_rate + to_rate) / (from_rate + root)
    return np.sort(at[stretch] + x * width[stretch])


def lengths(
    means: NDArray[np.float64] | None,
    at_seconds: NDArray[np.float64],
    arrival_seconds: NDArray[np.float64],
    declared: float,
    variation: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Tokens of every request: log-normal around the series' mean at its time, else around the declared one.

    `variation` (>= 0) is the coefficient of variation: `sigma^2 = ln(1 + variation^2)` of the logarithm.
    """
    mean: NDArray[np.float64] | float = declared
    if means is not None:
        known = ~np.isnan(means)
        mean = np.interp(arrival_seconds, at_seconds[known], means[known])
    sigma = math.sqrt(math.log1p(variation**2))
    return mean * rng.lognormal(-(sigma**2) / 2, sigma, len(arrival_seconds))


def _rows(file: Path, field: str) -> Iterator[list[str]]:
    try:
        with opened(file) as lines:
            yield from csv.reader(lines)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(field, f"{file}: {reason}", "name a CSV file, plain or gzip") from error


def _number(row: list[str], column: int, where: str, field: str) -> float:
    text = _text(row, column)
    try:
        value = float(text)
    except ValueError:
        raise InvalidInput(field, f"{where}: {text!r} is no number", "correct it") from None
    if not (math.isfinite(value) and value >= 0):
        raise InvalidInput(field, f"{where}: {value:g} is negative or not finite", "use 0 or more")
    return value


def _text(row: list[str], column: int) -> str:
    return row[column].strip() if column < len(row) else ""
