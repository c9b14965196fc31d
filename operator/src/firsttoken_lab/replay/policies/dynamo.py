"""NVIDIA Dynamo's planner, the program itself: a process in an environment of its own, stepped through the replay.

Its own are the load predictors, the throughput scaling of its SLA target, the engine performance model and the pipeline
around them (`benchmarks/peers/dynamo/bridge.py` names the classes); its defaults but for the predictor. Replaced are
its metrics source, by `View.gateway` (its frontend counts requests as they start), its connector, by the replay, and
the profile of the engine, by forward passes of the step model. While metrics are out it is not asked, as it skips an
interval without traffic data. NB: that is the kind reading: outages that it took for zeros are in its issues.

Not replayed: its load scaling, which is off by default, and its tuning on live forward passes. Give it the step model
that the replicas really have, which is what that tuning would find.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from firsttoken_lab.replay.policies.view import Unavailable, View
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.step.model import StepModel

ADJUSTMENT_SECONDS = 180
"""`throughput_adjustment_interval_seconds`, by default."""
NO_ITL_LIMIT_MILLISECONDS = 1e6
_PEERS = Path(__file__).resolve().parents[5] / "benchmarks" / "peers"
_STOP_SECONDS = 10.0
_BATCHES, _PROMPTS_IN_A_STEP, _CONTEXTS = 8, (0, 1, 2, 4), (0.75, 1.25)
"""Forward passes of its profile: 64, as many as it keeps."""


class Predictor(StrEnum):
    """`load_predictor`: what the next interval brings.

    NB: its default is ARIMA, whose order it chooses from the first five intervals for good. Poisson arrivals on a daily
    wave look like noise to it there, and it forecasts the mean of all history: over 240 intervals of 900 requests on
    average its RMSE was 279 requests, Constant's 32 and Kalman's 21. A fit also takes longer with every interval.
    """

    CONSTANT = "constant"
    KALMAN = "kalman"
    ARIMA = "arima"


@dataclass(frozen=True, slots=True)
class Engine:
    """One replica, and the mean request that its profile is made for."""

    step: StepModel
    tokens_per_step: int
    kv_cache_tokens: int | None
    input_tokens: float
    output_tokens: float
    cached_input_share: float = 0.0
    """0 to below 1: in the prefix cache, so that no step computes it."""

    def forward_passes(self) -> list[tuple[int, int, int, int, float]]:
        """Steps over the range of the engine: prompts, their tokens, sequences, their context, seconds.

        Its model is linear in prompt tokens and context. Mean prompts, and sequences half way through their answer,
        make it exact where the replay's requests are.
        """
        computed = self.input_tokens * (1 - self.cached_input_share)
        per_token = float(self.step.prefill_seconds(computed, self.input_tokens - computed)) / computed
        passes = []
        for sequences in np.unique(np.linspace(1, self.step.max_batch, _BATCHES).round().astype(int)).tolist():
            for share in _CONTEXTS:
                context = round(sequences * share * (self.input_tokens + self.output_tokens / 2))
                decode = float(self.step.decode_seconds(float(sequences), float(context)))
                for prompts in _PROMPTS_IN_A_STEP:
                    tokens = min(round(prompts * computed), self.tokens_per_step)
                    passes.append((prompts, tokens, sequences, context, decode + per_token * tokens))
        return passes


def planner_command() -> tuple[str, ...]:
    """Command that starts the bridge in the planner's environment. Raises `Unavailable` with the one that makes it."""
    environment, bridge = _PEERS / "environment.py", _PEERS / "dynamo" / "bridge.py"
    if not bridge.exists():
        raise Unavailable("Dynamo's planner is replayed from a checkout of the repository only: clone it, run it there")
    found = subprocess.run([sys.executable, str(environment), "dynamo"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise Unavailable(
            "the environment of Dynamo's planner is not installed (32 packages, 560 MB): "
            f"{sys.executable} {environment} dynamo --install"
        )
    return found.stdout.strip(), str(bridge)


class Dynamo:
    """The planner for one aggregated engine type. Needs `View.gateway`. The process starts at the first tick."""

    name = "dynamo"

    def __init__(
        self,
        engine: Engine,
        ttft_milliseconds: float,
        itl_milliseconds: float | None,
        initial: int,
        maximum: int,
        minimum: int = 1,
        predictor: Predictor = Predictor.KALMAN,
        interval_seconds: int = ADJUSTMENT_SECONDS,
        command: Sequence[str] | None = None,
    ) -> None:
        """`ttft_milliseconds`, `itl_milliseconds`: its SLA; it asks for a TTFT limit and can do without the other.

        It knows of no percentile and of no queue, so a limit below the real one is its margin. `minimum` is its
        `min_endpoint`. `command` None is `planner_command()`, which may raise `Unavailable`.
        """
        self.interval_seconds = float(interval_seconds)
        self.initial = initial
        self._command = tuple(planner_command() if command is None else command)
        self._setup = {
            "intervalSeconds": interval_seconds,
            "predictor": predictor.value,
            "ttftMilliseconds": ttft_milliseconds,
            "itlMilliseconds": NO_ITL_LIMIT_MILLISECONDS if itl_milliseconds is None else itl_milliseconds,
            "minReplicas": minimum,
            "maxReplicas": maximum,
            "tokensPerStep": engine.tokens_per_step,
            "maxBatch": engine.step.max_batch,
            "kvCacheTokens": engine.kv_cache_tokens,
            "forwardPasses": engine.forward_passes(),
        }
        self._process: subprocess.Popen[str] | None = None
        self.reasons: list[str | None] = []
        """Reasons of what it decided, in its own words, one a tick; None where it said nothing."""

    def desired(self, view: View) -> int:
        """One adjustment interval; where the planner has no target, what is there."""
        if view.is_blind:
            self.reasons.append(None)
            return view.replicas
        if view.gateway is None:
            raise InvalidInput("view.gateway", "is missing", "Dynamo scales on what its frontend counts")
        seen = view.gateway.seen(self.interval_seconds)
        answer = self._ask(
            {
                "ready": view.ready,
                "replicas": view.replicas,
                "started": seen.started,
                "seconds": self.interval_seconds,
                # Prometheus has no mean of nothing, for which its metrics source takes 0.
                "inputTokens": seen.mean_input_tokens or 0.0,
                "outputTokens": seen.mean_output_tokens or 0.0,
                "cachedInputShare": seen.cached_input_share or 0.0,
            }
        )
        self.reasons.append(answer["reason"])
        return view.replicas if answer["replicas"] is None else max(1, int(answer["replicas"]))

    def _ask(self, seen: dict[str, Any]) -> Any:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(seen) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            status = process.wait()
            raise Unavailable(f"Dynamo's planner ended with status {status}; its messages are above")
        return json.loads(answer)

    def _start(self) -> subprocess.Popen[str]:
        # One thread: the linear algebra is tiny, and replays run side by side.
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )
        self._process = process
        weakref.finalize(self, _stop, process)
        assert process.stdin is not None
        process.stdin.write(json.dumps(self._setup) + "\n")
        return process


def _stop(process: subprocess.Popen[str]) -> None:
    """The planner ends with its input; one that does not is killed."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
