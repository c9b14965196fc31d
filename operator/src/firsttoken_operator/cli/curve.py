"""`firsttoken curve`: latency against throughput of every TP and precision with the chosen point; models side by side.

Reads the YAML that `firsttoken size` reads. Exit status 0: there are curves, whether or not a size meets the SLA (the
output says so); 3: no configuration has one, because none holds the model.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from firsttoken_operator.cli.output import add_output, emit, emit_tables
from firsttoken_operator.cli.question import add_arguments, read, title
from firsttoken_operator.cli.size import INFEASIBLE
from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.errors import InvalidInput, one_of
from firsttoken_sizing.report.cells import configuration_name
from firsttoken_sizing.report.curve_document import curves_json
from firsttoken_sizing.report.curve_figure import Grouping, View, curve_figure
from firsttoken_sizing.report.curves import Loads, Study, study
from firsttoken_sizing.report.pictures import PictureFormat, draw
from firsttoken_sizing.report.quantity import Quantity
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.workload import Arrivals, SlaMode

_MOST_POINTS = 200
_MOST_CONCURRENCY = 100_000
_LENGTHS = "write pairs of input/output tokens, such as 200/200,2000/200"
_Word = TypeVar("_Word", bound=StrEnum)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `firsttoken curve`."""
    add_arguments(parser)
    add_output(parser, ("table", "json", *(p.value for p in PictureFormat)))
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="this model instead of the declared one; give several for a comparison under the same SLA",
    )
    parser.add_argument("--concurrency", metavar="1,2,5,...", help="points of a closed loop (requests in one replica)")
    parser.add_argument("--rates", metavar="0.5,1,...", help="points of Poisson arrivals (requests/s of one replica)")
    parser.add_argument("--lengths", metavar="200/200,...", help="input/output tokens, instead of the declared ones")
    axes = ", ".join(Quantity)
    parser.add_argument("--x", metavar="AXIS", help=f"of a picture: {axes}; default: the latency that has a limit")
    parser.add_argument("--y", metavar="AXIS", help=f"the same; default: {Quantity.REQUESTS_PER_GPU.value}")
    parser.add_argument("--scale", choices=("log", "linear"), default="log", help="of latency axes; default: log")
    parser.add_argument("--by", metavar="GROUP", help=f"what has its own color: {', '.join(Grouping)}")


def run(args: argparse.Namespace) -> int:
    """Draw the curves of every InferenceDeployment of the file."""
    concurrencies = tuple(int(c) for c in _numbers("--concurrency", args.concurrency, least=1, most=_MOST_CONCURRENCY))
    rates = tuple(_numbers("--rates", args.rates, least=0, most=math.inf))
    loads = Loads(concurrencies, rates, dense=args.output in set(PictureFormat))
    arrivals = _arrivals(args.arrivals, loads)
    lengths = _lengths(args.lengths)
    x, y, by = _word("--x", args.x, Quantity), _word("--y", args.y, Quantity), _word("--by", args.by, Grouping)
    sources = read(args)
    subjects = []
    for deployment in sources.documents.deployments:
        request = sources.request(deployment, arrivals, args.percentile)
        if loads.rates and request.sla.mode is SlaMode.OFFLINE:
            raise InvalidInput("--rates", "in mode Offline nothing arrives at a rate", "use --concurrency")
        studies = [study(r, loads) for r in _variants(request, args.model, lengths)]
        subjects.append((title(deployment), studies))
    if not any(s.curves for _, studies in subjects for s in studies):
        return _nothing(subjects)
    if args.output == "table":
        # NB: imported here, because a picture or a document needs no rich.
        from firsttoken_sizing.report.curve_table import curve_tables

        emit_tables((curve_tables(name, studies) for name, studies in subjects), args.out)
        return 0
    _tell_what_is_missing(subjects)
    if args.output == "json":
        content = json.dumps(curves_json(s for _, studies in subjects for s in studies), indent=2) + "\n"
        emit(content.encode(), args.out)
    else:
        y, by = y or Quantity.REQUESTS_PER_GPU, by or _grouping(subjects)
        view = View(x, y, by, linear=args.scale == "linear", percentile=args.percentile)
        emit(draw(curve_figure(subjects, view), PictureFormat(args.output)), args.out)
    return 0


