"""Policies side by side under one traffic, and the two references that every one is held against."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from firsttoken_lab.replay import clairvoyant as reference
from firsttoken_lab.replay import load
from firsttoken_lab.replay.calendar import Calendar
from firsttoken_lab.replay.play import Played, Stage, play
from firsttoken_lab.replay.policies.ours import TICK_SECONDS
from firsttoken_lab.replay.policies.registry import POLICIES, Context
from firsttoken_lab.replay.policies.view import Unavailable
from firsttoken_lab.replay.score import HOUR_SECONDS, Score, score, target_percent
from firsttoken_lab.replay.setting import Setting
from firsttoken_lab.replay.traffic import Traffic
from firsttoken_operator.decide import declared_bounds, initial_replicas
from firsttoken_operator.domain import UNKNOWN_TIME_TO_READY_SECONDS, lead_seconds
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.work import work_of
from firsttoken_sizing.workload import Sla

NAMES = (*POLICIES, reference.NAME)
_ROOM, _MOST_ROOM = 1.5, 4.0
"""The clairvoyant may take so many times the static fleet of the peak: as many as bursts inside a minute need."""
_ROOMY_LOAD = 0.4
"""Share of a saturated replica's load at which hardly any request waits."""
_SLOTS_PERCENT, _SPARE_SLOTS = 140, 8
"""Replicas that drain while others start need places of their own."""
_P95 = 95.0


@dataclass(frozen=True, slots=True)
class Scene:
    """One traffic on one stage: everything that the policies have in common."""

    traffic: Traffic
    context: Context
    stage: Stage
    needed: load.Floats
    """Replicas (a fraction) that every minute needs when they work at their largest batch."""
    most_replicas: int

    @property
    def sla(self) -> Sla:
        """The limits that requests are judged by."""
        return self.context.setting.sized.sla

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one replica."""
        return self.context.setting.sized.configuration.gpus_per_replica

    @property
    def static_peak_gpu_hours(self) -> float:
        """GPU-hours that a fleet for the peak takes over the whole traffic."""
        seconds = float(self.traffic.requests.arrival_s[-1])
        return self.context.static_peak * seconds * self.gpus_per_replica / HOUR_SECONDS


@dataclass(frozen=True, slots=True)
class Result:
    """One policy's play and its score."""

    played: Played
    score: Score


@dataclass(frozen=True, slots=True)
class Comparison:
    """The policies that were asked for, in that order, and the clairvoyant whether asked for or not."""

    scene: Scene
    results: tuple[Result, ...]
    clairvoyant: Result


def scene_of(
    traffic: Traffic, setting: Setting, cold_start_seconds: float, seed: int, failures_per_day: float = 0.0
) -> Scene:
    """Set the scene; the same arguments give the same one.

    Static fleets are sized for loads of whole minutes, in which requests count by what they cost a replica.
    """
    requests, step, table = traffic.requests, setting.subject.step, setting.sized.table
    lengths = setting.subject.lengths
    work = work_of(step, lengths, setting.concurrency_per_replica)
    full = load.costs(work_of(step, lengths, setting.largest_batch), requests)
    rates = load.rates_per_minute(requests.arrival_s, load.costs(work, requests), work.declared_seconds)
    sized, policy = setting.sized, setting.policy
    calendar = Calendar(traffic.start_epoch_seconds, setting.schedule)
    maximum = declared_bounds(policy, sized, calendar.largest_peak).upper
    minimum = max(1, min(policy.min_replicas, maximum))
    # NB: the references know the peak, so the headroom over a declared one says nothing to them; `maxReplicas` does.
    ceiling = math.inf if policy.max_replicas is None else policy.max_replicas
    busiest, busy = rates.max(), float(np.percentile(rates, _P95))
    peak, p95 = (int(min(max(minimum, table.replicas_for(rate)), ceiling)) for rate in (busiest, busy))
    scheduled = calendar.scheduled_peak(0.0, lead_seconds(UNKNOWN_TIME_TO_READY_SECONDS, TICK_SECONDS))
    limit = sized.sla.time_to_first_token or sized.sla.end_to_end
    needed = load.replicas_needed(requests.arrival_s, full, limit.milliseconds / 1000 if limit else 1.0)
    roomy = min(float(needed.max()) / _ROOMY_LOAD, _MOST_ROOM * peak)
    most = int(min(max(maximum, math.ceil(_ROOM * peak), math.ceil(roomy)), ceiling))
    return Scene(
        traffic=traffic,
        context=Context(
            setting=setting,
            mean_input_tokens=float(requests.input_tokens.mean()),
            mean_output_tokens=float(requests.output_tokens.mean()),
            initial=initial_replicas(policy, sized, scheduled, on_prem=setting.on_prem),
            minimum=minimum,
            maximum=maximum,
            static_peak=peak,
            static_p95=p95,
            calendar=calendar,
        ),
        stage=setting.stage(most * _SLOTS_PERCENT // 100 + _SPARE_SLOTS, cold_start_seconds, failures_per_day, seed),
        needed=needed,
        most_replicas=most,
    )


def compare(scene: Scene, names: Sequence[str] | None, progress: Callable[[str], None]) -> Comparison:
    """Replay the policies of these names; None: all that are there. Raises `InvalidInput` for one that is not."""
    results: dict[str, Result] = {}
    for name in NAMES if names is None else names:
        if name == reference.NAME:
            continue
        began = time.monotonic()
        try:
            policy = POLICIES[name](scene.context)
        except Unavailable as missing:
            if names is not None:
                raise InvalidInput("--policy", f"{name}: {missing}", "install it, or leave it out") from missing
            progress(f"{name} is left out: {missing}")
            continue
        results[name] = _judged(play(policy, scene.traffic.requests, scene.stage), scene, progress, began)
    began = time.monotonic()
    best = _judged(known_beforehand(scene, progress), scene, progress, began)
    if names is None or reference.NAME in names:
        results[reference.NAME] = best
    order = NAMES if names is None else tuple(dict.fromkeys(names))
    return Comparison(scene, tuple(results[name] for name in order if name in results), best)


def known_beforehand(scene: Scene, progress: Callable[[str], None], asked_percent: float | None = None) -> Played:
    """The clairvoyant's play. It knows when replicas die no better than others, so none do.

    `asked_percent`: the attainment to reach; None: what the SLA asks.
    """
    return reference.clairvoyant(
        scene.traffic.requests,
        replace(scene.stage, failures_per_day=0.0),
        scene.needed,
        scene.sla,
        target_percent(scene.sla) if asked_percent is None else asked_percent,
        scene.context.minimum,
        scene.most_replicas,
        progress,
    )


def _judged(played: Played, scene: Scene, progress: Callable[[str], None], began: float) -> Result:
    figures = score(played, scene.sla, scene.gpus_per_replica)
    progress(
        f"{figures.policy}: {figures.attainment_percent:.2f} % inside the SLA, {figures.gpu_hours:.1f} GPU-hours"
        f" ({time.monotonic() - began:.1f} s)"
    )
    return Result(played, figures)
