"""Fit the constants of one engine to measurements of many configurations at once.

Nine constants (`step.calibration.Calibration`) turn the physics of a configuration into step times. Each is a base of
the engine times a factor for every group that the configuration belongs to (`groups_of`). Logarithms are fitted: bases
drawn to where engines are known to be, factors to 1, so that a group says only as much as its points do, and a
configuration without measurements has what its groups have in common.

A time is linear in the nine constants wherever it is a sum of step times (`cost`), whatever the workload. It knows no
file and no engine; what belongs in `calibrations.json` comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.step.calibration import Calibration
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.prior import StepWork

START = {
    "step_seconds": 1e-3,
    "layer_seconds": 6e-5,
    "sequence_seconds": 1.5e-5,
    "weight_read": 1.05,
    "kv_read": 1.4,
    "decode": 2.0,
    "prefill": 1.6,
    "attention": 2.0,
    "all_reduce": 1.8,
}
"""Start of a fit, and what it is drawn to: engines of 2024 and 2025 (docs/design/sizing.md: launches 52 to 115 us a
layer, 14 us a sequence, 0.96 of the bandwidth for weights...). Constants that are not named stay at zero."""
BASE_SPREAD, _FACTOR_SPREAD = 0.25, 0.2
"""Standard deviation (natural logarithm) of a constant around the start, and of a factor around 1, for points that are
10 % apart from the model. One choice for all engines, made among a few by the rows about aic_silicon_agg.csv
themselves. With one of them halved or doubled, their medians for dense models stay between 3.4 and 8.1 %, and the means
below their goals but in one case (factors twice as free: SGLang 20)."""
_RESIDUAL_SPREAD = 0.1
"""Relative error of a point that counts as one standard deviation; larger ones count less than quadratically."""
_LONGEST_STEP, _MOST_STEPS, _CONVERGED = 0.7, 30, 1e-4

Entry = dict[str, dict[str, float] | dict[str, dict[str, float]]]
"""`base` and `factors` of an engine, as in the file of calibrations."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured time: what it costs of each constant, the groups it belongs to, and the seconds."""

    cost: NDArray[np.float64]
    groups: tuple[str, ...]
    seconds: float
    least: NDArray[np.float64] | None = None
    """Floors of the constants (`step.floor`), in the same order; None: there are none."""


def cost(work: StepWork, seconds_of: Callable[[StepModel], float]) -> NDArray[np.float64]:
    """Parts of a time by each of the nine constants; `seconds_of` must be linear in the times of the step model."""
    costs = []
    for term in START:
        alone = Calibration(**{name: float(name == term) for name in START})
        costs.append(seconds_of(work.step(alone)))
    return np.array(costs)


def fit(
    observations: Sequence[Observation], start: Mapping[str, float] = START, base_spread: float = BASE_SPREAD
) -> Entry:
    """Bases and factors by damped Gauss-Newton steps on the logarithm of the times. Deterministic.

    `start` names the constants that the engine has; costs must be in its order.
    """
    costs = np.array([o.cost for o in observations])
    measured = np.log([o.seconds for o in observations])
    least = np.array([np.zeros(len(start)) if o.least is None else o.least for o in observations])
    names = sorted({group for o in observations for group in o.groups})
    member = np.array([[1.0, *(name in o.groups for name in names)] for o in observations])
    drawn_to = np.zeros((1 + len(names), len(start)))
    drawn_to[0] = np.log(list(start.values()))
    pull = np.full(drawn_to.shape, (_RESIDUAL_SPREAD / _FACTOR_SPREAD) ** 2)
    pull[0] = (_RESIDUAL_SPREAD / base_spread) ** 2
    logs = drawn_to.copy()
    for _ in range(_MOST_STEPS):
        values = np.exp(member @ logs)
        parts = costs * np.maximum(values, least)
        predicted = parts.sum(axis=1)
        residuals = measured - np.log(predicted)
        weights = np.sqrt(_RESIDUAL_SPREAD / np.maximum(np.abs(residuals), _RESIDUAL_SPREAD))
        # NB: also at the floor, where nothing moves: else the pull alone would lift a constant off it again.
        slopes = (member[:, :, None] * (parts / predicted[:, None])[:, None, :]).reshape(len(measured), -1)
        weighted = slopes * weights[:, None]
        curvature = weighted.T @ weighted + np.diag(pull.ravel())
        gradient = weighted.T @ (residuals * weights) - (pull * (logs - drawn_to)).ravel()
        step = np.clip(np.linalg.solve(curvature, gradient), -_LONGEST_STEP, _LONGEST_STEP)
        logs += step.reshape(logs.shape)
        if np.abs(step).max() < _CONVERGED:
            break
    base, factors = np.exp(logs[0]), np.exp(logs[1:])
    return {
        "base": dict(zip(start, map(float, base), strict=True)),
        "factors": {
            name: dict(zip(start, map(float, row), strict=True)) for name, row in zip(names, factors, strict=True)
        },
    }
