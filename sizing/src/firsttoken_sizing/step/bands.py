"""Error bands: how much longer than the model says steps may take, so that nine of ten measurements lie inside.

Conformal prediction with normalized, signed residuals (Lei et al., J. Am. Stat. Assoc. 113, 2018; Romano, Patterson and
Candès, NeurIPS 2019, for the two sides apart). A kind of answers is what was known beforehand; the times of one lie
between

    exp(low * difficulty)    and    exp(high * difficulty)

times what the model says, low and high being quantiles over measurements that were left out, in `data/bands.json`, made
by `benchmarks/fit_bands.py`. A band of times is not one of requests a second: the capacity inside an SLA is what the
same limits leave when all steps take so much longer or shorter, so where a latency hardly rises with load its band is
wide (`optimize.error_band`). See Error bands in docs/design/sizing.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from firsttoken_sizing.band import Band
from firsttoken_sizing.parameters import PARAMETERS

FILE = "bands.json"


class Regime(StrEnum):
    """Knowledge behind an answer, from the surest to the least sure."""

    MEASURED = "Measured"
    """Measured at this very load. The band is the repeatability of that benchmark, not its accuracy for other traffic
    or for the next release."""
    OWN = "Own"
    """A fit of this configuration to other workloads. Difficulty: `difficulty_of_fit`."""
    SIBLING = "Sibling"
    """Physics and engine constants, which know other configurations of this model on this GPU."""
    GPU_KNOWN = "GPUKnown"
    """Physics and engine constants, which know the GPU, and the model on none or on another."""
    MODEL_KNOWN = "ModelKnown"
    """Physics and engine constants, which know the model, and not the GPU; or either, of a way to deploy it that was
    never measured (a pipeline, several servers, an optimization)."""
    PRIOR = "Prior"
    """Physics and engine constants, which know neither."""
    OTHER_RELEASE = "OtherRelease"
    """Physics and the constants of another release or engine, because none of this one was measured."""


class Banded(StrEnum):
    """Part of an answer that has a band of its own."""

    CAPACITY_IN_TTFT = "capacity inside a limit on TTFT"
    CAPACITY = "capacity inside a limit on ITL or E2E, or without one"
    TTFT = "mean TTFT"
    ITL = "mean ITL"
    END_TO_END = "mean E2E"
    TTFT_TAIL = "TTFT P95"
    ITL_TAIL = "ITL P95"
    END_TO_END_TAIL = "E2E P95"


MEAN_OF = {
    Banded.TTFT_TAIL: Banded.TTFT,
    Banded.ITL_TAIL: Banded.ITL,
    Banded.END_TO_END_TAIL: Banded.END_TO_END,
}
"""Mean of each percentile, whose band counts where no percentile of the kind was published."""


@dataclass(frozen=True, slots=True)
class AnswerKind:
    """Answers that share a band."""

    regime: Regime
    is_collected: bool = False
    """See `FittedStep`."""
    mixture_of_experts: bool = False


def times_of(kind: AnswerKind, quantity: Banded, difficulty: float = 1.0) -> Band:
    """Band of the times behind a quantity. `difficulty` (> 0) is what the regime names, and 1 where it names none.

    Where nothing of the kind was left out, its mean counts for a percentile, then answers that are harder to tell: of
    points that were collected, then of models without experts.
    """
    bands = _bands()
    collected, mixture = kind.is_collected, kind.mixture_of_experts
    kinds = ((collected, mixture), (True, mixture), (collected, False), (True, False), (False, False))
    quantities = (quantity, MEAN_OF.get(quantity, quantity))
    keys = ((kind.regime, each, *pair) for pair in kinds for each in quantities)
    low, high = next(bands[key] for key in keys if key in bands)
    return Band(math.exp(low * difficulty), math.exp(high * difficulty))


def difficulty_of_fit(median_error_percent: float, spread: float) -> float:
    """Difficulty of an answer by a fit: how far its own points scatter around it, and fits without one workload.

    `median_error_percent`: of the points that were fitted; `spread`: see there.
    """
    parameters = PARAMETERS.bands
    return parameters.easiest + math.hypot(parameters.own_error_weight * median_error_percent / 100, spread)


def spread(requests_per_second: float, without_one: Sequence[float]) -> float:
    """Distance of fits that miss one workload each from the whole fit: root mean square of log ratios.

    The jackknife. `requests_per_second` is the whole fit's answer, `without_one` those of fits without one of the
    measured workloads each, for the same lengths and load; where only one was measured, what remains without it is the
    prior. All positive. Raises `ValueError` for an empty sequence.
    """
    if not without_one:
        raise ValueError("the spread needs a fit without one of the workloads")
    squares = (math.log(other / requests_per_second) ** 2 for other in without_one)
    return math.sqrt(sum(squares) / len(without_one))


def prior_regime(
    *, calibrated: bool, like_measured: bool, knows_both: bool, knows_model: bool, knows_gpu: bool
) -> Regime:
    """The regime of an answer by physics, by what the engine's constants were fitted to.

    `calibrated`: anything of this release of the engine; `knows_both`: some configuration of this model on this GPU;
    `knows_model`, `knows_gpu`: of the model, of the GPU; `like_measured`: differs from what was measured in TP and
    precision only.
    """
    if not calibrated:
        return Regime.OTHER_RELEASE
    if like_measured and knows_gpu:
        return Regime.SIBLING if knows_both else Regime.GPU_KNOWN
    return Regime.MODEL_KNOWN if knows_model or knows_gpu else Regime.PRIOR


@cache
def _bands() -> Mapping[tuple[Regime, Banded, bool, bool], tuple[float, float]]:
    """Low and high quantile of score, by regime, quantity, whether points were collected and experts are mixed."""
    text = files("firsttoken_sizing.step").joinpath("data", FILE).read_text(encoding="utf-8")
    return {
        (
            Regime(entry["regime"]),
            Banded(entry["quantity"]),
            entry["collected"],
            entry["mixtureOfExperts"],
        ): (entry["low"], entry["high"])
        for entry in json.loads(text)["bands"]
    }
