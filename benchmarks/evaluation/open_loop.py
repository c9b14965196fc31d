"""Latencies of real vLLM under open load, with one model left out: the stages of sim2real_vllm_openloop.csv.

The constants of this release of vLLM are drawn to those of the silicon sample and fitted to the stages of the other
models. From those models come also two things that the file does not say: what the server adds to every first
token, and the share of a prompt that prefix caching left to compute (the file names a shared prefix, but sessions come
back with their history, too).

NB: the ITL of the file is E2E over output tokens, whatever it is called: that is what is predicted for it. Its summary
lines (stage -1) are left out; they mix rates. P99 of TTFT in stages that began before the server was warm
(`before_warm`) are judged with the others; a row more says what is left without them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from evaluation import silicon
from evaluation.data import key_of, read_rows
from evaluation.engine_fit import START, Entry, Observation, cost, fit
from evaluation.row import Figure, Row, absolute_errors
from firsttoken_sizing.catalog import Gpu, Model, resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.engines.vllm import RELEASE_0_15
from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey, Point
from firsttoken_sizing.step.calibration import Calibration, constants, groups_of
from firsttoken_sizing.step.floor import at_least, least_constants
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.prior import StepWork, work_of

FILE = "sim2real_vllm_openloop.csv"
RELEASE = RELEASE_0_15
"""Release of vLLM."""
GOALS = {"TTFT mean": 17.6, "TTFT p99": 29.0, "ITL": 7.1, "E2E": 6.7}
"""Errors in percent that BLIS reaches on runs of its own."""
_TAIL = "TTFT p99"
_SHARED_PREFIX_TOKENS = 125.0
"""The file says 100 to 150."""
_COMPUTED_SHARES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Candidates for the share of the rest of a prompt that is computed."""
_RELEASE_SPREAD = 1.0
"""Spread of the constants of a release around those of the engine (standard deviation of the logarithm). Without a
model, leaving out each of the other two in turn, 1 and 2 meet the time between tokens better than 0.25 and 0.5."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of constant rate. Latencies in milliseconds."""

    model: Model
    gpu: Gpu
    key: ConfigurationKey
    input_tokens: float
    output_tokens: float
    requests_per_second: float
    scheduler: Scheduler
    latencies: Mapping[str, float]
    """Latencies by the names of `GOALS`."""
    run: str = ""
    """The server that ran the stage, and others with other rates."""

    @property
    def step_seconds(self) -> float:
        """Mean time between two tokens of a request."""
        return (self.latencies["E2E"] - self.latencies["TTFT mean"]) / 1000 / (self.output_tokens - 1)

    def lengths(self, computed_share: float) -> Lengths:
        """Lengths, of which `computed_share` of the prompt behind the shared prefix is computed."""
        computed = computed_share * (self.input_tokens - _SHARED_PREFIX_TOKENS)
        return Lengths(self.input_tokens, computed, self.output_tokens)


@dataclass(frozen=True, slots=True)
class Server:
    """Configuration of the server that ran the stages."""

    entry: Entry
    computed_share: float
    overhead_ms: float
    """Time that HTTP, tokenizer and the like add to the first token."""


def read(data: Path) -> list[Stage]:
    """Every stage of the file."""
    return [_stage(row) for row in read_rows(data / FILE) if "stage=-1" not in row["notes"]]


def learn(data: Path, stages: Sequence[Stage], without: str | None = None) -> Server:
    """The server by these stages and the silicon sample, both without the model of that name.

    The computed share is the one with which the stages themselves are met best.
    """
    known = [stage for stage in stages if stage.key.model != without]
    start = _start(data, without, groups_of(known[0].gpu, known[0].key.precision, known[0].model)[:2])
    candidates = [_server(known, start, share) for share in _COMPUTED_SHARES]
    return min(candidates, key=lambda server: _misfit(server, known))


def predict(stage: Stage, server: Server) -> dict[str, float]:
    """Latencies of a stage in milliseconds, by the names of `GOALS`."""
    ttft, ttft_p99, end_to_end = _without_overhead(stage, server.entry, server.computed_share)
    return {
        "TTFT mean": ttft + server.overhead_ms,
        "TTFT p99": ttft_p99 + server.overhead_ms,
        "ITL": (end_to_end + server.overhead_ms) / stage.output_tokens,
        "E2E": end_to_end + server.overhead_ms,
    }


def entry_of(data: Path) -> tuple[Entry, int, int]:
    """The constants of this release by every stage, and from how many stages and configurations they are."""
    stages = read(data)
    return learn(data, stages).entry, len(stages), len({stage.key for stage in stages})


def before_warm(stages: Sequence[Stage]) -> list[bool]:
    """Tell for each stage whether its P99 of TTFT is above that of another stage of its run with a higher rate.

    More load does not shorten a tail: there the first requests met a server that still compiled and captured graphs. By
    more than a quarter, as curves of the silicon sample are unsound whose throughput falls by a fifth. Nothing that is
    predicted enters.
    """

    def is_before_warm(stage: Stage) -> bool:
        more_loaded = (o for o in stages if o.run == stage.run and o.requests_per_second > stage.requests_per_second)
        return any(o.latencies[_TAIL] < silicon.STEADY * stage.latencies[_TAIL] for o in more_loaded)

    return [is_before_warm(stage) for stage in stages]


def errors_left_out(data: Path, stages: Sequence[Stage]) -> dict[str, list[float]]:
    """Errors in percent by latency, in the order of the stages: each predicted without any point of its model."""
    servers = {model: learn(data, stages, without=model) for model in {stage.key.model for stage in stages}}
    errors = [_errors(stage, servers[stage.key.model]) for stage in stages]
    return {name: [of_stage[name] for of_stage in errors] for name in GOALS}


