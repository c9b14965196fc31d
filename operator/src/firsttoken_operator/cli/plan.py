"""`firsttoken plan`: a folder of deployments against pools over one week, offline: fits or not, who is short, the cost.

Exit status 0: everything fits; 3: something does not, or has no size (the output says what and when).
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from firsttoken_lab.plan.load import Floats, Traces, read_week
from firsttoken_lab.plan.plan import Plan, plan_of
from firsttoken_operator.api.documents import load_documents
from firsttoken_operator.cli.output import add_output, emit, emit_tables, local_file
from firsttoken_operator.cli.question import add_files, read
from firsttoken_operator.cli.size import INFEASIBLE
from firsttoken_sizing.errors import InvalidInput

_GROWTH = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?) ?%")
_MOST_GROWTH_PERCENT = 10_000.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `firsttoken plan`."""
    add_files(parser)
    parser.add_argument(
        "--pool",
        action="append",
        type=local_file,
        metavar="FILE",
        help="YAML with GPUPools that stand in place of those beside the deployments; may be repeated",
    )
    parser.add_argument(
        "--trace",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a recorded week, as `replay` takes it: of one deployment by its name, or the form of all others, whose"
        " busiest minute is their declared peak; default: days made of the declared averages and peaks",
    )
    parser.add_argument("--growth", metavar="PERCENT", default="0%", help="change of every load, such as 30%%")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Plan the folder and print the answer."""
    growth, traces = _growth(args.growth), _traces(args.trace)
    if args.output == "html":
        # NB: without plotly this raises what the command line explains, before all is sized.
        importlib.import_module("firsttoken_sizing.report.plotly_page")
    sources = read(args)
    pools = sources.documents.pools
    if args.pool:
        pools = load_documents(*args.pool).pools
        if not pools:
            raise InvalidInput("--pool", f"{', '.join(map(str, args.pool))} has no GPUPool", "add one")
    plan = plan_of(sources.documents, pools, sources.benchmarks, traces, growth)
    _print(plan, args)
    return 0 if plan.fits else INFEASIBLE


def _growth(text: str) -> float:
    found = _GROWTH.fullmatch(text.strip())
    percent = float(found[1]) if found else -100.0
    if not -100 < percent <= _MOST_GROWTH_PERCENT:
        raise InvalidInput("--growth", f"{text!r} is no growth", f"write 30%, at most {_MOST_GROWTH_PERCENT:g}%")
    return 1 + percent / 100


def _traces(given: Iterable[str]) -> Traces:
    common: Floats | None = None
    own: dict[str, Floats] = {}
    for text in given:
        name, separator, file = text.rpartition("=")
        if "://" in file:
            raise InvalidInput("--trace", f"{file} is a URL", f"download it first: curl -fsSLO {file}")
        if (separator and name in own) or (not separator and common is not None):
            raise InvalidInput("--trace", f"{text} is the second for the same", "give one each")
        if separator:
            own[name] = read_week(Path(file))
        else:
            common = read_week(Path(file))
    return Traces(common, own)


def _print(plan: Plan, args: argparse.Namespace) -> None:
    if args.output == "html":
        from firsttoken_lab.plan.picture import plan_figure
        from firsttoken_sizing.report.pictures import PictureFormat, draw

        emit(draw(plan_figure(plan), PictureFormat.HTML), args.out)
        return
    from firsttoken_lab.plan.report import plan_json, plan_tables

    if args.output == "json":
        emit((json.dumps(plan_json(plan), indent=2) + "\n").encode(), args.out)
    else:
        emit_tables([plan_tables(plan)], args.out)
