"""`firsttoken size`: the same YAML that `kubectl apply` takes, sized on a laptop without a cluster.

Exit status 0: sized; 3: an SLA that no size meets (the output says why and what would). Bad input is an exception that
the command line turns into one line and status 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.documents import Documents, load_documents, parse_documents
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_sizing import size
from firsttoken_sizing.errors import InvalidInput, NoBenchmark
from firsttoken_sizing.report import sizing_json
from firsttoken_sizing.request import Sizing, SizingRequest
from firsttoken_sizing.workload import Arrivals, Percentile, SlaMode

INFEASIBLE = 3
_OTHER = {Arrivals.POISSON: Arrivals.CLOSED_LOOP, Arrivals.CLOSED_LOOP: Arrivals.POISSON}


@dataclass(frozen=True, slots=True)
class Answer:
    """One deployment's sizing, and the same under the other kind of arrivals (or why there is none)."""

    namespace: str
    name: str
    sizing: Sizing
    other_reading: Sizing | str

    @property
    def title(self) -> str:
        """How the deployment is called in a table."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `firsttoken size`."""
    parser.add_argument(
        "-f",
        "--filename",
        required=True,
        metavar="FILE",
        help="YAML with InferenceDeployments, and GPUPools and BenchmarkProfiles for them; - reads standard input",
    )
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table", help="default: table")
    parser.add_argument(
        "--benchmarks", type=Path, metavar="DIR-or-FILE", help="more BenchmarkProfiles: a YAML file or a folder of them"
    )
    parser.add_argument(
        "--arrivals",
        type=Arrivals,
        choices=list(Arrivals),
        metavar="{Poisson,ClosedLoop}",
        help="instead of spec.sizing.arrivals",
    )
    parser.add_argument(
        "--percentile",
        type=Percentile,
        choices=list(Percentile),
        metavar="{Mean,P50,P90,P95,P99}",
        help="instead of the percentile of every limit",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.html", help="also draw latency against the rate of one replica (plotly)"
    )


def run(args: argparse.Namespace) -> int:
    """Size every InferenceDeployment of the file and print the answers."""
    if args.plot is not None and args.plot.suffix != ".html":
        raise InvalidInput("--plot", f"{args.plot.name}: this version writes HTML only", "name a file FILE.html")
    documents = _read(args.filename)
    benchmarks = list(documents.benchmarks)
    if args.benchmarks is not None:
        benchmarks += load_documents(args.benchmarks).benchmarks
    if not documents.deployments:
        raise InvalidInput("--filename", f"{args.filename} has no InferenceDeployment", "add one")
    answers = [
        _answer(deployment, documents, benchmarks, args.arrivals, args.percentile)
        for deployment in documents.deployments
    ]
    if args.plot is not None:
        _write_plot(answers, args.plot)
    if args.output == "table":
        _print_tables(answers)
    else:
        _print_documents(answers, args.output)
    return 0 if all(answer.sizing.feasible for answer in answers) else INFEASIBLE


def _read(filename: str) -> Documents:
    return parse_documents(sys.stdin.read()) if filename == "-" else load_documents(Path(filename))


def _answer(
    deployment: InferenceDeployment,
    documents: Documents,
    benchmarks: Iterable[BenchmarkProfile],
    arrivals: Arrivals | None,
    percentile: Percentile | None,
) -> Answer:
    request = sizing_request(deployment, documents.pools, benchmarks, arrivals=arrivals, percentile=percentile)
    sizing = _within_pool(size(request), deployment, documents)
    metadata = deployment.metadata
    return Answer(metadata.namespace or "", metadata.name, sizing, _other_reading(request, sizing))


def _other_reading(request: SizingRequest, sizing: Sizing) -> Sizing | str:
    """The same question under the other arrivals, for the configuration that was chosen."""
    if request.sla.mode is SlaMode.OFFLINE:
        return "an offline job keeps the batch full, so there is one reading only"
    pinned = sizing.configuration or request.pinned
    try:
        return size(replace(request, arrivals=_OTHER[sizing.arrivals], pinned=pinned))
    except NoBenchmark as error:
        return f"{_OTHER[sizing.arrivals].value} cannot be read: {error}"


def _within_pool(sizing: Sizing, deployment: InferenceDeployment, documents: Documents) -> Sizing:
    """The sizing with a warning where it needs more GPUs than its pool may ever give."""
    pool = documents.pools.get(deployment.spec.capacity.pool or "")
    if pool is None or pool.spec.peak_gpus is None or sizing.gpus <= pool.spec.peak_gpus:
        return sizing
    warning = (
        f"PoolTooSmall: the declared peak needs {sizing.gpus} GPUs, GPUPool {pool.metadata.name} has peakGPUs"
        f" {pool.spec.peak_gpus}; raise it or declare a lower peak"
    )
    return replace(sizing, warnings=(*sizing.warnings, warning))


def _print_tables(answers: Iterable[Answer]) -> None:
    from rich.console import Console

    from firsttoken_sizing.report.table import sizing_table

    console = Console()
    for answer in answers:
        console.print(sizing_table(answer.title, answer.sizing, answer.other_reading), soft_wrap=False)


def _write_plot(answers: Iterable[Answer], file: Path) -> None:
    from firsttoken_sizing.report.plot import sizing_plot

    readings = [
        (answer.title, reading)
        for answer in answers
        for reading in (answer.sizing, answer.other_reading)
        if isinstance(reading, Sizing)
    ]
    try:
        file.write_text(sizing_plot(readings), encoding="utf-8")
    except OSError as error:
        raise InvalidInput("--plot", f"{file}: {error.strerror}", "name a file that can be written") from error


def _print_documents(answers: list[Answer], output: str) -> None:
    documents: list[dict[str, Any]] = [
        {"namespace": a.namespace, "name": a.name, **sizing_json(a.sizing, a.other_reading)} for a in answers
    ]
    document = documents[0] if len(documents) == 1 else documents
    if output == "json":
        print(json.dumps(document, indent=2))
    else:
        print(yaml.safe_dump(document, sort_keys=False), end="")
