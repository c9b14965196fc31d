"""`firsttoken models` and `firsttoken gpus`: every name that can be declared, with what the sizing knows of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from firsttoken_operator.cli.output import add_output, columns, emit
from firsttoken_sizing.catalog import Gpu, Model, gpus, models
from firsttoken_sizing.errors import InvalidInput

_HEADINGS = {
    "name": "NAME",
    "parametersBillion": "BILLION",
    "activeParametersBillion": "ACTIVE",
    "maxContextTokens": "CONTEXT",
    "memoryGiB": "GiB",
    "bandwidthGBPerSecond": "GB/s",
    "gpusPerServer": "A SERVER",
    "precisions": "PRECISIONS",
}
"""Headings of the table; the aliases and the node label are in the JSON."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of both commands."""
    parser.add_argument("text", nargs="?", default="", metavar="TEXT", help="only names and aliases that contain it")
    add_output(parser, ("table", "json"))


def run(args: argparse.Namespace) -> int:
    """List what was asked for. Raises `InvalidInput` where no name contains the text."""
    wanted = args.text.casefold()
    known: Sequence[Model | Gpu] = models() if args.command == "models" else gpus()
    found = [e for e in known if any(wanted in name.casefold() for name in (e.name, *e.aliases))]
    if not found:
        raise InvalidInput("TEXT", f"no name contains {args.text!r}", f"see all: firsttoken {args.command}")
    rows = [_model(entry) if isinstance(entry, Model) else _gpu(entry) for entry in found]
    emit((f"{json.dumps(rows, indent=2)}\n" if args.output == "json" else _lines(rows)).encode(), args.out)
    return 0


def _model(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "parametersBillion": model.parameters_billion,
        "activeParametersBillion": model.active_parameters_billion,
        "maxContextTokens": model.max_context_tokens,
        "precisions": sorted(model.published_precisions),
        "aliases": list(model.aliases),
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "memoryGiB": round(gpu.memory_gib, 1),
        "bandwidthGBPerSecond": gpu.memory_bandwidth_gb_per_second,
        "precisions": sorted(gpu.dense_tflops),
        "gpusPerServer": gpu.gpus_per_server,
        "nodeLabel": gpu.node_label,
        "aliases": list(gpu.aliases),
    }


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    keys = [key for key in _HEADINGS if key in rows[0]]
    cells = [[_HEADINGS[key] for key in keys], *([_cell(row[key]) for key in keys] for row in rows)]
    return "".join(f"{line}\n" for line in columns(cells))


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return "-" if value is None else f"{value:,g}" if isinstance(value, int | float) else str(value)
