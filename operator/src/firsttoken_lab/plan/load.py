"""Load of one week in quarters of an hour: of a trace, or of a day that is made of the declared average and peak.

The made day is a wave around its busiest moment: `average + (peak - average) * cos x` where the peak is at most twice
the average, else `peak * ((1 + cos x) / 2) ** k`. The mean of that is `peak * G(k + 1/2) / (sqrt(pi) * G(k + 1))` (G:
the gamma function), and k is the one for which that is the declared average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firsttoken_lab.plan.members import Member
from firsttoken_lab.replay.calendar import MONDAY_EPOCH_SECONDS
from firsttoken_lab.replay.series import header, read_series
from firsttoken_operator.api.schedule import DAY_SECONDS, scheduled_peak
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.simulation.requests import COLUMNS, read_trace

SLOT_SECONDS = 900
SLOTS = 7 * DAY_SECONDS // SLOT_SECONDS
BUSIEST_HOUR = 14
"""Hour of a made day, UTC."""
FIELD = "--trace"
_MINUTE = 60
_MINUTES = 7 * DAY_SECONDS // _MINUTE
_STEEPEST, _HALVINGS = 1e6, 60
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Traces:
    """Recorded weeks, each as the largest rate of every slot, requests a second, of shape (SLOTS,)."""

    common: Floats | None = None
    """One whose form is that of each deployment without a trace of its own."""
    own: Mapping[str, Floats] = field(default_factory=dict)
    """Those of one deployment, by its name or by namespace and name."""

    def of(self, member: Member) -> Floats | None:
        """The trace of one deployment alone; None: it has none."""
        found = self.own.get(member.uid)
        return self.own.get(member.resource.name) if found is None else found


def read_week(file: Path) -> Floats:
    """Read a trace of requests or of rates (CSV, plain or gzip) from a Monday on, 00:00 UTC.

    A shorter one is repeated, a longer one cut. The rate of a slot is that of its busiest minute. Raises `InvalidInput`
    that names file, line and column.
    """
    names = header(file, FIELD)
    if all(name in names for name in COLUMNS):
        arrivals = read_trace(file, cached_input_percent=0.0, field=FIELD).arrival_s
        minutes = np.bincount((arrivals // _MINUTE).astype(np.int64)) / _MINUTE
    else:
        series = read_series(file, FIELD)
        at, rate = series.at_seconds, series.requests_per_second
        minutes = np.interp(np.arange(0.0, at[-1] + 1e-9, _MINUTE), at, rate)
        np.maximum.at(minutes, (at // _MINUTE).astype(np.int64).clip(max=len(minutes) - 1), rate)
    if not minutes.max() > 0:
        raise InvalidInput(FIELD, f"{file} has no request", "give a trace with traffic")
    week: Floats = np.resize(minutes, _MINUTES).reshape(SLOTS, -1).max(axis=1)
    return week


def load_of(member: Member, traces: Traces, growth: float) -> Floats | None:
    """Rates of one deployment in each slot, requests a second; None: it always needs the size for its peak.

    Never less than the windows of its schedule that are open. A deployment of which only requests in flight or a job
    are declared has no rate.
    """
    workload = member.sizing.request.workload
    peak, average = workload.peak_requests_per_second, workload.average_requests_per_second
    own = traces.of(member)
    if own is not None:
        rates = own * growth
    elif peak is None:
        return None
    elif traces.common is not None:
        rates = traces.common * (peak / traces.common.max())
    elif average is None or average >= peak:
        rates = np.full(SLOTS, peak)
    else:
        rates = made_day(average, peak)
    if not member.schedule:
        return rates
    begins = MONDAY_EPOCH_SECONDS + SLOT_SECONDS * np.arange(SLOTS)
    # NB: a window that closes when a slot begins is not open in it.
    open_peaks = [scheduled_peak(member.schedule, float(at), SLOT_SECONDS - 1.0) or 0.0 for at in begins]
    return np.maximum(rates, open_peaks)


def made_day(average: float, peak: float) -> Floats:
    """A week of equal days with this mean and this highest rate, requests a second, of shape (SLOTS,)."""
    hours = np.arange(SLOTS // 7) * SLOT_SECONDS / 3600 - BUSIEST_HOUR
    wave = np.cos(2 * np.pi * hours / 24)
    if peak <= 2 * average:
        return np.tile(average + (peak - average) * wave, 7)
    low, high = 1.0, _STEEPEST
    for _ in range(_HALVINGS):
        steepness = math.sqrt(low * high)
        low, high = (steepness, high) if _mean_of_wave(steepness) > average / peak else (low, steepness)
    return np.tile(peak * ((1 + wave) / 2) ** steepness, 7)


def _mean_of_wave(steepness: float) -> float:
    """Mean of `((1 + cos x) / 2) ** steepness` over all x."""
    return math.exp(math.lgamma(steepness + 0.5) - math.lgamma(steepness + 1)) / math.sqrt(math.pi)
