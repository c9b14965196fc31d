"""End-to-end latency of recent engines on recent GPUs, with one (model, GPU, TP) left out: the silicon sample of NVIDIA
aiconfigurator.

What is known of the configuration asked about is its data sheet and its architecture; the constants of the engine come
from the other configurations. Dense models are held against goals. Mixtures of experts are shown without one: their
rows mix tensor, expert and data parallelism, and only those with one attention group on at most eight GPUs are asked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from evaluation.data import SILICON, read_rows
from evaluation.engine_fit import START, Entry, Observation, cost, fit
from evaluation.row import Row, absolute_errors
from firsttoken_sizing.catalog import Gpu, Model, resolve_gpu, resolve_model, resolve_precision
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.memory import replica_memory
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.closed_loop import round_seconds
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.step.calibration import Calibration, groups_of
from firsttoken_sizing.step.floor import at_least, least_constants
from firsttoken_sizing.step.knowledge import calibrated
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.prior import StepWork, tensor_flops, work_of

ENGINES = {"trtllm": Engine.TENSORRT_LLM, "vllm": Engine.VLLM, "sglang": Engine.SGLANG}
GOALS = {"trtllm": (7.3, 9.5), "vllm": (5.6, 11.2), "sglang": (10.2, 14.0)}
"""Median and mean of the prototype, which dense models are to stay below."""
PEERS = {"trtllm": "15.9/19.9", "vllm": "8.4/16.7", "sglang": "11.5/18.2"}
LEFT_OUT = "a model, GPU and TP"
_NATIVE_PRECISION = "BF16"
"""Precision of the dense models whose rows name none."""
_INFERENCEX_LENGTHS = frozenset({(1024, 1024), (1024, 8192), (8192, 1024)})
_INFERENCEX_MEAN = 0.9
"""InferenceX draws lengths from 0.8 to 1.0 of the ones it names."""
_LARGEST_GROUP = 8
_EIGHT_BIT_CACHE = 0.5
STEADY = 0.8
"""A curve that falls below this share of what it reached at a lower concurrency was not measured in a steady state."""


@dataclass(frozen=True, slots=True)
class Case:
    """One measured point. `lengths` are the means of what was sent, and the latency is that of a mean request."""

    engine: str
    variant: str
    """Version of the engine, and the kinds of parallelism that the row notes."""
    model: Model
    gpu: Gpu
    key: ConfigurationKey
    lengths: Lengths
    concurrency: int
    end_to_end_seconds: float
    ttft_seconds: float = 0.0
    token_seconds: float = 0.0

    @property
    def left_out_with(self) -> tuple[str, str, int]:
        """Key of what is left out together: every name of an architecture and every precision, too."""
        return self.model.architecture, self.key.gpu, self.key.tensor_parallel

    @property
    def requests_per_second(self) -> float:
        """Throughput by Little's law."""
        return self.concurrency / self.end_to_end_seconds


def read(data: Path) -> list[Case]:
    """Every point of a model that the catalog knows, in the order of the file."""
    return [case for row in read_rows(data / SILICON) if (case := _case(row)) is not None]


def sound(cases: Sequence[Case]) -> list[Case]:
    """The points that can be what they say.

    Left out are prompts computed faster than the tensor cores could (they came from a cache), and curves whose
    throughput falls as concurrency rises, though a queue keeps it level at worst.
    """
    unsteady = set(_unsteady_curves(cases))
    return [case for case in cases if _curve(case) not in unsteady and not _is_beyond_hardware(case)]


def observation(case: Case) -> Observation:
    """A case for the fit: what a round of its concurrency costs, over the rounds that its batch limit takes."""
    batch = min(case.concurrency, batch_limit(case))
    rounds = case.concurrency / batch
    costs = cost(_work(case), lambda step: rounds * round_seconds(step, case.lengths, batch))
    floors = [getattr(least_of(case), term) for term in START]
    return Observation(costs, _groups(case), case.end_to_end_seconds, np.array(floors))


