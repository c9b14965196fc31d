"""Run by AIConfigurator's own Python: estimates of in-flight batching, JSON in and out.

In: a list of {"model", "system", "fp8", "tensorParallel", "inputTokens", "outputTokens", "concurrency"}. Out: one
object for each, with its rate (requests/s) and latencies (ms), or null where it finds that the model does not fit.

Its defaults (agg mode, trtllm, newest data, one prompt in a step: `ctx_tokens` = ISL), with the quantization that the
measured engine had. `concurrency` is its batch size.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from functools import cache
from typing import Any

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

from aiconfigurator.cli.api import cli_estimate  # type: ignore[import-not-found]  # noqa: E402
from aiconfigurator.sdk.perf_database import get_latest_database_version  # type: ignore[import-not-found]  # noqa: E402


@cache
def newest(system: str) -> Any:
    """The version that `cli_estimate` takes when it is given none; looking it up takes seconds each time."""
    return get_latest_database_version(system=system, backend="trtllm")


def estimate(question: dict[str, Any]) -> dict[str, float] | None:
    bits = "fp8" if question["fp8"] else "bfloat16"
    try:
        found = cli_estimate(
            question["model"],
            question["system"],
            backend_version=newest(question["system"]),
            isl=question["inputTokens"],
            osl=question["outputTokens"],
            batch_size=question["concurrency"],
            tp_size=question["tensorParallel"],
            gemm_quant_mode=bits,
            kvcache_quant_mode=bits,
        )
    except RuntimeError as error:
        if "OOM" in str(error):
            return None
        raise
    return {
        "requestsPerSecond": float(found.seq_per_second),
        "ttftMilliseconds": float(found.ttft),
        "itlMilliseconds": float(found.tpot),
        "endToEndMilliseconds": float(found.request_latency),
    }


if __name__ == "__main__":
    answers = [estimate(question) for question in json.load(sys.stdin)]
    json.dump(answers, sys.stdout)
