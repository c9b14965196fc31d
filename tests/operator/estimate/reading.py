"""Calibrations read with the constants that ship."""

from __future__ import annotations

from firsttoken_operator.estimate import DEFAULT, Calibration, budget_consumption, capacity_factor, speed_of
from firsttoken_operator.estimate.error_budget import utilization_limit, window_multiplier
from firsttoken_sizing.workload import Sla
from tests.operator.decide.builders import SLA

WAIT_SECONDS = DEFAULT.tail_capacity.speed_wait_seconds
"""Wait of the tail capacity for the speed of replicas."""


def factor(known: Calibration) -> float:
    """The corrected capacity as a share of the sized one."""
    return capacity_factor(known, DEFAULT)


def speed(known: Calibration) -> float:
    """Speed of a replica, in modeled ones."""
    return speed_of(known, DEFAULT)


def consumed(known: Calibration, sla: Sla = SLA) -> float:
    """Error budgets."""
    return budget_consumption(known, sla, DEFAULT)


def windows(known: Calibration, sla: Sla = SLA) -> float:
    """Stabilization windows that a size is kept."""
    return window_multiplier(consumed(known, sla), DEFAULT.error_budget)


def used(known: Calibration, sla: Sla = SLA) -> float:
    """Share of the capacity that is used."""
    return utilization_limit(consumed(known, sla), DEFAULT.error_budget)
