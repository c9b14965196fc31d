"""Width of an answer's error band: what nine of ten answers of its kind were off by, scaled to how hard it is.

Split conformal prediction with normalized residuals (Lei et al., J. Am. Stat. Assoc. 113, 2018; Papadopoulos et al.,
ECML 2002). A regime is how an answer came about; the band is

    half-width = factor of the regime * (difficulty + 1.25 %)

and the factor the conformal quantile of `error / (difficulty + 1.25 %)` over points that were held out, in
`data/bands.json`, made by `benchmarks/fit_bands.py`. Bands are of the requests a second of one replica in a closed
loop. Other errors (of the Poisson model, of a forecast) are for the caller to add. See Error bands in
docs/design/sizing.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files

from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.profile import Point

FILE = "bands.json"
_PERCENT = 100.0


class Regime(StrEnum):
    """Origin of an answer, from the surest to the least sure."""

    MEASURED = "Measured"
    """Measured at this very load. The band says that the point can be repeated, not that the next release gives it."""
    INTERPOLATED = "Interpolated"
    """Between two measured loads of the same lengths. Difficulty: `bend_percent`."""
    FITTED = "Fitted"
    """A fit of this configuration, near lengths that were measured. Difficulty: `spread_percent`."""
    EXTRAPOLATED = "Extrapolated"
    """A fit of this configuration, away from them. Difficulty: `spread_percent`."""
    ONE_WORKLOAD = "OneWorkload"
    """A fit to points of one workload only, away from its lengths. Difficulty: `spread_percent`."""
    SIBLING = "Sibling"
    """Physics and engine constants, which know other configurations of this model on this GPU. No difficulty."""
    RELATED = "Related"
    """Physics and engine constants, which know the model or the GPU. No difficulty."""
    PRIOR = "Prior"
    """Physics and engine constants, which know neither. No difficulty."""


def band_percent(
    regime: Regime, difficulty_percent: float = 0.0, *, is_collected: bool = False, mixture_of_experts: bool = False
) -> float:
    """Half-width of the band in percent of the requests a second; nine of ten held-out points lie inside.

    `difficulty_percent` (>= 0) is what the regime names. `is_collected`: see `FittedStep`. A mixture of experts, which
    was only collected, differs where nothing was measured near; there it is harder to tell.
    """
    bands = _bands()
    kinds = ((is_collected, mixture_of_experts), (True, mixture_of_experts), (is_collected, False), (False, False))
    factor = next(bands[regime, kind] for kind in kinds if (regime, kind) in bands)
    return factor * (difficulty_percent + PARAMETERS.bands.easiest_percent)


def spread_percent(requests_per_second: float, without_one: Sequence[float]) -> float:
    """Distance of fits that miss one workload each from the whole fit (root mean square of log ratios), in percent.

    The jackknife. `requests_per_second` is the whole fit's answer, `without_one` those of fits without one of the
    measured workloads each, for the same lengths and load; where only one was measured, what remains without it is the
    prior. All positive. Raises `ValueError` for an empty sequence.
    """
    if not without_one:
        raise ValueError("the spread needs a fit without one of the workloads")
    squares = (math.log(other / requests_per_second) ** 2 for other in without_one)
    return _PERCENT * math.sqrt(sum(squares) / len(without_one))


def bend_percent(below: Point, above: Point) -> float:
    """Error of a straight line in logarithms between two points of a closed loop, in percent.

    A round of `c` requests takes `a + b*c`, so the slope s of `log X` over `log c` falls by `s*(1-s)` for each `log c`:
    not at all where throughput follows concurrency (s = 1) or has stopped to (s = 0). Both points need their
    concurrency and a positive throughput.
    """
    if not below.concurrency or not above.concurrency:
        raise ValueError("points of a closed loop have a concurrency")
    gap = math.log(above.concurrency / below.concurrency)
    if gap <= 0:
        return 0.0
    slope = min(1.0, max(0.0, math.log(above.requests_per_second / below.requests_per_second) / gap))
    return _PERCENT * gap * slope * (1 - slope) / 4


def prior_regime(*, knows_both: bool, knows_one: bool) -> Regime:
    """The regime of an answer by physics, by what the engine's constants were fitted to.

    `knows_both`: some configuration of this model on this GPU; `knows_one`: of the model or of the GPU.
    """
    if knows_both:
        return Regime.SIBLING
    return Regime.RELATED if knows_one else Regime.PRIOR


@cache
def _bands() -> Mapping[tuple[Regime, tuple[bool, bool]], float]:
    """Half-width over (difficulty + 1.25 %), by regime and whether points were collected and experts are mixed."""
    text = files("firsttoken_sizing.step").joinpath("data", FILE).read_text(encoding="utf-8")
    return {
        (Regime(entry["regime"]), (entry["collected"], entry["mixtureOfExperts"])): entry["factor"]
        for entry in json.loads(text)["bands"]
    }
