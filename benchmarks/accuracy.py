"""Print how far the sizing model is from measurements that it has not seen, beside its goals and its peers.

    .venv/bin/python benchmarks/accuracy.py [--data ../shared/data] [--only NAME]... [--peers]

Every figure is computed now from the files of the data folder (not part of the project). `--peers` installs
AIConfigurator into the cache (670 MB) and runs it on the same points; where it is installed already it is run anyway,
else the figures of an earlier run stand beside ours. Exits 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evaluation.peers import aiconfigurator_errors
from evaluation.row import Row

ROOT = Path(__file__).resolve().parent.parent
PARTS = (
    *("nim", "ttft", "silicon", "latencies", "open_loop", "poisson", "questions", "capacity", "memory", "offline"),
    "bands",
)
"""Modules of `evaluation`, in the order of the table."""


def table(rows: list[Row]) -> Table:
    """The rows as a table for a terminal."""
    shown = Table(title="error against measurements that were left out")
    for heading in ("what", "left out", "points", "figures (goal)", "reached", "peer"):
        shown.add_column(heading)
    for row in rows:
        figures = []
        for figure in row.figures:
            relation = ">=" if figure.at_least else "<="
            goal = "" if figure.goal is None else f" ({relation} {figure.goal:g})"
            figures.append(f"{figure.name} {figure.value:.3g}{figure.unit}{goal}")
        judged = any(figure.goal is not None for figure in row.figures)
        reached = ("yes" if row.reached else "NO") if judged else "-"
        shown.add_row(row.what, row.left_out, str(row.points), "\n".join(figures), reached, row.peer)
    return shown


def _beside(rows: list[Row], data: Path, *, install: bool) -> list[Row]:
    """The rows with what AIConfigurator reaches in this run, where it is there."""
    if not any(row.peer_metric for row in rows):
        return rows
    errors = aiconfigurator_errors(data, install_it=install)
    if errors is None:
        return rows
    return [
        replace(row, peer=f"AIConfigurator 0.12, now: {errors[row.peer_metric]}") if row.peer_metric else row
        for row in rows
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="accuracy of the sizing model")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data", help="folder with the measurements")
    parser.add_argument("--peers", action="store_true", help="install AIConfigurator, and run it on the same points")
    parser.add_argument("--only", action="append", choices=PARTS, help="only these parts of the table")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        print(f"--data: {arguments.data} does not exist; name the folder with nim_dli.csv", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for part in arguments.only or PARTS:
        rows += importlib.import_module(f"evaluation.{part}").rows(arguments.data)
    Console().print(table(_beside(rows, arguments.data, install=arguments.peers)))
    return 0 if all(row.reached for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
