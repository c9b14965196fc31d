"""Throughput without latency limits: static batches, and engines that are kept full.

None of these points is in a fit. Static batches of TensorRT-LLM 0.9.0 (trtllm_0_9_0_static.csv) are judged twice: by
the engine's constants alone, as for a configuration without measurements, and with the batches 1, 8 and 64 of the same
configuration at hand. NB: the first is not quite blind for cards on PCIe in groups of 4 and 8, whose all-reduce
`fit_interconnect.py` took from three prefill times of the L40S rows.

The best throughput that NVIDIA publishes for TensorRT-LLM 0.17 (trtllm_perf_overview.csv) is held against a batch that
fills the memory, by precision: engines in FP8 keep their KV cache in FP8 as well.

No goals: the specification has none. MLPerf Offline is not here, because its submissions do not state input lengths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evaluation.data import key_of, point_of, read_rows
from evaluation.row import Row, absolute_errors
from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.memory import replica_memory
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.offline import full_throughput
from firsttoken_sizing.performance.static_batch import predict_static
from firsttoken_sizing.profile import ConfigurationKey, Load, Point, Profile
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.select import step_for

STATIC, OVERVIEW = "trtllm_0_9_0_static.csv", "trtllm_perf_overview.csv"
_SHOWN = (1, 8, 64)
"""Batches of a configuration that a fit may see."""
_LARGEST_BATCH = 2048
"""trtllm-bench's own limit for a throughput run; engines for users are built with less."""

_Rows = Sequence[Mapping[str, str]]


def rows(data: Path) -> list[Row]:
    """Static E2E and TTFT without and with points of the configuration, and offline throughput."""
    configurations = _by_configuration(data / STATIC)
    blind: list[tuple[float, float]] = []
    shown: list[tuple[float, float]] = []
    for key, measured in configurations.items():
        blind += _static_errors(key, (), measured)
        points = [row for row in measured if int(row["concurrency"]) in _SHOWN]
        others = [row for row in measured if int(row["concurrency"]) not in _SHOWN]
        shown += _static_errors(key, _profiles(key, points), others)
    return [
        _row("static batches, E2E", "the configuration", [end_to_end for end_to_end, _ in blind]),
        _row("static batches, TTFT", "the configuration", [ttft for _, ttft in blind]),
        _row("static batches, E2E", "batches but 1, 8, 64", [end_to_end for end_to_end, _ in shown]),
        _row("static batches, TTFT", "batches but 1, 8, 64", [ttft for _, ttft in shown]),
        *(
            _row(f"offline in {precision}, output tokens/s", "the configuration", list(errors))
            for precision, errors in _offline_errors(data / OVERVIEW).items()
        ),
    ]


def _row(what: str, left_out: str, errors: Sequence[float]) -> Row:
    return Row(what, left_out, len(errors), absolute_errors(errors))


def _by_configuration(path: Path) -> dict[ConfigurationKey, list[Mapping[str, str]]]:
    """Rows of models and GPUs that the catalog knows."""
    found: dict[ConfigurationKey, list[Mapping[str, str]]] = defaultdict(list)
    for row in read_rows(path):
        try:
            found[key_of(row)].append(row)
        except InvalidInput:
            continue
    return found


def _profiles(key: ConfigurationKey, measured: _Rows) -> tuple[Profile, ...]:
    """A static batch of B takes as long as a round of a closed loop with B clients, so it is read as one."""
    groups: dict[tuple[float, float], list[Point]] = defaultdict(list)
    for row in measured:
        groups[float(row["input_len"]), float(row["output_len"])].append(point_of(row))
    return tuple(
        Profile(f"{prompt:g}-{output:g}", key, prompt, output, Load.CLOSED_LOOP, tuple(points), engine="TensorRT-LLM")
        for (prompt, output), points in groups.items()
    )


def _static_errors(key: ConfigurationKey, profiles: tuple[Profile, ...], measured: _Rows) -> list[tuple[float, float]]:
    """Errors of E2E and TTFT in percent, one pair a row."""
    errors = []
    models: dict[tuple[float, float], StepModel] = {}
    for row in measured:
        pair = float(row["input_len"]), float(row["output_len"])
        if pair not in models:
            models[pair] = _model(key, profiles, pair)
        predicted = predict_static(models[pair], Lengths(pair[0], pair[0], pair[1]), int(row["concurrency"]))
        assert predicted.end_to_end.mean is not None
        assert predicted.ttft.mean is not None
        errors.append(
            (
                100 * (predicted.end_to_end.mean / float(row["e2e_ms_avg"]) - 1),
                100 * (predicted.ttft.mean / float(row["ttft_ms_avg"]) - 1),
            )
        )
    return errors


def _offline_errors(path: Path) -> dict[str, list[float]]:
    """Errors in percent by precision; configurations of which no request fits into our memory model are left out."""
    errors: dict[str, list[float]] = defaultdict(list)
    for row in read_rows(path):
        try:
            key = key_of(row)
        except InvalidInput:
            continue
        pair = float(row["input_len"]), float(row["output_len"])
        memory = replica_memory(
            resolve_model(key.model),
            resolve_gpu(key.gpu),
            precision=key.precision,
            tensor_parallel=key.tensor_parallel,
            pipeline_parallel=key.pipeline_parallel,
            input_tokens=pair[0],
            output_tokens=pair[1],
        )
        if memory.max_concurrency < 1:
            continue
        step = replace(_model(key, (), pair), max_batch=min(_LARGEST_BATCH, memory.max_concurrency))
        predicted = full_throughput(step, Lengths(pair[0], pair[0], pair[1])).requests_per_second * pair[1]
        errors[key.precision].append(100 * (predicted / float(row["output_tokens_per_s"]) - 1))
    return errors


def _model(key: ConfigurationKey, profiles: tuple[Profile, ...], lengths: tuple[float, float]) -> StepModel:
    return step_for(
        model=resolve_model(key.model),
        gpu=resolve_gpu(key.gpu),
        key=key,
        engine=Engine.TENSORRT_LLM,
        profiles=profiles,
        lengths=lengths,
    ).model
