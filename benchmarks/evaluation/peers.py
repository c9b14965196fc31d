"""Predictions of AIConfigurator 0.12 for the points of nim_dli.csv: the peer's errors, from the same run as ours.

It runs in its own environment (`peers/environment.py`); without it there are no figures, never remembered ones. It is
not fitted to these points and knows another engine: its A100 data are of TensorRT-LLM 1.0, its H100 data of 1.3, while
the points are of NIM in the middle of 2024, and its Llama is 3.1, which has the same layers as 3. So an error of it is
what a user gets who sizes this fleet with it, not a judgment of its model of the engine it knows.

NB: asked with its defaults, of which a prompt budget of one prompt a step (`ctx_tokens`) matters most here: a larger
one gives a better rate and a TTFT that is much further off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.data import NIM, read_profiles
from firsttoken_sizing.profile import ConfigurationKey, Point
from peers.environment import ask, install, python_of

PEER = "aiconfigurator"
_MODELS = {
    "meta-llama/Meta-Llama-3-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Meta-Llama-3-70B-Instruct": "meta-llama/Meta-Llama-3.1-70B",
}
_SYSTEMS = {"H100-SXM-80GB": "h100_sxm", "A100-SXM-80GB": "a100_sxm"}


@dataclass(frozen=True, slots=True)
class Errors:
    """Absolute errors in percent of one metric, over so many points."""

    median: float
    mean: float
    points: int

    def __str__(self) -> str:
        return f"{self.median:.0f}/{self.mean:.0f} %"


def aiconfigurator_errors(data: Path, *, install_it: bool = False) -> Mapping[str, Errors] | None:
    """Errors of the peer in `requests/s`, `TTFT`, `ITL` and `E2E`; None where it is not installed, unless `install_it`.

    Over the points that are no overload windows, as in `evaluation.nim` and `evaluation.ttft`, without those that it
    refuses because they do not fit its memory model. Takes about 20 s. Raises `PeerError` where it fails.
    """
    if install_it:
        install(PEER)
    elif python_of(PEER) is None:
        return None
    asked = [
        (_question(key, profile.input_tokens, profile.output_tokens, point), point)
        for key, profiles in read_profiles(data / NIM).items()
        for profile in profiles
        for point in profile.points
        if not point.is_overload
    ]
    answers = ask(PEER, "estimate.py", [question for question, _ in asked])
    errors: dict[str, list[float]] = {"requests/s": [], "TTFT": [], "ITL": [], "E2E": []}
    for (_, point), answer in zip(asked, answers, strict=True):
        if answer is None:
            continue
        for metric, field, measured in (
            ("requests/s", "requestsPerSecond", point.requests_per_second),
            ("TTFT", "ttftMilliseconds", point.ttft.mean),
            ("ITL", "itlMilliseconds", point.itl.mean),
            ("E2E", "endToEndMilliseconds", point.end_to_end.mean),
        ):
            if measured:
                errors[metric].append(100 * abs(answer[field] / measured - 1))
    return {
        metric: Errors(float(np.median(values)), float(np.mean(values)), len(values))
        for metric, values in errors.items()
    }


def _question(key: ConfigurationKey, input_tokens: float, output_tokens: float, point: Point) -> dict[str, Any]:
    return {
        "model": _MODELS[key.model],
        "system": _SYSTEMS[key.gpu],
        "fp8": key.precision == "FP8",
        "tensorParallel": key.tensor_parallel,
        "inputTokens": round(input_tokens),
        "outputTokens": round(output_tokens),
        "concurrency": round(point.concurrency or 1),
    }
