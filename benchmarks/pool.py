"""Fleets that share a pool of GPUs, by the operator's own ledger, against each with its part and each alone.

    .venv/bin/python benchmarks/pool.py [--deployments 20] [--hours 24] [--day 1] [--apart 6]
        [--percent 100,70,55] [--warm 0,2,4,8] [--seed 1]

Each deployment plays a part of a recorded week (not part of the project: `--traces`, by default `../shared/traces`) at
a size of its own. All of them are decided on together at every tick, by the code that the operator runs:

* shared: one pool of so many GPUs; the ledger gives them where they are needed.
* quotas: as many GPUs, of which each namespace has the part of its declared peak and no more, as under a Kueue
  ClusterQueue with a nominal quota and no cohort to borrow from.
* alone: each has the GPUs that it asks for. What it was ever given has to be there.

The second table is of GPUs that are rented: a node takes time to come, and some are kept idle so that a replica need
not wait for one; those of all together, against those of each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pools.arms import ALONE, QUOTAS, SHARED, Arm, PoolOutcome, outcome_of, rented_outcome
from pools.fleet import Fleet, WeekTooShort, fleet_of

ROOT = Path(__file__).resolve().parent.parent
_WIDTH = 140


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="a pool that is shared, against parts of it")
    parser.add_argument("--deployments", type=int, default=20, metavar="N")
    parser.add_argument("--hours", type=float, default=24.0, metavar="H", help="of the recorded weeks, from 06:00 on")
    parser.add_argument("--day", type=int, default=1, metavar="D", help="day of the weeks with which it begins")
    parser.add_argument(
        "--apart", type=float, default=6.0, metavar="H", help="the busiest hours lie so many hours apart at most"
    )
    parser.add_argument(
        "--percent", type=_percents, default=(100, 70, 55), metavar="A,B", help="GPUs of the pool, of all peaks at once"
    )
    parser.add_argument("--warm", type=_numbers, default=(0, 2, 4, 8), metavar="A,B", help="idle replicas kept for all")
    parser.add_argument("--provisioning", type=float, default=120.0, metavar="S", help="seconds until a node is there")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies all rates")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared/traces", help="folder of the traces")
    asked = parser.parse_args(given)
    if not asked.traces.is_dir():
        parser.error(f"--traces: {asked.traces} does not exist; name the folder with the recorded weeks")
    if min(asked.deployments, asked.day) < 1 or not (asked.hours > 0 and asked.scale > 0):
        parser.error("--deployments, --day, --hours and --scale are above 0")
    if not (asked.apart >= 0 and asked.provisioning >= 0 and min(asked.warm) >= 0):
        parser.error("--apart, --provisioning and --warm are 0 or more")
    return asked


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def _percents(text: str) -> tuple[int, ...]:
    percents = _numbers(text)
    if not all(0 < percent <= 100 for percent in percents):
        raise argparse.ArgumentTypeError(f"{text}: percents are above 0 and at most 100")
    return percents


def main() -> int:
    asked = arguments()
    try:
        fleet = fleet_of(
            asked.traces, asked.deployments, asked.hours, asked.apart, asked.seed, day=asked.day, rate_scale=asked.scale
        )
        report(owned(fleet, asked.percent), rented(fleet, asked.warm, asked.provisioning), fleet)
    except WeekTooShort as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def owned(fleet: Fleet, percents: Sequence[int]) -> list[PoolOutcome]:
    """Each alone, and pools of so many percent of all peaks, shared and in parts."""
    arms = [Arm(ALONE, 100), *(Arm(name, percent) for percent in percents for name in (SHARED, QUOTAS))]
    return [_told(outcome_of(fleet, arm)) for arm in arms]


def rented(fleet: Fleet, warm: Sequence[int], provisioning_seconds: float) -> list[PoolOutcome]:
    """GPUs that come when a pod waits: one or no replica kept warm by each, and so many by all of them together."""
    each = (rented_outcome(fleet, provisioning_seconds, warm=number, together=False) for number in (1, 0))
    shared = (rented_outcome(fleet, provisioning_seconds, warm=number, together=True) for number in warm)
    return [_told(outcome) for outcome in (*each, *shared)]


def report(owned_gpus: Sequence[PoolOutcome], rented_gpus: Sequence[PoolOutcome], fleet: Fleet) -> None:
    """Print both tables."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    console.print(
        f"{len(fleet.sharers)} deployments, {fleet.hours:g} hours, {fleet.requests} requests; declared peaks of"
        f" {fleet.peak_gpus} GPUs at once; judged by TTFT, asked for {fleet.asked_percent:g} %"
    )
    below = f"below {fleet.asked_percent:g} %"
    headings = ("pool", "most GPUs", "paid", "first row = 100", "used", "inside SLA %", "worst deployment %", below)
    for title, outcomes in (("owned", owned_gpus), ("rented", rented_gpus)):
        table = Table(title=f"GPU-hours of GPUs that are {title}", title_justify="left")
        for heading in headings:
            table.add_column(heading, justify="left" if heading == "pool" else "right")
        first = outcomes[0].paid_gpu_hours
        for outcome in outcomes:
            table.add_row(
                outcome.name, str(outcome.gpus), f"{outcome.paid_gpu_hours:.1f}",
                f"{100 * outcome.paid_gpu_hours / first:.1f}", f"{outcome.used_gpu_hours:.1f}",
                f"{outcome.attainment_percent:.2f}", f"{outcome.worst_percent:.2f}",
                f"{outcome.below(fleet.asked_percent)} of {len(outcome.attained)}",
            )  # fmt: skip
        console.print(table)


def _told(outcome: PoolOutcome) -> PoolOutcome:
    figures = f"{outcome.paid_gpu_hours:.1f} GPU-hours, {outcome.attainment_percent:.2f} %"
    print(f"{outcome.name}: {figures}", file=sys.stderr)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
