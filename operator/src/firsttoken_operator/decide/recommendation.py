"""Judges whether another configuration than the pinned one is recommended."""

from __future__ import annotations

from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.request import Sizing


def recommended(
    best: Sizing, pinned: ConfigurationKey | None, gpus: int | None, cost_per_hour: float | None
) -> ConfigurationKey | None:
    """Return the best configuration where it costs less than the pinned one or, without prices, takes fewer GPUs.

    `gpus` and `cost_per_hour` are those of the pinned configuration; None: not known, or it has no size.
    """
    if not best.feasible or best.configuration == pinned:
        return None
    if gpus is None:
        return best.configuration
    cost = best.cost.per_hour if best.cost else None
    wins = cost < cost_per_hour if cost is not None and cost_per_hour is not None else best.gpus < gpus
    return best.configuration if wins else None