def rows(data: Path) -> list[Row]:
    """A row for each latency, its mean error held against the goal, then P99 without stages that began too early."""
    stages = read(data)
    errors, early = errors_left_out(data, stages), before_warm(stages)
    tail = errors[_TAIL]
    warm = [error for error, is_early in zip(tail, early, strict=True) if not is_early]
    too_early = [error for error, is_early in zip(tail, early, strict=True) if is_early]
    found = [_row(name, of_all, GOALS[name]) for name, of_all in errors.items()]
    apart = _row(f"{_TAIL}, of servers that were warm", warm)
    others = Figure("mean of the others", absolute_errors(too_early)[1].value)
    return [*found, replace(apart, figures=(*apart.figures, others))]


def _row(name: str, errors: Sequence[float], goal: float | None = None) -> Row:
    peer = f"BLIS {goal:g}, its own 36 runs" if goal else "-"
    return Row(f"vLLM, open loop, {name}", "a model", len(errors), absolute_errors(errors, mean=goal), peer)


def _stage(row: dict[str, str]) -> Stage:
    budget = re.search(r"max_num_batched_tokens=([0-9]+)", row["notes"])
    run = re.search(r"exp=(.+)", row["notes"])
    # A defect of the file, else.
    assert budget is not None
    assert run is not None
    key = key_of(row)
    return Stage(
        model=resolve_model(key.model),
        gpu=resolve_gpu(key.gpu),
        key=key,
        input_tokens=float(row["input_len"]),
        output_tokens=float(row["output_len"]),
        requests_per_second=float(row["request_rate_rps"]),
        scheduler=replace(Engine.VLLM.spec.release(RELEASE).scheduler, tokens_per_step=int(budget[1])),
        latencies={
            "TTFT mean": float(row["ttft_ms_avg"]),
            "TTFT p99": float(row["ttft_ms_p99"]),
            "ITL": float(row["itl_ms_avg"]),
            "E2E": float(row["e2e_ms_avg"]),
        },
        run=run[1],
    )


def _start(data: Path, without: str | None, groups: Iterable[str]) -> dict[str, float]:
    """Constants of vLLM by the silicon sample without a model."""
    entry = silicon.entry_of(c for c in _silicon(data) if c.key.model != without)
    return {term: value for term, value in asdict(constants(entry, groups)).items() if value > 0}


@cache
def _silicon(data: Path) -> tuple[silicon.Case, ...]:
    return tuple(silicon.sound([case for case in silicon.read(data) if case.engine == "vllm"]))


def _server(stages: Sequence[Stage], start: Mapping[str, float], computed_share: float) -> Server:
    entry = fit([_observation(stage, computed_share) for stage in stages], start, _RELEASE_SPREAD)
    waits = [stage.latencies["TTFT mean"] - _without_overhead(stage, entry, computed_share)[0] for stage in stages]
    return Server(entry, computed_share, max(0.0, float(np.median(waits))))


def _observation(stage: Stage, computed_share: float) -> Observation:
    """The time between two tokens, at the batch that Little's law gives for the measured latencies.

    No groups: three models on one GPU cannot tell what is whose.
    """
    lengths, step = stage.lengths(computed_share), stage.step_seconds
    batch = stage.requests_per_second * lengths.decode_steps * step

    def between_tokens(model: StepModel) -> float:
        prefill = model.prefill_seconds(lengths.uncached_input_tokens, lengths.cached_input_tokens)
        decode = model.decode_seconds(batch, batch * lengths.context_tokens)
        return decode + stage.requests_per_second * step * prefill

    floors = [value for term, value in asdict(_least(stage)).items() if term in START]
    return Observation(cost(_work(stage), between_tokens), (), step, np.array(floors))


def _without_overhead(stage: Stage, entry: Entry, computed_share: float) -> tuple[float, float, float]:
    """Mean TTFT, its P99 and mean E2E in milliseconds, as far as the engine makes them."""
    model = at_least(_work(stage).step(constants(entry, ())), _work(stage), _least(stage))
    point = _point(model, stage.lengths(computed_share), stage.requests_per_second, stage.scheduler)
    found = (point.ttft.mean, point.ttft.p99, point.end_to_end.mean)
    ttft, ttft_p99, end_to_end = (math.nan if value is None else value for value in found)
    return ttft, ttft_p99, end_to_end


@cache
def _point(model: StepModel, lengths: Lengths, rate: float, scheduler: Scheduler) -> Point:
    """Prediction of the Poisson model; many stages differ only in settings that it does not know."""
    return poisson.predict(model, lengths, rate, scheduler)


def _misfit(server: Server, stages: Iterable[Stage]) -> float:
    return float(np.median([abs(error) for stage in stages for error in _errors(stage, server).values()]))


def _errors(stage: Stage, server: Server) -> dict[str, float]:
    predicted = predict(stage, server)
    return {name: 100 * (predicted[name] / measured - 1) for name, measured in stage.latencies.items()}


def _least(stage: Stage) -> Calibration:
    return least_constants(Engine.VLLM, stage.gpu, stage.key.precision, stage.model)


def _work(stage: Stage) -> StepWork:
    return _work_of(stage.key, stage.input_tokens)


@cache
def _work_of(key: ConfigurationKey, prompt_tokens: float) -> StepWork:
    return work_of(resolve_model(key.model), resolve_gpu(key.gpu), key, prompt_tokens=prompt_tokens)
