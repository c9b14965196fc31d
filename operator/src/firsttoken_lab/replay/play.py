"""One policy under one traffic: the fleet is simulated from tick to tick, and the policy looks and asks in between.

GPU time is billed up to the last arrival. What is in the fleet then is still answered, so that a late answer counts as
late and not as none, but no policy looks any more. While metrics are out nothing is scraped, and what a policy is
shown of them says that they are unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from firsttoken_lab.replay.gateway import Gateway
from firsttoken_lab.replay.observed import Observed
from firsttoken_lab.replay.policies.view import KeepsStandby, Policy, View
from firsttoken_lab.replay.rented import RentedGPUs
from firsttoken_lab.replay.replicas import WAKE_UP, ColdStart, Replicas
from firsttoken_lab.replay.scrape import Scraper
from firsttoken_operator.observe import MeasureSettings
from firsttoken_sizing.simulation.fleet import Fleet, Settings
from firsttoken_sizing.simulation.requests import Requests
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Limit

_SECONDS_A_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Stage:
    """Stage of a policy: the replicas' physics and what is known of them. The same for every policy."""

    step: StepModel
    settings: Settings
    """Settings of the fleet; its `replicas` are the most that may live at one time, draining ones included."""
    cold_start: ColdStart = field(default_factory=lambda: ColdStart(180.0))
    wake_up: ColdStart = WAKE_UP
    """Time of a replica that sleeps until it serves."""
    scrape_lag_seconds: float = 5.0
    """Age of the newest sample when a policy looks; less than `scrape_seconds`."""
    ttft_limit: Limit | None = None
    """Limit at which the TTFT buckets are read; None: at the 95th percentile, and nothing is late."""
    failures_per_day: float = 0.0
    """Failures of one replica a day, on average."""
    seed: int = 1
    scrape_seconds: float = 15.0
    """Between two scrapes."""
    window_seconds: float = 60.0
    """Range of every rate: four scrapes."""
    metric_outages: tuple[tuple[float, float], ...] = ()
    """Times from when to when (seconds, the end excluded) nothing is scraped and no query is answered.
    NB: what a gateway counted meanwhile is there at the next scrape."""

    def __post_init__(self) -> None:
        if not 0 < self.scrape_seconds <= self.window_seconds:
            raise ValueError(f"scrape_seconds is in (0, {self.window_seconds:g}], not {self.scrape_seconds:g}")
        if not 0 <= self.scrape_lag_seconds < self.scrape_seconds:
            raise ValueError(f"scrape_lag_seconds is in [0, {self.scrape_seconds:g}), not {self.scrape_lag_seconds:g}")
        for begin, end in self.metric_outages:
            if not begin < end:
                raise ValueError(f"metric_outages: {begin:g} to {end:g} does not end after it begins")

    def is_blind(self, at_seconds: float) -> bool:
        """True while metrics are out."""
        return any(begin <= at_seconds < end for begin, end in self.metric_outages)


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """The fleet over time: one entry a scrape in each array, the first at 0, the last at the end."""

    at_seconds: NDArray[np.float64]
    asked: NDArray[np.int64]
    """`spec.replicas`."""
    ready: NDArray[np.int64]
    living: NDArray[np.int64]
    """Starting, ready, draining and on standby: what is billed."""
    replica_seconds: NDArray[np.float64]
    """Billed since the beginning."""
    standby_seconds: NDArray[np.float64]
    """Those of them that were spent on standby."""


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """Outcome of the requests and the fleet. Arrays have one entry a request; NaN: never answered."""

    policy: str
    arrival_seconds: NDArray[np.float64]
    ttft_seconds: NDArray[np.float64]
    end_to_end_seconds: NDArray[np.float64]
    output_tokens: NDArray[np.int64]
    replica_seconds: float
    changes: tuple[tuple[float, int], ...]
    """Times at which the policy asked for how many replicas, the first at 0."""
    trajectory: Trajectory


