"""A deployment that is declared on the command line, for a first answer without YAML."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from firsttoken_operator.api.base import API_VERSION
from firsttoken_operator.api.documents import Documents, parse_documents
from firsttoken_operator.api.inference_deployment import KIND
from firsttoken_sizing.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Flag:
    """One argument, and the field of the spec that it stands for."""

    name: str
    field: str
    metavar: str
    explanation: str
    read: Callable[[str], Any] = str
    required: bool = True


def _names(text: str) -> list[str]:
    return text.split(",")


FLAGS = (
    Flag("--model", "model.name", "NAME", "such as meta-llama/Llama-3.1-8B-Instruct; firsttoken models lists them"),
    Flag("--gpu", "hardware.gpus", "NAME", "such as H100-SXM-80GB; firsttoken gpus lists them", _names),
    Flag("--input-tokens", "traffic.inputTokens", "N", "mean tokens of a prompt", int),
    Flag("--output-tokens", "traffic.outputTokens", "N", "mean tokens of an answer", int),
    Flag("--rps", "traffic.peakRequestsPerSecond", "R", "requests a second at the peak"),
    Flag("--ttft", "sla.timeToFirstToken.milliseconds", "MS", "limit on the time to first token (TTFT), P95", int),
    Flag("--precision", "model.precision", "NAME", "such as FP8; default: chosen by the sizing", required=False),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add every flag."""
    group = parser.add_argument_group("instead of -f", "One deployment, said in a line.")
    for flag in FLAGS:
        group.add_argument(flag.name, dest=flag.field, metavar=flag.metavar, help=flag.explanation)


def declared(args: argparse.Namespace) -> Documents | None:
    """The deployment of the flags; None where there are none.

    Raises `InvalidInput` where one is missing or a file is named as well, `InvalidDocument` for what the API refuses.
    """
    given = {flag: text for flag in FLAGS if (text := getattr(args, flag.field, None)) is not None}
    if not given:
        return None
    if args.filename:
        raise InvalidInput(next(iter(given)).name, "has no meaning with -f", "leave one of them out")
    if absent := [flag.name for flag in FLAGS if flag.required and flag not in given]:
        which, it = ("are", "them") if len(absent) > 1 else ("is", "it")
        raise InvalidInput(", ".join(absent), f"{which} missing", f"add {it}, or give a file: -f FILE")
    spec: dict[str, Any] = {}
    for flag, text in given.items():
        *path, last = flag.field.split(".")
        part = spec
        for key in path:
            part = part.setdefault(key, {})
        try:
            part[last] = flag.read(text)
        except ValueError:
            raise InvalidInput(flag.name, f"{text!r} is not a whole number", "write one such as 300") from None
    name = given[FLAGS[0]].rpartition("/")[2].lower().replace(".", "-").replace("_", "-")
    spec["sla"]["timeToFirstToken"]["percentile"] = "P95"
    spec["targetRef"] = {"name": name}
    document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    return parse_documents(yaml.safe_dump(document), file="command line")
