"""`firsttoken size`: the same YAML that `kubectl apply` takes, sized on a laptop without a cluster.

Exit status 0: sized; 3: an SLA that no size meets (the output says why and what would).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from firsttoken_operator.api.convert import place
from firsttoken_operator.api.documents import Documents
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.cli.flags import add_flags
from firsttoken_operator.cli.output import add_file, emit, emit_tables, local_file, write
from firsttoken_operator.cli.question import Sources, add_arguments, check_number, read, title
from firsttoken_operator.cli.scheduled import SizedWindow, sized_windows
from firsttoken_operator.cli.start_flags import starts
from firsttoken_sizing.catalog import resolve_gpu
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize import size
from firsttoken_sizing.optimize.places import PlacedSizing, in_places
from firsttoken_sizing.optimize.together import Together, together
from firsttoken_sizing.report.document import places_json, sizing_json
from firsttoken_sizing.report.pictures import PictureFormat, draw
from firsttoken_sizing.report.together import together_json
from firsttoken_sizing.request import Sizing, SizingRequest
from firsttoken_sizing.workload import Arrivals, GpuOrder, SlaMode

if TYPE_CHECKING:
    from rich.console import RenderableType

INFEASIBLE = 3
_ON_DEMAND = "--on-demand-percent"
_OTHER = {Arrivals.POISSON: Arrivals.CLOSED_LOOP, Arrivals.CLOSED_LOOP: Arrivals.POISSON}


@dataclass(frozen=True, slots=True)
class SizedDeployment:
    """One deployment's sizing, and the same under the other kind of arrivals (or why there is none)."""

    deployment: InferenceDeployment
    sizing: Sizing
    other_arrivals: Sizing | str
    windows: tuple[SizedWindow, ...]
    """Those of the declared schedule."""
    pools: tuple[PlacedSizing, ...]
    """The same in every pool of the file that has one of its GPUs; empty where there is nothing to compare."""
    together: Together | None
    """The cheapest mix of those pools; None where there is nothing to mix."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `firsttoken size`."""
    add_arguments(parser)
    add_flags(parser)
    formats, explanation = (
        ("table", "json", "yaml", "flags"),
        "format of the answer, or the flags of the servers that can run it; default: table",
    )
    parser.add_argument("-o", "--output", type=_format, choices=formats, default="table", help=explanation)
    add_file(parser)
    parser.add_argument(
        _ON_DEMAND,
        type=float,
        metavar="PERCENT",
        help="share of the peak that must be carried without spot, where pools have a spotGPUHour; default: 100",
    )
    parser.add_argument(
        "--plot",
        type=local_file,
        metavar="FILE.html|.png",
        help="also draw latency against the rate of one replica (extra `plots`)",
    )


def run(args: argparse.Namespace) -> int:
    """Size every InferenceDeployment of the file and print the answers."""
    picture = _picture_format(args.plot) if args.plot is not None else None
    check_number(_ON_DEMAND, args.on_demand_percent, 100, or_zero=True)
    sources = read(args)
    answers = [_answer(d, sources, args) for d in sources.documents.deployments]
    if picture is not None:
        _write_plot(answers, args.plot, picture)
    if args.output == "table":
        emit_tables(_tables(answers), args.out)
    elif args.output == "flags":
        emit("\n".join(_flags(answers)).encode(), args.out)
    else:
        emit(_documents(answers, args.output).encode(), args.out)
    return 0 if all(answer.sizing.feasible for answer in answers) else INFEASIBLE


def _format(text: str) -> str:
    if text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is no format; the length of an answer is --output-tokens")
    return text


def _picture_format(file: Path) -> PictureFormat:
    try:
        return PictureFormat(file.suffix.removeprefix("."))
    except ValueError:
        raise InvalidInput(
            "--plot", f"{file.name}: a picture is HTML or PNG", "name a file FILE.html or FILE.png"
        ) from None


def _answer(deployment: InferenceDeployment, sources: Sources, args: argparse.Namespace) -> SizedDeployment:
    request = sources.request(deployment, args.arrivals, args.percentile)
    sizing = size(request)
    windows = sized_windows(deployment, sizing)
    sizing = _within_bounds(sizing, windows, deployment, sources.documents)
    other = _other_arrivals(request, sizing)
    placed = _in_pools(request, sources.documents, args.on_demand_percent)
    listed = request.hardware.gpus if request.hardware.gpu_order is GpuOrder.LISTED else ()
    mixed = together(placed, 100.0 if args.on_demand_percent is None else args.on_demand_percent, listed)
    return SizedDeployment(deployment, sizing, other, windows, placed, mixed)


