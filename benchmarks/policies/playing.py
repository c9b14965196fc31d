"""One cell, from the trace to its figures. Runs in a worker, which keeps the last traffic for the next cell."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from firsttoken_lab.replay.causal import known_so_far
from firsttoken_lab.replay.compare import Scene, known_beforehand, scene_of
from firsttoken_lab.replay.play import Played, play
from firsttoken_lab.replay.policies.ours import Ours
from firsttoken_lab.replay.policies.view import Policy
from firsttoken_lab.replay.score import HOUR_SECONDS, inside_sla, score
from policies.cells import Cell
from policies.contenders import CLAIRVOYANT, contender, misjudged
from policies.fingerprint import CAUSAL, OURS
from policies.results import Figures, Outcome, Span
from policies.scenarios import SCENARIOS, Scenario
from policies.traffic import after, setting, traffic


def outcome_of(cell: Cell, traces: Path) -> Outcome:
    """Play a cell. The clairvoyant needs no warm-up, so it plays only what is scored."""
    scenario = SCENARIOS[cell.scenario]
    knows_all = cell.policy == CLAIRVOYANT
    scene = _scene(scenario, traces, cell.seed, cell.days, cell.cold_start_seconds, knows_all)
    warm_up = 0.0 if knows_all else warm_up_seconds(scenario, cell.days)
    began = time.process_time()
    factor = None
    if knows_all:
        played = known_beforehand(scene, _silent, cell.asked_percent)
    elif cell.policy == CAUSAL:
        played = known_so_far(scene, _silent, cell.asked_percent, warm_up)
    else:
        policy = _policy(cell, scene)
        played = play(policy, scene.traffic.requests, scene.stage)
        factor = _factor_after_an_hour(policy)
    seconds = time.process_time() - began
    figures = score(played, scene.sla, scene.gpus_per_replica, warm_up)
    first, later = _first_hour(played, scene)
    return Outcome(
        cell,
        Figures(
            requests=figures.requests,
            attainment_percent=figures.attainment_percent,
            worst_hour_attainment_percent=figures.worst_hour_attainment_percent,
            windows_under_95_percent=figures.windows_under_95_percent,
            gpu_hours=figures.gpu_hours,
            scale_events=figures.scale_events,
            static_peak_replicas=scene.context.static_peak,
            seconds=seconds,
            first_hour=first,
            later=later,
            capacity_factor=factor,
            standby_gpu_hours=figures.standby_gpu_hours,
        ),
    )


def warm_up_seconds(scenario: Scenario, days: int | None) -> float:
    """Warm-up of what is played; a single day has no other that could be scored."""
    return 0.0 if days == 1 else scenario.warm_up_seconds


@lru_cache(maxsize=2)
def _scene(
    scenario: Scenario, traces: Path, seed: int, days: int | None, cold_start_seconds: float, scored_only: bool
) -> Scene:
    whole = traffic(scenario, traces, seed, days)
    if scored_only:
        whole = after(whole, warm_up_seconds(scenario, days))
    scene = scene_of(whole, setting(scenario, traces), cold_start_seconds, seed)
    outages = scenario.episode.metric_outages if scenario.episode else ()
    return replace(scene, stage=replace(scene.stage, metric_outages=outages))


def _policy(cell: Cell, scene: Scene) -> Policy:
    context = scene.context
    if cell.standby:
        kept = replace(context.setting.policy, standby=cell.standby)
        context = replace(context, setting=replace(context.setting, policy=kept))
    if cell.capacity_error_percent:
        setting = context.setting
        assumed = misjudged(setting.sized, setting.request.workload, cell.capacity_error_percent)
        context = replace(context, setting=replace(setting, sized=assumed))
    return contender(cell.policy, cell.tuning, context, cell.asked_percent)


def _factor_after_an_hour(policy: Policy) -> float | None:
    """The last that our policy had learned in the first hour."""
    if not isinstance(policy, Ours):
        return None
    factors = [factor for at, factor in policy.capacity_factors if at <= HOUR_SECONDS]
    return factors[-1] if factors else None


def _first_hour(played: Played, scene: Scene) -> tuple[Span, Span]:
    """The first hour of the traffic, and the rest of it (the same again where there is none)."""
    inside, trajectory = inside_sla(played, scene.sla), played.trajectory
    early = played.arrival_seconds < HOUR_SECONDS
    hours = scene.gpus_per_replica / HOUR_SECONDS
    billed = float(np.interp(HOUR_SECONDS, trajectory.at_seconds, trajectory.replica_seconds))
    first = Span(100 * float(inside[early].mean()), billed * hours)
    if early.all():
        return first, first
    return first, Span(100 * float(inside[~early].mean()), (played.replica_seconds - billed) * hours)


def _silent(message: str) -> None:
    """Those that know more say how far they are, which is not shown: cells are."""


assert Ours.name == OURS, "the fingerprint of our figures is found by our name"
