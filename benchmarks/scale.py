"""Many resources on one operator, beside KEDA and the HorizontalPodAutoscaler: how fast, and at what cost.

    .venv/bin/python benchmarks/scale.py [--n 100,1000] [--only ours|keda] [--scenario quick|full|...]

Real etcd, API server and Prometheus of the local control plane, the real operator as the chart configures it, and real
KEDA 2.21.0 out of its pinned module (built once into the cache, minutes). Each autoscaler gets a fresh control plane of
its own in the same run. Pods are on paper and do not follow the replicas unless `--pods-follow`; only the autoscaling
is measured then.

Everything shares the machine's cores, and so does whatever else runs on it: column `others` has its cores. Exits 0
where every goal holds, 1 where one does not, 2 for bad arguments.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from at_scale.goals import beside, goals, missed
from at_scale.keda import LIMITS
from at_scale.running import SCENARIOS, Plan, measure
from at_scale.tables import pairs, tables
from tools.cluster import SetupError, exit_status, report

ROOT = Path(__file__).resolve().parents[1]
HEADING = "## Measured"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="many resources on one operator, beside KEDA")
    parser.add_argument("--n", type=_counts, default=(100,), metavar="N,N", help="numbers of resources (default 100)")
    parser.add_argument("--only", choices=("ours", "keda"), help="default: both, one after the other")
    parser.add_argument(
        "--scenario", type=_scenario, default=SCENARIOS["quick"], metavar="A,B",
        help=f"phases, of {', '.join(SCENARIOS['full'])}; or {', '.join(SCENARIOS)} (default quick)",
    )  # fmt: skip
    parser.add_argument("--arrivals", choices=("Poisson", "ClosedLoop"), default="Poisson", help="spec.sizing.arrivals")
    parser.add_argument("--mixed", action="store_true", help="four models, three pools, a tenth of the objects broken")
    parser.add_argument("--pods", type=int, default=1, metavar="P", help="pods of each workload at first (default 1)")
    parser.add_argument("--pods-follow", action="store_true", help="Kubernetes makes the pods: its work on these cores")
    parser.add_argument("--quiet-minutes", type=float, default=10.0, metavar="M", help="minutes without a change")
    parser.add_argument("--minutes", type=float, default=20.0, metavar="M", help="minutes of soak")
    parser.add_argument("--spread-seconds", type=float, default=60.0, metavar="S", help="of the spread step")
    parser.add_argument("--keda-limits", choices=LIMITS, default="raised", help="clients' limits of KEDA and the HPA")
    parser.add_argument("--settings", type=json.loads, default={}, metavar="JSON", help="over the chart's, for ours")
    parser.add_argument("--profile", action="store_true", help="record the operator with py-spy, by part")
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "scale", help="folder of the results")
    parser.add_argument("--page", type=Path, help=f"write the tables below '{HEADING}' of this page, docs/scale.md")
    asked = parser.parse_args(given)
    if asked.page is not None and not asked.page.is_file():
        parser.error(f"--page: {asked.page} does not exist")
    if asked.pods < 1:
        parser.error(f"--pods: {asked.pods} is below 1")
    return asked


def _counts(text: str) -> tuple[int, ...]:
    counts = tuple(int(count) for count in text.split(","))
    if min(counts) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return counts


def _scenario(text: str) -> tuple[str, ...]:
    phases = SCENARIOS.get(text, tuple(text.split(",")))
    if unknown := [phase for phase in phases if phase not in SCENARIOS["full"]]:
        raise argparse.ArgumentTypeError(f"no phase is called {', '.join(unknown)}")
    return phases


def plan_of(asked: argparse.Namespace) -> Plan:
    return Plan(
        resources=asked.n[0],
        phases=asked.scenario,
        arrivals=asked.arrivals,
        mixed=asked.mixed,
        pods=asked.pods,
        pods_follow=asked.pods_follow,
        quiet_seconds=60 * asked.quiet_minutes,
        soak_minutes=asked.minutes,
        spread_seconds=asked.spread_seconds,
        keda_limits=asked.keda_limits,
        settings=asked.settings,
        profiles=asked.out if asked.profile else None,
    )


def main() -> None:
    asked = arguments()
    asked.out.mkdir(parents=True, exist_ok=True)
    plan = plan_of(asked)
    who = [asked.only] if asked.only else ["ours", "keda"]
    found = [measure(name, replace(plan, resources=count)) for count in asked.n for name in who]
    stem = asked.out / time.strftime("%Y%m%d-%H%M%S")
    shown = tables(found)
    documents = [measured.document() for measured in found]
    stem.with_suffix(".json").write_text(json.dumps(documents, indent=1), encoding="utf-8")
    stem.with_suffix(".md").write_text(shown, encoding="utf-8")
    print(shown)
    report(f"figures: {stem}.json, {stem}.md")
    if asked.page is not None:
        before, _, _ = asked.page.read_text(encoding="utf-8").partition(f"{HEADING}\n")
        asked.page.write_text(f"{before}{HEADING}\n\n{shown}", encoding="utf-8")
    asked_of = [goal for measured in found if measured.name == "firsttoken" for goal in goals(measured)]
    asked_of += [goal for ours, peer in pairs(found) for goal in beside(ours, peer)]
    if lines := missed(asked_of):
        raise SetupError("goals are missed:\n" + "\n".join(lines))


if __name__ == "__main__":
    sys.exit(exit_status(main))