def _arrivals(asked: Arrivals | None, loads: Loads) -> Arrivals | None:
    """The reading: as asked, else the one that the loads belong to; None leaves it to the resource."""
    of_loads = {
        Arrivals.CLOSED_LOOP: ("--concurrency", loads.concurrencies),
        Arrivals.POISSON: ("--rates", loads.rates),
    }
    given = [arrivals for arrivals, (_, values) in of_loads.items() if values]
    if asked is None:
        return given[0] if len(given) == 1 else None
    if given and asked not in given:
        argument = of_loads[given[0]][0]
        raise InvalidInput(
            argument,
            f"has no meaning with --arrivals {asked.value}",
            f"use {of_loads[asked][0]}, or --arrivals {given[0].value}",
        )
    return asked


def _numbers(argument: str, text: str | None, *, least: float, most: float) -> Iterator[float]:
    """The numbers of a list, each once and rising; whole ones where `least` is 1."""
    words = [word.strip() for word in text.split(",")] if text is not None else []
    if len(words) > _MOST_POINTS:
        raise InvalidInput(argument, f"has {len(words)} points", f"give at most {_MOST_POINTS}")
    whole = least == 1
    found: set[float] = set()
    for word in words:
        try:
            value = float(int(word)) if whole else float(word)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and least <= value <= most and value > 0):
            what = f"whole numbers from 1 to {_MOST_CONCURRENCY}" if whole else "numbers above 0"
            raise InvalidInput(argument, f"{word!r} is not one of the {what} that it takes", "write them as 1,2,5")
        found.add(value)
    yield from sorted(found)


def _lengths(text: str | None) -> tuple[tuple[float, float], ...]:
    if text is None:
        return ()
    pairs: list[tuple[float, float]] = []
    for word in text.split(","):
        try:
            pair = tuple(int(tokens) for tokens in word.split("/"))
        except ValueError:
            pair = ()
        if len(pair) != 2 or min(pair) < 1:
            raise InvalidInput("--lengths", f"{word.strip()!r} is not a pair of numbers above 0", _LENGTHS)
        pairs.append((float(pair[0]), float(pair[1])))
    return tuple(dict.fromkeys(pairs))


def _word(argument: str, text: str | None, of: type[_Word]) -> _Word | None:
    """The value of an enumeration that a word means; None where nothing was asked."""
    return None if text is None else one_of(of, argument, text)


def _variants(
    request: SizingRequest, models: Sequence[str], lengths: Sequence[tuple[float, float]]
) -> Iterator[SizingRequest]:
    """The request for every model and pair of lengths that was asked for; as declared where none was."""
    for name in dict.fromkeys(models) or [None]:
        of_model = request if name is None else _with_model(request, name)
        if not lengths:
            yield of_model
        for input_tokens, output_tokens in lengths:
            workload = replace(
                of_model.workload,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                input_tokens_p99=None,
                output_tokens_p99=None,
                input_token_quantiles=(),
                output_token_quantiles=(),
            )
            yield replace(of_model, workload=workload, pinned=None)


def _with_model(request: SizingRequest, name: str) -> SizingRequest:
    """The same traffic and SLA with another model.

    The declared precision, architecture and pinned configuration are those of the declared model: another one gets its
    own chosen.
    """
    if name == request.model:
        return request
    model = resolve_model(name, field="--model")
    if request.architecture is None and resolve_model(request.model).name == model.name:
        return request
    return replace(request, model=model.name, precision=None, architecture=None, pinned=None)


_Subjects = Sequence[tuple[str, Sequence[Study]]]


def _grouping(subjects: _Subjects) -> Grouping:
    """Choose what is colored where nothing was asked: the first of models and lengths of which there are several."""
    studies = [s for _, of_one in subjects for s in of_one]
    if len({s.model for s in studies}) > 1:
        return Grouping.MODEL
    return Grouping.LENGTHS if len({s.lengths for s in studies}) > 1 else Grouping.TENSOR_PARALLEL


def _nothing(subjects: _Subjects) -> int:
    """Say why there is no curve at all: the model fits nowhere, or no replica does any of the rates."""
    for _, studies in subjects:
        for s in studies:
            if s.sizing.feasible:
                raise InvalidInput("--rates", f"{s.left_out[0].reason}, nor for any configuration", "give lower rates")
            print(f"firsttoken: {s.model}: {s.sizing.reason}", file=sys.stderr)
    return INFEASIBLE


def _tell_what_is_missing(subjects: _Subjects) -> None:
    for _, studies in subjects:
        for one in (one for s in studies for one in s.left_out):
            print(f"left out {one.key.model} {configuration_name(one.key)}: {one.reason}", file=sys.stderr)
