"""Lines from plays: one for each scenario, policy, cold start and capacity error, over the seeds.

Of a peer only the best tuning makes a line, and of the others only what the SLA asks; the rest makes the fronts. What
keeps replicas on standby has a table of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from policies.cells import COLD_START_SECONDS, TARGET_PERCENT
from policies.contenders import CLAIRVOYANT, STATIC_PEAK
from policies.intervals import Interval, interval, over_percent
from policies.plan import asked_percent, best_tunings
from policies.results import Outcome
from policies.scenarios import SCENARIOS, Kind

_Variant = tuple[str, str, float, int]
"""Scenario, policy, cold start in seconds, capacity error in percent."""


@dataclass(frozen=True, slots=True)
class Line:
    """One policy on one scenario. `worst_hour_percent` is the lowest of the seeds, `scale_events` their mean."""

    scenario: str
    policy: str
    cold_start_seconds: float
    capacity_error_percent: int
    tuning: float | None
    attainment_percent: Interval
    windows_under_95_percent: Interval
    gpu_hours: Interval
    over_clairvoyant_percent: Interval | None
    """GPU-hours over those of the clairvoyant with the same seed and cold start."""
    scale_events: float
    worst_hour_percent: float
    seconds: float
    """Seconds of one core, for one play."""
    plays: tuple[Outcome, ...]
    """Plays by seed."""


class Summary:
    """All lines of a run."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        """`outcomes`: every play, those of every tuning included."""
        self.outcomes = tuple(outcomes)
        tunings = best_tunings(outcomes)
        groups: dict[_Variant, dict[int, Outcome]] = {}
        for outcome in outcomes:
            cell = outcome.cell
            if cell.asked_percent != TARGET_PERCENT or cell.standby:
                continue
            if cell.tuning is None or cell.tuning == tunings[cell.scenario, cell.policy]:
                variant = cell.scenario, cell.policy, cell.cold_start_seconds, cell.capacity_error_percent
                groups.setdefault(variant, {})[cell.seed] = outcome
        self._lines = {
            variant: _line(plays, groups.get((variant[0], CLAIRVOYANT, variant[2], 0), {}))
            for variant, plays in groups.items()
        }

    def line(
        self, scenario: str, policy: str, cold_start_seconds: float = COLD_START_SECONDS, capacity_error: int = 0
    ) -> Line | None:
        """One line; None where it was not played."""
        return self._lines.get((scenario, policy, cold_start_seconds, capacity_error))

    def lines(self, scenario: str, *, usual: bool) -> list[Line]:
        """Lines of a scenario under the usual cold start and the right capacity, or all others."""
        return [line for line in self._lines.values() if line.scenario == scenario and _is_usual(line) is usual]

    def scenarios(self, *kinds: Kind) -> list[str]:
        """Scenarios that were played, in the order of the plan."""
        played = {line.scenario for line in self._lines.values()}
        return [name for name, scenario in SCENARIOS.items() if name in played and scenario.kind in kinds]

    def ceiling_percent(self, scenario: str) -> float | None:
        """Attainment of the static fleet for the peak."""
        static = self.line(scenario, STATIC_PEAK)
        return None if static is None else static.attainment_percent.mean

    def asked_percent(self, scenario: str) -> float | None:
        """The attainment that the bar asks for; None where no static fleet was played."""
        ceiling = self.ceiling_percent(scenario)
        return None if ceiling is None else asked_percent(ceiling)

    def mean_over(self, scenarios: Iterable[str], policy: str) -> tuple[float, float] | None:
        """Attainment and GPU-hours over the clairvoyant, percent, mean over scenarios; None where one lacks it."""
        attained, over = [], []
        for scenario in scenarios:
            line = self.line(scenario, policy)
            if line is None or line.over_clairvoyant_percent is None:
                return None
            attained.append(line.attainment_percent.mean)
            over.append(line.over_clairvoyant_percent.mean)
        return (fmean(attained), fmean(over)) if attained else None

    def seconds_a_week(self, kind: Kind = Kind.WEEK) -> dict[str, float]:
        """The longest mean of a week trace of this kind, of every policy."""
        longest: dict[str, float] = {}
        for line in self._lines.values():
            if SCENARIOS[line.scenario].kind is kind:
                longest[line.policy] = max(longest.get(line.policy, 0.0), line.seconds)
        return longest


def _is_usual(line: Line) -> bool:
    return line.cold_start_seconds == COLD_START_SECONDS and not line.capacity_error_percent


def _line(plays: dict[int, Outcome], clairvoyant: dict[int, Outcome]) -> Line:
    ordered = tuple(plays[seed] for seed in sorted(plays))
    figures = [outcome.figures for outcome in ordered]
    cell = ordered[0].cell
    return Line(
        scenario=cell.scenario,
        policy=cell.policy,
        cold_start_seconds=cell.cold_start_seconds,
        capacity_error_percent=cell.capacity_error_percent,
        tuning=cell.tuning,
        attainment_percent=interval([f.attainment_percent for f in figures]),
        windows_under_95_percent=interval([f.windows_under_95_percent for f in figures]),
        gpu_hours=interval([f.gpu_hours for f in figures]),
        over_clairvoyant_percent=over_percent(_gpu_hours(plays), _gpu_hours(clairvoyant)),
        scale_events=fmean(f.scale_events for f in figures),
        worst_hour_percent=min(f.worst_hour_attainment_percent for f in figures),
        seconds=fmean(f.seconds for f in figures),
        plays=ordered,
    )


def _gpu_hours(plays: dict[int, Outcome]) -> dict[int, float]:
    return {seed: outcome.figures.gpu_hours for seed, outcome in plays.items()}
