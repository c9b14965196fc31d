"""A cell: one policy and tuning on one scenario, under one seed, cold start and error of the declared capacity."""

from __future__ import annotations

from dataclasses import dataclass

COLD_START_SECONDS = 180.0
TARGET_PERCENT = 99.0
"""Attainment that the SLA of every scenario asks for."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The conditions of one play. Two equal cells give the same figures while the code is the same."""

    scenario: str
    policy: str
    tuning: float | None = None
    """None: the policy has none."""
    seed: int = 1
    cold_start_seconds: float = COLD_START_SECONDS
    capacity_error_percent: int = 0
    """Error in what the policy assumes of a replica's capacity, over what is true."""
    days: int | None = None
    """Only so many days of a week; None: all there are."""
    asked_percent: float = TARGET_PERCENT
    """Attainment that is asked of those who can be asked: our policy, the causal bound and the clairvoyant."""
    standby: int = 0
    """Replicas that our policy keeps asleep (`scaling.standby`)."""

    @property
    def key(self) -> str:
        """The same for equal cells only."""
        tuning = "-" if self.tuning is None else f"{self.tuning:g}"
        days = "all" if self.days is None else f"{self.days}d"
        asked = "" if self.asked_percent == TARGET_PERCENT else f"/asked {self.asked_percent:g} %"
        standby = f"/standby {self.standby}" if self.standby else ""
        return (
            f"{self.scenario}/{days}/{self.policy}/{tuning}/seed {self.seed}/start {self.cold_start_seconds:g} s"
            f"/capacity {self.capacity_error_percent:+d} %{asked}{standby}"
        )