def predict(case: Case, entry: Entry) -> float:
    """End-to-end seconds of a case with the constants of an entry, as a sizing would say them."""
    step = replace(step_of(case, entry), max_batch=batch_limit(case))
    batch = min(case.concurrency, step.max_batch)
    return case.concurrency / batch * round_seconds(step, case.lengths, batch)


def step_of(case: Case, entry: Entry) -> StepModel:
    """The step model of a case with the constants of an entry."""
    found = calibrated(entry, ENGINES[case.engine], case.gpu, case.key.precision, case.model)
    return at_least(_work(case).step(found), _work(case), least_of(case))


def least_of(case: Case) -> Calibration:
    """The floors of the constants of a case."""
    return least_constants(ENGINES[case.engine], case.gpu, case.key.precision, case.model)


def errors_left_out(cases: Sequence[Case]) -> list[float]:
    """Error of each case in percent, with every point of its (model, GPU, TP) left out of the fit."""
    observations = [observation(case) for case in cases]
    errors = dict.fromkeys(range(len(cases)), math.nan)
    for group in sorted({case.left_out_with for case in cases}):
        entry = fit([o for o, c in zip(observations, cases, strict=True) if c.left_out_with != group])
        for i, case in enumerate(cases):
            if case.left_out_with == group:
                errors[i] = 100 * (predict(case, entry) / case.end_to_end_seconds - 1)
    return list(errors.values())


@cache
def entry_without(data: Path, engine: str, left_out: tuple[bool, ...]) -> Entry | None:
    """The constants by the sound points of an engine that are not left out; None where none is left.

    Kept, because many questions leave the same points out, and fits are what takes the time.
    """
    kept = [o for o, out in zip(_observations(data, engine), left_out, strict=True) if not out]
    return fit(kept) if kept else None


@cache
def sound_cases(data: Path, engine: str) -> tuple[Case, ...]:
    """The sound points of one engine."""
    return tuple(sound([case for case in read(data) if case.engine == engine]))


@cache
def _observations(data: Path, engine: str) -> tuple[Observation, ...]:
    return tuple(observation(case) for case in sound_cases(data, engine))


def rows(data: Path) -> list[Row]:
    """A row for each engine: dense models with goals, then mixtures of experts and unsound points without."""
    everything = read(data)
    dense, others = [], []
    for name, (median, mean) in GOALS.items():
        cases = [case for case in everything if case.engine == name]
        kept = sound(cases)
        errors = list(zip(kept, errors_left_out(kept), strict=True))
        what = f"{ENGINES[name].value} on recent GPUs, E2E"
        of_dense = [error for case, error in errors if not case.model.experts]
        figures = absolute_errors(of_dense, median=median, mean=mean)
        peer = f"AIConfigurator {PEERS[name]}"
        dense.append(Row(f"{what}, dense", LEFT_OUT, len(of_dense), figures, peer))
        of_mixtures = [error for case, error in errors if case.model.experts]
        others.append(Row(f"{what}, mixtures of experts", LEFT_OUT, len(of_mixtures), absolute_errors(of_mixtures)))
        chosen = {id(case) for case in kept}
        unsound = [case for case in cases if id(case) not in chosen and not case.model.experts]
        if unsound:
            entry = entry_of(kept)
            apart = [100 * (predict(case, entry) / case.end_to_end_seconds - 1) for case in unsound]
            others.append(Row(f"{what}, dense, unsound points", "these points", len(apart), absolute_errors(apart)))
    return dense + others


def entry_of(cases: Iterable[Case]) -> Entry:
    """The constants that these cases give."""
    return fit([observation(case) for case in cases])


