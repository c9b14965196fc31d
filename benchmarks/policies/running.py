"""Cells played side by side, one process a core, each kept as soon as it is done; what is known already is not played.

Progress and the time that is left go to standard error.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path

from policies.cells import Cell
from policies.contenders import CLAIRVOYANT
from policies.fingerprint import CAUSAL, OURS, fingerprint
from policies.playing import outcome_of
from policies.results import Outcome, Results
from policies.scenarios import SCENARIOS, Kind

WORKERS = 2
_COST = {CLAIRVOYANT: 11.0, CAUSAL: 7.0, "knative": 2.5, OURS: 2.0, "llm-d": 2.0}
"""Time of a play over that of a policy that does next to nothing; the clairvoyant learns once and replays 8 times."""
_DAYS = {Kind.WEEK: 7.0, Kind.FLEET: 50.0, Kind.HOUR: 0.3, Kind.EPISODE: 0.3}
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def weight(cell: Cell) -> float:
    """Estimate the time of a cell, in days of a policy that does next to nothing."""
    scenario = SCENARIOS[cell.scenario]
    days = _DAYS[scenario.kind] * (1.0 if cell.days is None else cell.days / scenario.days)
    return days * _COST.get(cell.policy, 1.0)


def played(cells: Sequence[Cell], results: Results, traces: Path, workers: int = WORKERS) -> list[Outcome]:
    """The outcomes of these cells, in their order."""
    known = {cell.key: results.get(cell, fingerprint(cell)) for cell in cells}
    # Plays of one traffic one after another, so that a worker makes it once; the long ones first.
    waiting = sorted(
        {cell.key: cell for cell in cells if known[cell.key] is None}.values(),
        key=lambda cell: (-_DAYS[SCENARIOS[cell.scenario].kind], cell.scenario, cell.seed, -weight(cell)),
    )
    if len(waiting) < len(cells):
        _say(f"{len(cells) - len(waiting)} of {len(cells)} plays are known already")
    if waiting:
        for name in _ONE_THREAD:
            os.environ[name] = "1"
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(waiting)), mp_context=context) as pool:
            futures = [pool.submit(outcome_of, cell, traces) for cell in waiting]
            try:
                known |= {outcome.cell.key: outcome for outcome in _kept(futures, waiting, results)}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    outcomes = [known[cell.key] for cell in cells]
    return [outcome for outcome in outcomes if outcome is not None]


def _kept(futures: list[Future[Outcome]], cells: list[Cell], results: Results) -> list[Outcome]:
    began, done, total = time.monotonic(), 0.0, sum(map(weight, cells))
    outcomes = []
    # NB: the fingerprints of now: code that changes while it is played is not what was played.
    fingerprints = {cell.key: fingerprint(cell) for cell in cells}
    for count, future in enumerate(as_completed(futures), 1):
        outcome = future.result()
        results.add(outcome, fingerprints[outcome.cell.key])
        outcomes.append(outcome)
        done += weight(outcome.cell)
        left = (time.monotonic() - began) * max(0.0, total - done) / done
        figures = outcome.figures
        _say(
            f"[{count}/{len(cells)}, {left / 60:.0f} min left] {outcome.cell.key}:"
            f" {figures.attainment_percent:.3f} % inside, {figures.gpu_hours:.1f} GPU-hours,"
            f" {figures.scale_events} changes, {figures.seconds:.1f} s"
        )
    return outcomes


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
