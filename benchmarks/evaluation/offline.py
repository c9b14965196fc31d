"""Throughput without latency limits: static batches, and engines that are kept full.

None of these points is in a fit. Static batches of TensorRT-LLM 0.9.0 (trtllm_0_9_0_static.csv) are judged twice: by
the engine's constants alone, as for a configuration without measurements, and with the batches 1, 8 and 64 of the same
configuration at hand. NB: the first is not quite blind for cards on PCIe in groups of 4 and 8, whose all-reduce
`fit_interconnect.py` took from three prefill times of the L40S rows.

The best throughput that NVIDIA publishes for TensorRT-LLM 0.17 (trtllm_perf_overview.csv, by precision) and 1.x
(`published`) is held against what `size` says of that configuration for work without a caller: with what is shipped,
the batch included. A configuration that `size` says does not fit is a refusal, and counts as 100 %.

MLPerf Offline is not here, because its submissions do not state input lengths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation.data import key_of, point_of, read_rows
from evaluation.published import published
from evaluation.row import Figure, Row, absolute_errors
from firsttoken_sizing import Hardware, SizingRequest, Workload, size
from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.static_batch import predict_static
from firsttoken_sizing.profile import ConfigurationKey, Load, Point, Profile
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.select import step_for
from firsttoken_sizing.workload import Sla, SlaMode

STATIC, OVERVIEW = "trtllm_0_9_0_static.csv", "trtllm_perf_overview.csv"
_SHOWN = (1, 8, 64)
"""Batches of a configuration that a fit may see."""

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
        *_offline_rows(data / OVERVIEW),
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


@dataclass(frozen=True, slots=True)
class _Answer:
    """Output tokens a second as published and as `size` says, None for a refusal, and whether its band has them."""

    measured: float
    predicted: float | None
    is_covered: bool = False

    @property
    def error_percent(self) -> float:
        return -100.0 if self.predicted is None else 100 * (self.predicted / self.measured - 1)


def _offline_rows(path: Path) -> list[Row]:
    """Rows by precision and, of layouts, by kind of model; all of both together have the goals."""
    found: dict[str, list[_Answer]] = defaultdict(list)
    for row in read_rows(path):
        try:
            key = key_of(row)
        except InvalidInput:
            continue
        pair = float(row["input_len"]), float(row["output_len"])
        answer = _answer(key, pair, float(row["output_tokens_per_s"]))
        found[f"offline in {key.precision}, TensorRT-LLM 0.17"].append(answer)
    for each in published():
        pair, measured = (each.input_tokens, each.output_tokens), each.tokens_per_second_and_gpu
        kind = "experts" if resolve_model(each.key.model).experts else "dense"
        answer = _answer(each.key, pair, measured * each.key.gpus_per_replica, each.declared)
        found[f"offline, {kind}, TensorRT-LLM 1.x in published layouts"].append(answer)
    everything = [answer for answers in found.values() for answer in answers]
    return [*(_offline_row(what, answers) for what, answers in found.items()), _judged(everything)]


def _answer(
    key: ConfigurationKey, pair: tuple[float, float], measured: float, declared: DeclaredSettings = AS_INSTALLED
) -> _Answer:
    request = SizingRequest(
        model=key.model,
        workload=Workload(*pair, peak_requests_per_second=1.0),
        sla=Sla(mode=SlaMode.OFFLINE),
        hardware=Hardware(gpus=(key.gpu,)),
        engine=Engine.TENSORRT_LLM,
        engine_release=Engine.TENSORRT_LLM.spec.release().label,
        declared_settings=declared,
        pinned=key,
    )
    sizing = size(request)
    if not sizing.feasible:
        return _Answer(measured, None)
    predicted, band = sizing.requests_per_second_per_replica * pair[1], sizing.band
    is_covered = band is not None and band.low * predicted <= measured <= band.high * predicted
    return _Answer(measured, predicted, is_covered)


def _offline_row(what: str, answers: Sequence[_Answer]) -> Row:
    figures = absolute_errors([a.error_percent for a in answers])
    return Row(f"{what}, output tokens/s", "shipped", len(answers), (*figures, _coverage(answers, None)))


def _judged(answers: Sequence[_Answer]) -> Row:
    figures = absolute_errors([a.error_percent for a in answers], median=15.0, mean=20.0)
    refused = Figure("refused", 100 * float(np.mean([a.predicted is None for a in answers])))
    shown = (*figures, _coverage(answers, 90.0), refused)
    return Row("offline, all published, output tokens/s", "shipped", len(answers), shown)


def _coverage(answers: Sequence[_Answer], goal: float | None) -> Figure:
    inside = [a.is_covered for a in answers if a.predicted is not None]
    return Figure("coverage", 100 * float(np.mean(inside)), goal, at_least=True)


def _model(key: ConfigurationKey, profiles: tuple[Profile, ...], lengths: tuple[float, float]) -> StepModel:
    return step_for(
        model=resolve_model(key.model),
        gpu=resolve_gpu(key.gpu),
        key=key,
        engine=Engine.TENSORRT_LLM,
        profiles=profiles,
        lengths=lengths,
    ).model