class Playing:
    """One deployment while it is played: its simulated fleet, what is scraped of it, and what was asked for."""

    def __init__(self, requests: Requests, stage: Stage, initial: int, rented: RentedGPUs | None = None) -> None:
        """Begin with `initial` replicas, ready at once. `rented`: GPUs that it waits for; None: they are there."""
        self._requests, self._stage = requests, stage
        self._fleet = Fleet(stage.step, requests, stage.settings)
        starts, self._deaths = (np.random.default_rng(seed) for seed in np.random.SeedSequence(stage.seed).spawn(2))
        self._replicas = Replicas(self._fleet, stage.cold_start, starts, stage.wake_up, rented)
        self._scraper = Scraper(self._fleet, stage.settings.kv_cache_tokens, stage.window_seconds)
        self._settings = MeasureSettings(stage.window_seconds, stage.scrape_seconds)
        self._gateway, self._is_out = Gateway(self._fleet), False
        self._replicas.begin(initial)
        self._changes, self._trajectory = [(0.0, self._replicas.asked)], [_moment(0.0, self._replicas)]
        self._death_probability = stage.failures_per_day * stage.scrape_seconds / _SECONDS_A_DAY

    def scrape(self, now_seconds: float) -> None:
        """Let time pass, replicas die, and Prometheus read those that live."""
        self._replicas.advance(now_seconds)
        if self._death_probability:
            self._replicas.fail(self._death_probability, self._deaths)
        self._is_out = self._stage.is_blind(now_seconds)
        if not self._is_out:
            self._scraper.scrape(now_seconds, self._replicas.pods)
        self._trajectory.append(_moment(now_seconds, self._replicas))

    def look(self, now_seconds: float) -> View:
        """Show what a policy sees."""
        # What a policy sees of the requests is as old as the last scrape: they are simulated further when it acts.
        self._replicas.look(now_seconds)
        # NB: after an outage nothing is known before the next scrape: the last one is from before it.
        known = None if self._is_out or self._stage.is_blind(now_seconds) else self._scraper.scrapes
        observed = Observed(now_seconds, self._replicas.pods, known, self._stage.ttft_limit, self._settings)
        return _view(observed, self._replicas, self._gateway)

    def ask(self, replicas: int, now_seconds: float, standby: int = 0) -> None:
        """Ask for so many replicas that serve, and so many that sleep."""
        before = self._replicas.asked
        self._replicas.scale(replicas, now_seconds, standby)
        if self._replicas.asked != before:
            self._changes.append((now_seconds, self._replicas.asked))

    def finish(self, policy: str, end_seconds: float) -> Played:
        """End the bill here, and answer what is left."""
        self._replicas.advance(end_seconds)
        self._trajectory.append(_moment(end_seconds, self._replicas))
        billed = self._replicas.billed_replica_seconds()
        self._replicas.finish()
        work, requests = self._fleet.requests, self._requests
        answered = work.first_token > 0
        return Played(
            policy=policy,
            arrival_seconds=requests.arrival_s,
            ttft_seconds=np.where(answered, work.first_token - work.arrival, np.nan),
            end_to_end_seconds=np.where(answered, work.finish - work.arrival, np.nan),
            output_tokens=requests.output_tokens,
            replica_seconds=billed,
            changes=tuple(self._changes),
            trajectory=Trajectory(*map(np.array, zip(*self._trajectory, strict=True))),
        )


def play(policy: Policy, requests: Requests, stage: Stage) -> Played:
    """Play to the last arrival, then let the fleet answer what it has. The same arguments give the same result."""
    playing, end = Playing(requests, stage, policy.initial), float(requests.arrival_s[-1])
    next_scrape, next_look = stage.scrape_seconds - stage.scrape_lag_seconds, policy.interval_seconds
    while min(next_scrape, next_look) <= end:
        if next_scrape <= next_look:
            playing.scrape(next_scrape)
            next_scrape += stage.scrape_seconds
            continue
        wanted = policy.desired(playing.look(next_look))
        playing.ask(wanted, next_look, policy.standby if isinstance(policy, KeepsStandby) else 0)
        next_look += policy.interval_seconds
    return playing.finish(policy.name, end)


def _moment(now_seconds: float, replicas: Replicas) -> tuple[float, int, int, int, float, float]:
    billed, standby = replicas.billed_replica_seconds(), replicas.standby_replica_seconds()
    return now_seconds, replicas.asked, len(replicas.pods.serving), replicas.living, billed, standby


def _view(observed: Observed, replicas: Replicas, gateway: Gateway) -> View:
    """Pods as Kubernetes shows them. While metrics are out nothing else is seen, whatever a policy brings along."""
    is_blind, now_seconds = observed.scrapes is None, observed.now_seconds
    last = observed.scrapes[-1] if observed.scrapes else None
    return View(
        now_seconds=now_seconds,
        replicas=replicas.asked,
        ready=len(observed.pods.serving),
        starting=len(observed.pods.starting),
        terminating=replicas.living - replicas.asked - replicas.standby,
        time_to_ready_seconds=replicas.time_to_ready_seconds,
        p99_start_seconds=replicas.p99_start_seconds,
        waits_seconds=tuple(now_seconds - pod.asked_seconds for pod in observed.pods.starting),
        standby=replicas.standby,
        asleep=replicas.asleep,
        time_to_wake_seconds=replicas.time_to_wake_seconds,
        running_requests=last.running_requests if last else None,
        waiting_requests=last.waiting_requests if last else None,
        read_metrics=observed.metrics,
        requests_in_pods=None if is_blind else lambda: replicas.requests_held(now_seconds),
        gateway=None if is_blind else gateway.look(last.at_seconds if last else 0.0),
        is_blind=is_blind,
    )
