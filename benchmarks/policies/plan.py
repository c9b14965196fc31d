"""Plan of the cells that are played: all of what the bar names, and of the rest as much as an hour on two cores allows.

The peers are tuned on seed 1, by the whole trace, in hindsight; only the best one plays the other seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from policies.cells import TARGET_PERCENT, Cell
from policies.contenders import ASKED, CLAIRVOYANT, NAMES, STATIC_PEAK, TUNING_PARAMETERS
from policies.fingerprint import CAUSAL, OURS
from policies.results import Outcome
from policies.scenarios import SCENARIOS, Kind

FIRST_SEED = 1
SEEDS_OF_OURS, SEEDS_OF_OTHERS, SEEDS_OF_VARIANTS = (1, 2, 3, 4, 5), (1, 2, 3), (1, 2)
OTHER_STARTS = (60.0, 600.0)
CAPACITY_ERRORS = (-30, 30)
QUICK_SCENARIOS = ("conv-week", "code", "mooncake")
QUICK_DAYS = 2
MORE_ASKED_PERCENT = (98.0, 99.5, 99.9)
"""Asked beside what the SLA asks, for the fronts; less, too, because our law attains more than it is asked for."""
STANDBY = (1, 2)
"""Replicas that ours keeps asleep beside none."""
REACHABLE_PERCENT = 99.5
"""Attainment of a static fleet for the peak, from which on the target is asked for; else to be within a point of it."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of what is played."""

    scenarios: tuple[str, ...] = tuple(SCENARIOS)
    policies: tuple[str, ...] = NAMES
    seeds: tuple[int, ...] | None = None
    """None: as many as the policy gets."""
    days: int | None = None
    quick: bool = False
    """Two values of each tuning parameter, one seed, no variants."""

    def seeds_of(self, policy: str, kind: Kind) -> tuple[int, ...]:
        """Seeds of the plays under the usual cold start and the right capacity."""
        if self.seeds is not None:
            return self.seeds
        if self.quick or kind is Kind.FLEET or policy == CAUSAL:
            return (FIRST_SEED,)
        return SEEDS_OF_OURS if policy == OURS and kind is Kind.WEEK else SEEDS_OF_OTHERS

    def days_of(self, kind: Kind) -> int | None:
        """Only weeks are shortened, so that the other plays are the same ones in every run."""
        return self.days if kind in (Kind.WEEK, Kind.FLEET) else None


def first_cells(extent: Extent) -> list[Cell]:
    """All that depends on no tuning: ours and the references on every seed, the peers at every value on one."""
    cells: list[Cell] = []
    for scenario in extent.scenarios:
        kind = SCENARIOS[scenario].kind
        days = extent.days_of(kind)
        for policy in extent.policies:
            seeds = extent.seeds_of(policy, kind)
            if policy in TUNING_PARAMETERS:
                parameter = TUNING_PARAMETERS[policy]
                cells += [
                    Cell(scenario, policy, value, seeds[0], days=days)
                    for value in (parameter.quick if extent.quick else parameter.values)
                ]
                continue
            if policy == CAUSAL and not SCENARIOS[scenario].is_week:
                continue  # An hour has no past to learn from.
            cells += [Cell(scenario, policy, seed=seed, days=days) for seed in seeds]
            if extent.quick:
                continue
            if kind is Kind.WEEK and extent.seeds is None:
                cells += _variants(scenario, policy, days)
            if policy == OURS and kind is not Kind.FLEET:
                cells += _standby(scenario, kind, seeds[0], days)
            if SCENARIOS[scenario].is_week and policy in ASKED:
                cells += [
                    Cell(scenario, policy, seed=seeds[0], days=days, asked_percent=asked)
                    for asked in MORE_ASKED_PERCENT
                ]
    return cells


def _variants(scenario: str, policy: str, days: int | None) -> Iterator[Cell]:
    """Other cold starts, for ours and for those that know more; a wrong capacity, for ours."""
    if policy not in (OURS, CAUSAL, CLAIRVOYANT):
        return
    seeds = SEEDS_OF_VARIANTS if policy == OURS else (FIRST_SEED,)
    for seed in seeds:
        for start in OTHER_STARTS:
            yield Cell(scenario, policy, seed=seed, cold_start_seconds=start, days=days)
        if policy == OURS:
            for error in CAPACITY_ERRORS:
                yield Cell(scenario, policy, seed=seed, capacity_error_percent=error, days=days)


def _standby(scenario: str, kind: Kind, seed: int, days: int | None) -> Iterator[Cell]:
    """Ours with replicas asleep, and of a week also where a start takes longest: there a wake-up saves most."""
    for standby in STANDBY:
        yield Cell(scenario, OURS, seed=seed, days=days, standby=standby)
    if kind is Kind.WEEK:
        start = max(OTHER_STARTS)
        yield Cell(scenario, OURS, seed=seed, cold_start_seconds=start, days=days, standby=min(STANDBY))


def asked_percent(static_peak_percent: float) -> float:
    """The attainment that the bar asks for where the static fleet reaches this."""
    return TARGET_PERCENT if static_peak_percent >= REACHABLE_PERCENT else min(TARGET_PERCENT, static_peak_percent - 1)


def best_tuning(outcomes: Sequence[Outcome], asked: float) -> Outcome:
    """Choose in hindsight: the fewest GPU-hours among those that reach what is asked, else the highest attainment."""
    reaching = [outcome for outcome in outcomes if outcome.figures.attainment_percent >= asked]
    if reaching:
        return min(reaching, key=lambda outcome: outcome.figures.gpu_hours)
    return max(outcomes, key=lambda outcome: (outcome.figures.attainment_percent, -outcome.figures.gpu_hours))


def best_tunings(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], float]:
    """The peers' best tuning by scenario and policy, from the first seed that was played of each."""
    tried: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.cell.tuning is not None:
            tried.setdefault((outcome.cell.scenario, outcome.cell.policy), []).append(outcome)
    ceilings = {
        outcome.cell.scenario: outcome.figures.attainment_percent
        for outcome in reversed(outcomes)
        if outcome.cell.policy == STATIC_PEAK
    }
    best = {}
    for (scenario, policy), those in tried.items():
        seed = min(outcome.cell.seed for outcome in those)
        asked = asked_percent(ceilings[scenario]) if scenario in ceilings else TARGET_PERCENT
        chosen = best_tuning([outcome for outcome in those if outcome.cell.seed == seed], asked)
        assert chosen.cell.tuning is not None
        best[scenario, policy] = chosen.cell.tuning
    return best


def later_cells(extent: Extent, tunings: Mapping[tuple[str, str], float]) -> list[Cell]:
    """The peers at their best tuning on the other seeds."""
    return [
        Cell(scenario, policy, tuning, seed, days=extent.days_of(SCENARIOS[scenario].kind))
        for (scenario, policy), tuning in tunings.items()
        for seed in extent.seeds_of(policy, SCENARIOS[scenario].kind)[1:]
    ]
