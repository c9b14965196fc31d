"""Deployments of several sizes, each with a part of a recorded week, their busiest hours some hours apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from firsttoken_lab.replay.compare import scene_of
from firsttoken_lab.replay.score import HOUR_SECONDS, target_percent
from firsttoken_lab.replay.series import Series
from firsttoken_lab.replay.setting import Setting
from firsttoken_lab.replay.together import Sharer
from firsttoken_lab.replay.traffic import Shaping, made_of
from policies.cells import COLD_START_SECONDS
from policies.scenarios import WEEKS, Scenario
from policies.traffic import declared, series_of, sized

FROM_HOUR = 6.0
"""Hour of the day with which what is judged begins."""
WARM_UP_HOURS = 0.5
SIZES = (0.25, 0.5, 1.0, 2.0)
"""Rates of the deployments, of those that the policies are judged at: from a replica or two to a dozen."""


class WeekTooShort(ValueError):
    """Lack of hours in a recorded week: the message says which were asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """The deployments. All replicas are of `gpus_per_replica` GPUs."""

    sharers: tuple[Sharer, ...]
    hours: float
    """Those that are judged and paid for."""
    gpus_per_replica: int
    warm_up_seconds: float = 0.0
    """Played before them: each learns meanwhile what a replica does, and begins with the replicas that it wants."""

    @property
    def peak_replicas(self) -> tuple[int, ...]:
        """Replicas for the declared peak of each."""
        return tuple(max(1, s.sized.replicas_for_declared_peak) for s in self.sharers)

    @property
    def peak_gpus(self) -> int:
        """GPUs of all declared peaks at once."""
        return sum(self.peak_replicas) * self.gpus_per_replica

    @property
    def requests(self) -> int:
        """Requests of all of them, the warm-up's left out."""
        return sum(int((s.requests.arrival_s >= self.warm_up_seconds).sum()) for s in self.sharers)

    @property
    def asked_percent(self) -> float:
        """Attainment that their SLA asks for."""
        return target_percent(self.sharers[0].sized.sla)


def fleet_of(
    traces: Path,
    deployments: int,
    hours: float,
    hours_apart: float,
    seed: int,
    *,
    day: int = 1,
    rate_scale: float = 1.0,
) -> Fleet:
    """Make the fleet; the same arguments give the same one. `day`: the one that it begins with, 1 is the first.

    The weeks and the sizes take turns; the hour with which each begins is drawn. Raises `WeekTooShort` where a week
    has not so many.
    """
    rng = np.random.default_rng(seed)
    sharers, gpus = [], set[int]()
    for number in range(deployments):
        week, factor = WEEKS[number % len(WEEKS)], rate_scale * SIZES[number // len(WEEKS) % len(SIZES)]
        scenario = replace(week, rate_scale=week.rate_scale * factor)
        begin = (24 * (day - 1) + FROM_HOUR + rng.uniform(0, hours_apart)) * HOUR_SECONDS
        series = cut(series_of(scenario, traces), begin - WARM_UP_HOURS * HOUR_SECONDS, begin + hours * HOUR_SECONDS)
        setting = sized(declared(scenario, traces))
        gpus.add(setting.sized.configuration.gpus_per_replica)
        sharers.append(_sharer(f"{week.name}-{number + 1}", setting, series, scenario, seed + number))
    (each,) = gpus
    return Fleet(tuple(sharers), hours, each, WARM_UP_HOURS * HOUR_SECONDS)


def cut(series: Series, begin: float, end: float) -> Series:
    """The series from second `begin` to `end`, counted from there; its ends are on the line between its points.

    Raises `WeekTooShort` where it is not as long.
    """
    at = series.at_seconds
    if not at[0] <= begin < end <= at[-1]:
        begin_hour, end_hour, last_hour = (seconds / HOUR_SECONDS for seconds in (begin, end, at[-1]))
        raise WeekTooShort(
            f"hours {begin_hour:g} to {end_hour:g} are asked for, and a week has {last_hour:g};"
            " ask for fewer --hours or less --apart"
        )
    kept = np.concatenate(([begin], at[(at > begin) & (at < end)], [end]))

    def values(column: np.ndarray | None) -> np.ndarray | None:
        return None if column is None else np.interp(kept, at, column)

    rates = np.interp(kept, at, series.requests_per_second)
    return replace(
        series,
        at_seconds=kept - begin,
        requests_per_second=rates,
        mean_input_tokens=values(series.mean_input_tokens),
        mean_output_tokens=values(series.mean_output_tokens),
        start_epoch_seconds=None if series.start_epoch_seconds is None else series.start_epoch_seconds + begin,
    )


def _sharer(uid: str, setting: Setting, series: Series, scenario: Scenario, seed: int) -> Sharer:
    shaping = Shaping(scenario.rate_scale, scenario.length_variation, setting.longest_tokens, seed)
    scene = scene_of(made_of(series, uid, setting.subject.lengths, shaping), setting, COLD_START_SECONDS, seed)
    first = scenario.rate_scale * float(series.requests_per_second[0])
    return Sharer(
        uid=uid,
        namespace=uid,
        sized=setting.sized,
        policy=setting.policy,
        requests=scene.traffic.requests,
        stage=scene.stage,
        initial=max(1, setting.sized.table.replicas_for(first)),
    )
