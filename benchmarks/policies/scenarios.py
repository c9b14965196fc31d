"""Scenarios: recorded weeks, for small fleets and for large ones, recorded hours, and episodes made up here.

A replica of 4 H100 answers about 3 requests a second, so the recorded weeks at their own rates would be a hundred
million requests. Rates are scaled to what can be simulated, and lengths are scaled up with it, so that the fleet does
not shrink to one replica. Both factors are in the output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from policies.episodes import EPISODES, Episode

DAY_SECONDS = 86400.0


class Kind(StrEnum):
    """Kind of a scenario, on which depends what the bar asks of it."""

    WEEK = "week"
    FLEET = "large fleet"
    """A week again, at rates for about 50 replicas at the peak."""
    HOUR = "hour"
    EPISODE = "episode"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One traffic. A week is a series of rates, an hour a file of requests, an episode is made in code."""

    name: str
    kind: Kind
    file: str = ""
    """Name in the folder of traces; an episode has none."""
    rate_scale: float = 1.0
    input_scale: float = 1.0
    output_scale: float = 1.0
    """Multiply the lengths of a series."""
    lengths: tuple[float, float] | None = None
    """Mean input and output tokens of a series that has none."""
    length_variation: float = 0.8
    """Coefficient of variation of the lengths that are made (log-normal)."""
    first_day: int = 0
    days: int = 0
    """Days of a series. Its first day warms up and is not scored."""
    episode: Episode | None = None

    @property
    def is_week(self) -> bool:
        """True for a recorded week, whatever the size of its fleet."""
        return self.kind in (Kind.WEEK, Kind.FLEET)

    @property
    def warm_up_seconds(self) -> float:
        """Not scored."""
        return DAY_SECONDS if self.is_week else 0.0

    @property
    def scaling(self) -> str:
        """The factors, for the output."""
        parts = [] if self.kind is Kind.EPISODE else [f"rates x {self.rate_scale:g}"]
        if (self.input_scale, self.output_scale) != (1.0, 1.0):
            parts.append(f"lengths x {self.input_scale:g} and x {self.output_scale:g}")
        if self.lengths is not None:
            parts.append(f"{self.lengths[0]:g} input and {self.lengths[1]:g} output tokens")
        if self.is_week:
            parts.append(f"days {self.first_day + 1} to {self.first_day + self.days}")
        return ", ".join(parts)


WEEKS = (
    Scenario(
        "conv-week",
        Kind.WEEK,
        "azure2024_conv_week_series.csv.gz",
        rate_scale=0.146,
        lengths=(3000, 600),
        days=7,
    ),
    Scenario(
        "m-large",
        Kind.WEEK,
        "servegen_m-large_series.csv.gz",
        rate_scale=0.027,
        input_scale=3,
        output_scale=5,
        days=8,
    ),
    # The flash spikes come after day 9.
    Scenario(
        "m-small",
        Kind.WEEK,
        "servegen_m-small_series.csv.gz",
        rate_scale=0.0045,
        input_scale=24,
        output_scale=40,
        first_day=6,
        days=8,
    ),
)
FLEETS = tuple(
    replace(week, name=f"{week.name}-50", kind=Kind.FLEET, rate_scale=rate_scale)
    for week, rate_scale in zip(WEEKS, (1.3, 0.16, 0.03), strict=True)
)
HOURS = (
    Scenario("code", Kind.HOUR, "azure2023_code.csv.gz"),
    Scenario("mooncake", Kind.HOUR, "mooncake_conversation.csv.gz"),
    Scenario("m-large-6h", Kind.HOUR, "servegen_m-large_6h_thin10_regen.csv.gz"),
)
MADE = tuple(Scenario(episode.name, Kind.EPISODE, lengths=(2000, 300), episode=episode) for episode in EPISODES)
SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in (*WEEKS, *FLEETS, *HOURS, *MADE)}
