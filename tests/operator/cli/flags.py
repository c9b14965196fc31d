"""The arguments of a deployment that is declared on the command line."""

from __future__ import annotations


def flags(model: str, gpus: str) -> tuple[str, ...]:
    return (
        *("--model", model, "--gpu", gpus, "--input-tokens", "2000", "--output-tokens", "200"),
        *("--rps", "20", "--ttft", "300"),
    )
