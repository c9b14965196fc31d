"""One measurement from an empty machine: a control plane, the workloads, an autoscaler, its phases."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from at_scale import lives, phases, profiling
from at_scale.autoscaler import Instants
from at_scale.figures import AUTOSCALER, YARDSTICK, AutoscalerFigures, Spent
from at_scale.keda import LIMITS, Keda
from at_scale.kinds import fleet
from at_scale.machine import yardstick_milliseconds
from at_scale.ours import OPERATOR, Ours
from at_scale.phases import Measurement
from at_scale.rig import Rig
from tools.cluster import ControllerOptions, report

SCENARIOS: Mapping[str, tuple[str, ...]] = {
    "quick": ("quiet", "step"),
    "speed": ("quiet", "step", "spread"),
    "full": ("quiet", "step", "spread", "restart", "soak"),
}
"""Phases after the onboarding, in their order, by the name of a choice of them."""
STEP, SPREAD, RESTART = 3.0, 9.0, 12.0
"""Multiples of the first load, each of which needs more replicas than the one before."""
SETTLE_SECONDS = 75.0
"""Time after a change until nothing of it is in any rate window."""
PEER_SETTLE_SECONDS = 20.0
"""The same for the peer, which reads no rate: a scrape, and a period of the HorizontalPodAutoscaler."""
SOAK_TICK_SECONDS = 1.0
ROOT = Path(__file__).resolve().parents[2]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Plan:
    """Options of a measurement. `settings` go over the chart's; `profiles` is the folder of recorded stacks."""

    resources: int
    phases: tuple[str, ...] = SCENARIOS["quick"]
    arrivals: str = "Poisson"
    mixed: bool = False
    pods: int = 1
    pods_follow: bool = False
    quiet_seconds: float = 600.0
    soak_minutes: float = 20.0
    spread_seconds: float = 60.0
    settle_seconds: float = SETTLE_SECONDS
    keda_limits: str = "raised"
    settings: Mapping[str, Any] = field(default_factory=dict)
    profiles: Path | None = None


def measure(who: str, plan: Plan) -> AutoscalerFigures:
    """Measure `ours` or `keda`. Raises `SetupError`, `ComponentFailedError`, `TimeoutError`."""
    return _measure_ours(plan) if who == "ours" else _measure_keda(plan)


def _measure_ours(plan: Plan) -> AutoscalerFigures:
    controllers = ControllerOptions(pods_follow=plan.pods_follow)
    with _rig(plan, controllers, mixed=plan.mixed) as rig:
        ours = Ours(rig, plan.settings)
        ours.install()
        shipped_tick_seconds = ours.tick_seconds
        rig.set_up(pods_are_scraped=True)
        found = _measured(Measurement(rig, ours), plan, ours.sized)
        if "restart" in plan.phases:
            time.sleep(plan.settle_seconds)
            found.restart = lives.restart(rig, ours, RESTART)
        if "soak" in plan.phases:
            time.sleep(plan.settle_seconds)
            found.soak = lives.soak(rig, ours, plan.soak_minutes, SOAK_TICK_SECONDS, shipped_tick_seconds)
        ours.stop()
        return found


def _measure_keda(plan: Plan) -> AutoscalerFigures:
    limits = LIMITS[plan.keda_limits]
    with _rig(plan, limits.controllers(pods_follow=plan.pods_follow), mixed=False) as rig:
        keda = Keda(rig, limits)
        keda.install()
        rig.set_up(pods_are_scraped=False)
        settle_seconds = min(plan.settle_seconds, PEER_SETTLE_SECONDS)
        return _measured(Measurement(rig, keda), replace(plan, settle_seconds=settle_seconds), None)


def _rig(plan: Plan, controllers: ControllerOptions, *, mixed: bool) -> Rig:
    workloads = fleet(plan.resources, plan.arrivals, mixed=mixed)
    return Rig(workloads, pods=plan.pods, pods_follow=plan.pods_follow, controllers=controllers)


def _measured(measurement: Measurement, plan: Plan, sized: Callable[[], Instants] | None) -> AutoscalerFigures:
    """Phases that both go through."""
    autoscaler = measurement.autoscaler
    found = AutoscalerFigures(autoscaler.name, plan.resources, _about(plan))
    # Rates need a whole window before the first decision.
    time.sleep(plan.settle_seconds)
    report(f"{autoscaler.name}: {plan.resources} are declared")
    found.onboarding = phases.onboard(measurement, sized)
    autoscaler.stop_watching()
    time.sleep(plan.settle_seconds)
    if "quiet" in plan.phases:
        found.quiet = _recorded(
            measurement, plan, found, "quiet", lambda: measurement.during(lambda: time.sleep(plan.quiet_seconds))
        )
        report(f"{autoscaler.name}: quiet, {found.quiet.cores[AUTOSCALER]:.3f} cores")
    if "step" in plan.phases:
        found.step = _recorded(measurement, plan, found, "step", lambda: phases.step(measurement, STEP))
        report(f"{autoscaler.name}: step to write {found.step.delays}")
    if "spread" in plan.phases:
        time.sleep(plan.settle_seconds)
        found.spread = phases.step(measurement, SPREAD, plan.spread_seconds)
        report(f"{autoscaler.name}: spread step to write {found.spread.delays}")
    return found


def _recorded(
    measurement: Measurement, plan: Plan, found: AutoscalerFigures, phase: str, work: Callable[[], Result]
) -> Result:
    """Do the work, and record the operator meanwhile where that is asked for."""
    if plan.profiles is None or measurement.autoscaler.name != Ours.name:
        return work()
    file = plan.profiles / f"{time.strftime('%Y%m%d-%H%M%S')}-{plan.resources}-{phase}.stacks"
    result, samples = profiling.record(measurement.rig.pids[OPERATOR], file, work)
    used = result if isinstance(result, Spent) else getattr(result, "spent", None)
    if isinstance(used, Spent):
        cpu_seconds = used.cores[OPERATOR] * used.seconds
        found.profile[phase] = profiling.milliseconds(samples, cpu_seconds, plan.resources, used.ticks)
    report(f"stacks: {file}")
    return result


def _about(plan: Plan) -> dict[str, Any]:
    """Options of the plan, the commit and the machine."""
    described = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(described, capture_output=True, text=True, check=False).stdout.strip()
    options = {name: value for name, value in asdict(plan).items() if name not in ("resources", "profiles")}
    machine = {"machineCores": os.cpu_count(), YARDSTICK: round(yardstick_milliseconds(), 3)}
    return options | machine | {"commit": commit, "at": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
