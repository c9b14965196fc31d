"""Judge scaling policies by replay: which serve inside the SLA, with how many GPU-hours, and whether the bar holds.

    .venv/bin/python benchmarks/policy.py [--quick] [--only TRACE]... [--policies A,B] [--seeds 1,2] [--days N]

Plays recorded weeks and hours (not part of the project: `--traces`, by default `../shared/traces`) and made-up
episodes. Every play is kept in the output folder, and a run that was stopped goes on where it was; figures of a policy
whose code has changed since are played anew. Peers play at the tuning that is best in hindsight, ours as it ships.

Exits 0 where every line of the bar holds, 1 where one does not, 2 for bad arguments. With `--only`, `--policies`,
`--seeds` or `--days` the lines that such a part cannot answer are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console

from policies import front_picture
from policies.cells import Cell
from policies.contenders import NAMES, missing
from policies.picture import bars, drawn
from policies.plan import QUICK_DAYS, QUICK_SCENARIOS, Extent, best_tunings, first_cells, later_cells
from policies.results import Results
from policies.running import played
from policies.scenarios import SCENARIOS
from policies.summary import Summary
from policies.tables import FRONTS, MEANS, ResultTable, tables, what
from policies.verdict import verdicts

ROOT = Path(__file__).resolve().parent.parent
RESULTS = "policy-results.jsonl"
HEADING = "## Results"
_WIDTH = 180


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="scaling policies under recorded traffic")
    parser.add_argument("--quick", action="store_true", help="two days of one week, two hours; one seed, two tunings")
    parser.add_argument("--only", action="append", choices=SCENARIOS, metavar="TRACE", help=", ".join(SCENARIOS))
    parser.add_argument("--policies", type=_names, metavar="A,B", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--seeds", type=_seeds, metavar="1,2", help="instead of as many as each policy gets")
    parser.add_argument("--days", type=int, metavar="N", help="the first days of each week, of which one warms up")
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared/traces", help="folder of the traces")
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts", help="folder of the results")
    parser.add_argument(
        "--page", type=Path, help=f"write the tables below '{HEADING}' of this page, docs/policy.md, and its picture"
    )
    asked = parser.parse_args(given)
    if asked.page is not None and not asked.page.is_file():
        parser.error(f"--page: {asked.page} does not exist")
    if not asked.traces.is_dir():
        parser.error(f"--traces: {asked.traces} does not exist; name the folder with azure2023_code.csv.gz")
    if asked.days is not None and asked.days < 1:
        parser.error(f"--days: {asked.days} is below 1")
    return asked


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in NAMES]:
        raise argparse.ArgumentTypeError(f"no policy is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return names


def _seeds(text: str) -> tuple[int, ...]:
    return tuple(int(seed) for seed in text.split(","))


def extent_of(asked: argparse.Namespace, absent: dict[str, str]) -> Extent:
    scenarios = tuple(asked.only or (QUICK_SCENARIOS if asked.quick else SCENARIOS))
    policies = tuple(name for name in asked.policies or NAMES if name not in absent)
    days = QUICK_DAYS if asked.quick and asked.days is None else asked.days
    return Extent(scenarios, policies, asked.seeds, days, asked.quick)


def main() -> int:
    try:
        return judge(arguments())
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130


def judge(asked: argparse.Namespace) -> int:
    """Play what is not known yet, print all of it, and say whether the bar holds."""
    absent = missing()
    for name, why in absent.items():
        print(f"{name} is left out: {why}", file=sys.stderr)
    extent = extent_of(asked, absent)
    results = Results(asked.out / RESULTS)
    first = first_cells(extent)
    announce(first)
    outcomes = played(first, results, asked.traces)
    outcomes += played(later_cells(extent, best_tunings(outcomes)), results, asked.traces)
    summary = Summary(outcomes)
    lines = verdicts(summary)
    report(tables(summary, lines), asked.page)
    failed = [line.asks for line in lines if not line.holds]
    for asks in failed:
        print(f"does not hold: {asks}", file=sys.stderr)
    return 1 if failed else 0


def announce(cells: list[Cell]) -> None:
    """Say which cells there are, but for the other seeds of the best tunings, which are not known yet."""
    for scenario in dict.fromkeys(cell.scenario for cell in cells):
        counts = Counter(cell.policy for cell in cells if cell.scenario == scenario)
        plays = ", ".join(f"{policy} {count}" for policy, count in counts.items())
        print(f"{scenario} ({what(SCENARIOS[scenario])}): {plays}", file=sys.stderr)


def report(found: list[ResultTable], page: Path | None) -> None:
    """Print the tables, and write them into a page in place of what is below its heading of results."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    for table in found:
        console.print(table.for_terminal())
    if page is not None:
        before, _, _ = page.read_text(encoding="utf-8").partition(f"{HEADING}\n")
        after = "\n".join(table.for_page() for table in found)
        page.write_text(f"{before}{HEADING}\n\n{after}", encoding="utf-8")
        for table in (table for table in found if table.title == MEANS):
            page.with_suffix(".svg").write_text(drawn(bars(table.headings, table.rows)), encoding="utf-8")
        for table in (table for table in found if table.title == FRONTS):
            picture = front_picture.drawn(front_picture.rows(table.headings, table.rows))
            page.with_name(f"{page.stem}-fronts.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