def _case(row: dict[str, str]) -> Case | None:
    try:
        model, gpu = resolve_model(row["model"]), resolve_gpu(row["device"])
        precision = resolve_precision(row["precision"] or _NATIVE_PRECISION)
    except InvalidInput:
        return None
    attention_groups = re.search(r"attn_dp=([0-9.]+)", row["notes"])
    ways = int(row["tp"])
    if ways > _LARGEST_GROUP or (attention_groups and float(attention_groups[1]) > 1):
        return None
    if model.weight_bytes(precision) / ways > gpu.memory_gib * 2**30:
        return None  # the row counts GPUs of another kind of parallelism
    prompt, answer = float(row["input_len"]), float(row["output_len"])
    random = attention_groups is not None and (prompt, answer) in _INFERENCEX_LENGTHS
    share = _INFERENCEX_MEAN if random else 1.0
    ttft, token = float(row["ttft_ms_avg"]) / 1000, float(row["itl_ms_avg"]) / 1000
    return Case(
        engine=row["engine"],
        variant=row["engine_version"] + row["notes"].partition("; id=")[0],
        model=model,
        gpu=gpu,
        key=ConfigurationKey(model.name, gpu.name, precision, ways),
        lengths=Lengths(share * prompt, share * prompt, share * answer),
        concurrency=int(row["concurrency"]),
        end_to_end_seconds=ttft + (share * answer - 1) * token,
        ttft_seconds=ttft,
        token_seconds=token,
    )


def _curve(case: Case) -> tuple[str, str, ConfigurationKey, Lengths]:
    return case.engine, case.variant, case.key, case.lengths


def _unsteady_curves(cases: Sequence[Case]) -> Iterator[tuple[str, str, ConfigurationKey, Lengths]]:
    reached: dict[tuple[str, str, ConfigurationKey, Lengths], float] = {}
    for case in sorted(cases, key=lambda c: c.concurrency):
        best = reached.get(_curve(case), 0.0)
        if case.requests_per_second < STEADY * best:
            yield _curve(case)
        reached[_curve(case)] = max(best, case.requests_per_second)


def _is_beyond_hardware(case: Case) -> bool:
    """Tell whether hardware is too slow for the point: for all its prompts, for one of them, or for one token of each.

    The first by tensor cores alone; the others by the floor of physics, with the KV cache in 8 bits, as some kept it.
    """
    peak = case.key.tensor_parallel * tensor_flops(case.gpu, case.key.precision)
    prompts = case.requests_per_second * case.lengths.uncached_input_tokens
    if prompts * 2 * case.model.active_parameters_billion * 1e9 > peak:
        return True
    least = least_of(case)
    ideal = _work(case).step(replace(least, kv_read=min(_EIGHT_BIT_CACHE, least.kv_read)))
    decoding = case.requests_per_second * case.token_seconds * (case.lengths.output_tokens - 1)
    batch = max(1.0, min(case.concurrency, decoding))
    token = ideal.decode_seconds(batch, batch * case.lengths.context_tokens)
    return case.token_seconds < token or case.ttft_seconds < ideal.prefill_seconds(case.lengths.input_tokens)


def _groups(case: Case) -> tuple[str, ...]:
    return groups_of(case.gpu, case.key.precision, case.model)


def batch_limit(case: Case) -> int:
    memory = replica_memory(
        case.model,
        case.gpu,
        precision=case.key.precision,
        tensor_parallel=case.key.tensor_parallel,
        input_tokens=case.lengths.input_tokens,
        output_tokens=case.lengths.output_tokens,
        engine=ENGINES[case.engine],
    )
    return max(1, min(memory.max_concurrency, ENGINES[case.engine].spec.release().max_batch))


def _work(case: Case) -> StepWork:
    return _work_of(case.model.name, case.gpu.name, case.key, case.lengths.input_tokens)


@cache
def _work_of(model: str, gpu: str, key: ConfigurationKey, prompt_tokens: float) -> StepWork:
    return work_of(resolve_model(model), resolve_gpu(gpu), key, prompt_tokens=prompt_tokens)
