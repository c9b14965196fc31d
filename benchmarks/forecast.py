"""Distance of the forecast from the load that then comes, beside persistence, on traces of a week or two.

    .venv/bin/python benchmarks/forecast.py [--traces ../shared/traces] [--dispersed] [--only NAME]

The points of a trace are joined by straight lines to the true rate; requests are drawn from it (Poisson, or with
`--dispersed` as over-dispersed as the traces are: variance-to-mean ratios of a minute's count about 15 at the published
rates) and counted as the operator sees them: every 15 s over the last 60 s. At each tick after the first two days
the largest true rate within the horizon is predicted. "raw": the rate of the last 60 s persists; "level": the filtered
rate persists; "forecast": what `decide.forecast` says, with how often it used which method, the share of its errors
within one and two of its own standard deviations (68 and 95 % where errors are normal) and the time of one observation
with one prediction. Errors are means of absolute errors, as a share of the mean rate. The traces are not part of the
project; where they are absent the script says so. Exits 0.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from firsttoken_operator.estimate import DEFAULT, ForecastState, Method, Observation, observe, predict

ROOT = Path(__file__).resolve().parent.parent
TICK_SECONDS = 15.0
WINDOW_SECONDS = 60.0
WARM_UP_SECONDS = 2 * 86400.0
HORIZONS_SECONDS = (195.0, 615.0)
START_EPOCH_SECONDS = 1715299200.0
"""2024-05-10 00:00 UTC, the first day of the Azure week; ServeGen does not publish its date."""
LONGEST_LINE_SECONDS = 1800.0
"""Points further apart are a gap: nothing is observed there."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RecordedSeries:
    """One series: its file, and what its rates are multiplied by."""

    name: str
    file: str
    factor: float
    published_dispersion: float


CASES = (
    RecordedSeries("conv week, mean 6.6", "azure2024_conv_week_series", 6.6 / 45.0, 15.0),
    RecordedSeries("conv week, mean 45", "azure2024_conv_week_series", 1.0, 15.0),
    RecordedSeries("m-large x 0.08", "servegen_m-large_series", 0.08, 15.0),
    RecordedSeries("m-small x 0.012", "servegen_m-small_series", 0.012, 15.0),
)


@dataclass(frozen=True, slots=True)
class Load:
    """The true rate at each tick, what was counted, and where there is data."""

    rate: Floats
    counted: Floats
    known: NDArray[np.bool_]


def load(case: RecordedSeries, folder: Path, *, dispersed: bool) -> Load:
    """The series of a case with one draw of its requests."""
    with gzip.open(folder / f"{case.file}.csv.gz", "rt") as file:
        points = [(float(row["t"]), float(row["rps"])) for row in csv.DictReader(file)]
    seconds = np.array([t for t, rate in points if rate > 0.0])
    rates = np.array([rate for _, rate in points if rate > 0.0]) * case.factor
    ticks = np.arange(seconds[0], seconds[-1], TICK_SECONDS)
    rate = np.interp(ticks, seconds, rates)
    after = np.clip(np.searchsorted(seconds, ticks, side="right"), 1, len(seconds) - 1)
    known = (seconds[after] - seconds[after - 1]) <= LONGEST_LINE_SECONDS
    random = np.random.default_rng(20240510)
    mean = rate * TICK_SECONDS
    per_window = round(WINDOW_SECONDS / TICK_SECONDS)
    if dispersed:
        beyond_poisson = case.factor * (case.published_dispersion - 1.0)
        minutes = len(ticks) // per_window + 1
        per_minute = np.maximum(rate[::per_window] * WINDOW_SECONDS, 1e-9)
        shape = per_minute / max(beyond_poisson, 1e-9)
        mean = mean * np.repeat(random.gamma(shape[:minutes]) / shape[:minutes], per_window)[: len(ticks)]
    counts = random.poisson(mean).astype(float)
    sums = np.concatenate([np.zeros(1), np.cumsum(counts)])
    counted = np.zeros(len(ticks))
    counted[per_window - 1 :] = (sums[per_window:] - sums[:-per_window]) / WINDOW_SECONDS
    known[: per_window - 1] = False
    return Load(rate, counted, known)


