"""Arguments that `size`, `curve`, `simulate` and `replay` share: those that say what is sized."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.documents import Documents, load_documents, parse_documents
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.workload import Arrivals, Percentile


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that was read: the custom resources of the file, and the benchmarks of it and of `--benchmarks`."""

    documents: Documents
    benchmarks: tuple[BenchmarkProfile, ...]

    def request(
        self, deployment: InferenceDeployment, arrivals: Arrivals | None, percentile: Percentile | None
    ) -> SizingRequest:
        """The sizing question of one of the deployments, with what the command line overrides."""
        return sizing_request(
            deployment, self.documents.pools, self.benchmarks, arrivals=arrivals, percentile=percentile
        )


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add `-f` and `--benchmarks`."""
    parser.add_argument(
        "-f",
        "--filename",
        required=True,
        metavar="FILE",
        help="YAML with InferenceDeployments, and GPUPools and BenchmarkProfiles for them; - reads standard input",
    )
    parser.add_argument(
        "--benchmarks", type=Path, metavar="DIR-or-FILE", help="more BenchmarkProfiles: a YAML file or a folder of them"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `-f`, `--benchmarks`, `--arrivals` and `--percentile`."""
    add_files(parser)
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


def read(args: argparse.Namespace) -> Sources:
    """Read the files that the arguments name. Raises `InvalidInput` where there is no InferenceDeployment."""
    name: str = args.filename
    documents = parse_documents(sys.stdin.read()) if name == "-" else load_documents(Path(name))
    if not documents.deployments:
        raise InvalidInput("--filename", f"{name} has no InferenceDeployment", "add one")
    more = load_documents(args.benchmarks).benchmarks if args.benchmarks is not None else ()
    return Sources(documents, (*documents.benchmarks, *more))


def title(deployment: InferenceDeployment) -> str:
    """Name of a deployment in tables and pictures."""
    metadata = deployment.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def check_number(argument: str, value: float | None, most: float = math.inf, *, or_zero: bool = False) -> None:
    """Refuse a number that is not above 0 (with `or_zero`: below 0), not finite, or above `most`; None: not given."""
    if value is None or (math.isfinite(value) and value <= most and (value > 0 or (or_zero and value == 0))):
        return
    lower, upper = "of 0 or more" if or_zero else "above 0", "" if most == math.inf else f", at most {most:g}"
    raise InvalidInput(argument, f"{value:g} is out of range", f"use a number {lower}{upper}")


def check_seed(seed: int) -> None:
    """Refuse a seed that no generator takes."""
    if seed < 0:
        raise InvalidInput("--seed", f"{seed} is negative", "use 0 or more")
