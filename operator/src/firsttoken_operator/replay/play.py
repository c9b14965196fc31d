"""One policy under one traffic: the fleet is simulated from tick to tick, and the policy looks and asks in between.

GPU time is billed up to the last arrival. What is in the fleet then is still answered, so that a late answer counts as
late and not as none, but no policy looks any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from firsttoken_operator.replay.gateway import FleetGateway
from firsttoken_operator.replay.policies.view import Policy, View
from firsttoken_operator.replay.replicas import ColdStart, Replicas
from firsttoken_operator.replay.scrape import Scraper
from firsttoken_sizing.simulation.fleet import Fleet, Settings
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Percentile

SCRAPE_SECONDS = 15.0
WINDOW_SECONDS = 60.0
"""Rate window: four scrapes."""
_SECONDS_A_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a policy plays: the replicas' physics and what is known of them. The same for every policy."""

    step: StepModel
    settings: Settings
    """Of the fleet; its `replicas` are the most that may live at one time, draining ones included."""
    cold_start: ColdStart = field(default_factory=lambda: ColdStart(180.0))
    scrape_lag_seconds: float = 5.0
    """How old the newest sample is when a policy looks; less than the interval of scrapes."""
    percentile: Percentile = Percentile.P95
    """Of the TTFT limit."""
    failures_per_day: float = 0.0
    """How often one replica dies, on average."""
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.scrape_lag_seconds < SCRAPE_SECONDS:
            raise ValueError(f"scrape_lag_seconds is in [0, {SCRAPE_SECONDS:g}), not {self.scrape_lag_seconds}")


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """The fleet over time: one entry a scrape in each array, the first at 0, the last at the end."""

    at_seconds: NDArray[np.float64]
    asked: NDArray[np.int64]
    """`spec.replicas`."""
    ready: NDArray[np.int64]
    living: NDArray[np.int64]
    """Starting, ready and draining: what is billed."""
    replica_seconds: NDArray[np.float64]
    """Billed since the beginning."""


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What became of the requests and the fleet. Arrays have one entry a request; NaN: never answered."""

    policy: str
    arrival_seconds: NDArray[np.float64]
    ttft_seconds: NDArray[np.float64]
    end_to_end_seconds: NDArray[np.float64]
    output_tokens: NDArray[np.int64]
    replica_seconds: float
    changes: tuple[tuple[float, int], ...]
    """When the policy asked for how many replicas, the first at 0."""
    course: Course


def play(policy: Policy, requests: Requests, stage: Stage) -> Played:
    """Play to the last arrival, then let the fleet answer what it has. The same arguments give the same result."""
    fleet = Fleet(stage.step, requests, stage.settings)
    starts, deaths = (np.random.default_rng(seed) for seed in np.random.SeedSequence(stage.seed).spawn(2))
    replicas = Replicas(fleet, stage.cold_start, starts)
    scraper = Scraper(fleet, stage.settings.kv_cache_tokens, WINDOW_SECONDS)
    gateway = FleetGateway(fleet)
    replicas.begin(policy.initial())
    changes, course = [(0.0, replicas.asked)], [_moment(0.0, replicas)]
    end = float(requests.arrival_s[-1])
    death_probability = stage.failures_per_day * SCRAPE_SECONDS / _SECONDS_A_DAY
    next_scrape = SCRAPE_SECONDS - stage.scrape_lag_seconds
    next_look = policy.interval_seconds
    while min(next_scrape, next_look) <= end:
        if next_scrape <= next_look:
            replicas.advance(next_scrape)
            if death_probability:
                replicas.fail(death_probability, deaths)
            scraper.scrape(next_scrape, replicas.serving_slots)
            course.append(_moment(next_scrape, replicas))
            next_scrape += SCRAPE_SECONDS
            continue
        # What a policy sees of the requests is as old as the last scrape: they are simulated further when it acts.
        replicas.look(next_look)
        before = replicas.asked
        replicas.scale(policy.desired(_view(next_look, replicas, scraper, gateway, stage.percentile)), next_look)
        if replicas.asked != before:
            changes.append((next_look, replicas.asked))
        next_look += policy.interval_seconds
    replicas.advance(end)
    course.append(_moment(end, replicas))
    billed = replicas.billed_replica_seconds()
    replicas.finish()
    work = fleet.requests
    answered = work.first_token > 0
    return Played(
        policy=policy.name,
        arrival_seconds=requests.arrival_s,
        ttft_seconds=np.where(answered, work.first_token - work.arrival, np.nan),
        end_to_end_seconds=np.where(answered, work.finish - work.arrival, np.nan),
        output_tokens=requests.output_tokens,
        replica_seconds=billed,
        changes=tuple(changes),
        course=_course(course),
    )


_Moment = tuple[float, int, int, int, float]


def _moment(now_seconds: float, replicas: Replicas) -> _Moment:
    billed = replicas.billed_replica_seconds()
    return now_seconds, replicas.asked, replicas.serving, replicas.living, billed


def _course(moments: list[_Moment]) -> Course:
    at, *counts, billed = zip(*moments, strict=True)
    asked, ready, living = (np.array(column, np.int64) for column in counts)
    return Course(np.array(at), asked, ready, living, np.array(billed))


def _view(
    now_seconds: float,
    replicas: Replicas,
    scraper: Scraper,
    gateway: FleetGateway,
    percentile: Percentile,
) -> View:
    last = scraper.last
    return View(
        now_seconds=now_seconds,
        replicas=replicas.asked,
        ready=replicas.serving,
        starting=replicas.starting,
        terminating=replicas.terminating,
        running_requests=float(last.running) if last else 0.0,
        waiting_requests=float(last.waiting) if last else 0.0,
        metrics=scraper.metrics(percentile),
        requests_in_pods=lambda: replicas.requests_held(now_seconds),
        gateway=gateway.look(last.at_seconds if last else 0.0),
    )