def largest_ahead(rate: Floats, horizon_seconds: float) -> Floats:
    """The largest true rate from each tick until the horizon; shorter than `rate` by the horizon."""
    width = round(horizon_seconds / TICK_SECONDS) + 1
    largest: Floats = np.lib.stride_tricks.sliding_window_view(rate, width).max(axis=1)
    return largest


@dataclass(frozen=True, slots=True)
class Run:
    """Mean absolute errors as shares of the mean rate, and what was used."""

    raw: float
    level: float
    forecast: float
    methods: Counter[Method]
    within_one: float
    within_two: float
    microseconds: float


def run(loaded: Load, horizon_seconds: float) -> Run:
    """One pass over a series."""
    truth = largest_ahead(loaded.rate, horizon_seconds)
    state: ForecastState | None = None
    methods: Counter[Method] = Counter()
    levels, peaks, deviations, at = [], [], [], []
    counted, known = loaded.counted.tolist(), loaded.known.tolist()
    began = time.process_time()
    for tick, rate in enumerate(counted[: len(truth)]):
        if not known[tick]:
            continue
        epoch = START_EPOCH_SECONDS + tick * TICK_SECONDS
        state = observe(state, Observation(epoch, rate, WINDOW_SECONDS, horizon_seconds), DEFAULT.forecast)
        said = predict(state, epoch, horizon_seconds, DEFAULT.forecast)
        if tick * TICK_SECONDS >= WARM_UP_SECONDS:
            methods[said.method] += 1
            levels.append(said.level_per_second)
            peaks.append(said.peak_per_second)
            deviations.append(said.deviation_per_second)
            at.append(tick)
    microseconds = (time.process_time() - began) / max(sum(known[: len(truth)]), 1) * 1e6
    true = truth[at]
    mean = float(np.mean(loaded.rate[at]))
    errors = np.abs(np.array(peaks) - true)
    return Run(
        raw=float(np.mean(np.abs(loaded.counted[at] - true))) / mean,
        level=float(np.mean(np.abs(np.array(levels) - true))) / mean,
        forecast=float(np.mean(errors)) / mean,
        methods=methods,
        within_one=float(np.mean(errors <= np.array(deviations))),
        within_two=float(np.mean(errors <= 2.0 * np.array(deviations))),
        microseconds=microseconds,
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="error of the forecast beside persistence")
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared/traces", help="folder of the series")
    parser.add_argument("--dispersed", action="store_true", help="requests more dispersed than Poisson")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    shown = Table(title="mean absolute error of the largest rate within the horizon, % of the mean rate")
    for heading in ("trace", "horizon", "raw", "level", "forecast", "used", "in 1, 2 sd", "us"):
        shown.add_column(heading)
    for case in CASES:
        if arguments.only not in case.name:
            continue
        if not (arguments.traces / f"{case.file}.csv.gz").is_file():
            print(f"--traces: {arguments.traces / case.file}.csv.gz does not exist; nothing measured", file=sys.stderr)
            continue
        loaded = load(case, arguments.traces, dispersed=arguments.dispersed)
        for horizon_seconds in HORIZONS_SECONDS:
            result = run(loaded, horizon_seconds)
            ticks = sum(result.methods.values())
            used = ", ".join(f"{name} {count / ticks:.0%}" for name, count in result.methods.most_common())
            shown.add_row(
                case.name,
                f"{horizon_seconds:.0f} s",
                *(f"{100.0 * error:.2f}" for error in (result.raw, result.level, result.forecast)),
                used,
                f"{result.within_one:.0%}, {result.within_two:.0%}",
                f"{result.microseconds:.0f}",
            )
    Console(width=140).print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