def _in_pools(
    request: SizingRequest, documents: Documents, on_demand_percent: float | None
) -> tuple[PlacedSizing, ...]:
    """The request in every pool with a GPU that it allows, where several, or spot, can be compared in one of them.

    Raises `InvalidInput` where a share may be on spot and no pool has a price for that.
    """
    allowed = {resolve_gpu(name).name for name in request.hardware.gpus}
    places = [p for p in map(place, documents.pools.values()) if p.gpu in allowed]
    if on_demand_percent is not None and not any(p.pricing and p.pricing.spot_gpu_hour is not None for p in places):
        raise InvalidInput(
            _ON_DEMAND,
            "no GPUPool of the file with one of hardware.gpus has a price on spot",
            "set its spec.pricing.spotGPUHour, or leave this out",
        )
    try:
        return in_places(request, places) if len(places) > 1 or on_demand_percent is not None else ()
    except InvalidInput:
        return ()


def _other_arrivals(request: SizingRequest, sizing: Sizing) -> Sizing | str:
    """The same question under the other arrivals, for the configuration that was chosen."""
    if request.sla.mode is SlaMode.OFFLINE:
        return "an offline job keeps the batch full, so there is one reading only"
    pinned = sizing.configuration or request.pinned
    return size(replace(request, arrivals=_OTHER[sizing.arrivals], pinned=pinned))


def _within_bounds(
    sizing: Sizing, windows: Sequence[SizedWindow], deployment: InferenceDeployment, documents: Documents
) -> Sizing:
    """The sizing with a warning for each bound, of the resource or its pool, that is missing or below the size.

    The size is that of the declared peak, or of the largest window of the schedule where that is more.
    """
    warnings = [*sizing.warnings]
    spec = deployment.spec
    most = spec.scaling.max_replicas
    replicas, gpus, what = sizing.replicas, sizing.gpus, "the declared peak"
    largest = max(windows, key=lambda window: window.replicas, default=None)
    if largest is not None and largest.replicas > replicas:
        replicas, gpus, what = largest.replicas, largest.gpus, "the largest peak of traffic.schedule"
    if most is not None and replicas > most:
        warnings.append(
            f"MaxReplicasTooLow: {what} needs {replicas} replicas, scaling.maxReplicas is {most};"
            " raise it or declare a lower peak"
        )
    pool = documents.pools.get(spec.capacity.pool or "")
    if spec.capacity.pool is not None and pool is None:
        warnings.append(
            f"PoolNotFound: GPUPool {spec.capacity.pool} is not in the file, so its prices and budget are not known;"
            " add it"
        )
    if pool is not None and pool.spec.peak_gpus is not None and gpus > pool.spec.peak_gpus:
        warnings.append(
            f"PoolTooSmall: {what} needs {gpus} GPUs, GPUPool {pool.metadata.name} has peakGPUs"
            f" {pool.spec.peak_gpus}; raise it or declare a lower peak"
        )
    return replace(sizing, warnings=tuple(warnings))


def _tables(answers: Iterable[SizedDeployment]) -> Iterator[RenderableType]:
    # NB: imported here, because a document needs no rich.
    from rich.text import Text

    from firsttoken_sizing.report.places import places_table
    from firsttoken_sizing.report.table import sizing_table
    from firsttoken_sizing.report.together import together_table

    for answer in answers:
        yield sizing_table(title(answer.deployment), answer.sizing, answer.other_arrivals)
        yield from (Text(window.sentence()) for window in answer.windows)
        if answer.pools:
            yield places_table(answer.pools)
        if answer.together is not None:
            yield together_table(answer.together)


def _flags(answers: Iterable[SizedDeployment]) -> Iterator[str]:
    for answer in answers:
        key = answer.sizing.configuration
        if answer.sizing.feasible and key is not None:
            yield f"# {title(answer.deployment)}\n"
            yield from starts(answer.deployment, key, answer.sizing.request.engine)
        else:
            yield f"# {title(answer.deployment)}: {answer.sizing.reason}\n"


def _write_plot(answers: Iterable[SizedDeployment], file: Path, picture: PictureFormat) -> None:
    from firsttoken_sizing.report.sizing_figure import sizing_figure

    sizings = [
        (title(answer.deployment), sizing)
        for answer in answers
        for sizing in (answer.sizing, answer.other_arrivals)
        if isinstance(sizing, Sizing)
    ]
    write(draw(sizing_figure(sizings), picture), file, "--plot")


def _documents(answers: list[SizedDeployment], output: str) -> str:
    documents: list[dict[str, Any]] = [
        {
            "namespace": a.deployment.metadata.namespace,
            "name": a.deployment.metadata.name,
            **sizing_json(a.sizing, a.other_arrivals),
            "schedule": [window.document() for window in a.windows],
            "pools": places_json(a.pools),
            "mix": together_json(a.together),
        }
        for a in answers
    ]
    document = documents[0] if len(documents) == 1 else documents
    return json.dumps(document, indent=2) + "\n" if output == "json" else yaml.safe_dump(document, sort_keys=False)
