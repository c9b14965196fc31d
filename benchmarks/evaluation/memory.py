"""Peak memory of static batches against TensorRT-LLM 0.9.0, with the configuration asked about left out of the fit."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from evaluation.row import Row, absolute_errors
from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines.peak_memory import fitted_amounts, held_gib
from firsttoken_sizing.engines.spec import PeakConstants

FILE = "trtllm_0_9_0_static.csv"
GOAL_MEDIAN, GOAL_MEAN = 6.0, 10.0
_GIB_PER_GB = 1e9 / 2**30
_REWEIGHTINGS = 8
_RESIDUAL_FLOOR = 0.003


@dataclass(frozen=True, slots=True)
class Batch:
    """One measured batch: the configuration, and what is known of it before anything is fitted."""

    configuration: tuple[str, str, str, int]
    """Model, GPU, precision, TP."""
    peak_gib: float
    held_gib: float
    amounts: tuple[float, ...]


def read(data: Path) -> list[Batch]:
    """Every batch of the file that has a peak."""
    with (data / FILE).open(newline="") as lines:
        return [batch for row in csv.DictReader(lines) if (batch := _batch(row)) is not None]


def fit(batches: Sequence[Batch]) -> PeakConstants:
    """Non-negative least squares of relative errors, reweighted towards the median.

    Towards the median, because the memory of a GH200 also holds page cache, which is no property of the batch.
    """
    peak = np.array([b.peak_gib for b in batches])
    wanted = 1 - np.array([b.held_gib for b in batches]) / peak
    rows = np.array([b.amounts for b in batches]) / peak[:, None]
    norms = np.linalg.norm(rows, axis=0)
    norms[norms == 0] = 1.0
    weights = np.ones(len(peak))
    solution = np.zeros(rows.shape[1])
    for _ in range(_REWEIGHTINGS):
        solution, _ = nnls(rows / norms * weights[:, None], wanted * weights)
        residuals = np.abs(rows / norms @ solution - wanted)
        weights = 1 / np.sqrt(np.maximum(residuals, _RESIDUAL_FLOOR) / _RESIDUAL_FLOOR)
    return PeakConstants(*map(float, solution / norms))


def errors_percent(constants: PeakConstants, batches: Sequence[Batch]) -> NDArray[np.float64]:
    """Error of the predicted peak of each batch, in percent of the measured one."""
    predicted = np.array([b.held_gib for b in batches]) + np.array([b.amounts for b in batches]) @ astuple(constants)
    errors: NDArray[np.float64] = 100 * (predicted / np.array([b.peak_gib for b in batches]) - 1)
    return errors


def rows(data: Path) -> list[Row]:
    """The memory row of the accuracy table."""
    batches = read(data)
    errors = []
    for configuration in sorted({b.configuration for b in batches}):
        constants = fit([b for b in batches if b.configuration != configuration])
        errors.append(errors_percent(constants, [b for b in batches if b.configuration == configuration]))
    found = np.concatenate(errors)
    figures = absolute_errors(found, median=GOAL_MEDIAN, mean=GOAL_MEAN)
    return [Row("peak memory, TensorRT-LLM 0.9.0 static batches", "a configuration", len(found), figures)]


def _batch(row: dict[str, str]) -> Batch | None:
    found = re.search(r"peak_mem_GB=([0-9.]+)", row["notes"])
    if found is None:
        return None
    model, gpu = resolve_model(row["model"]), resolve_gpu(row["device"])
    precision, ways, batch = row["precision"].upper(), int(row["tp"]), int(row["concurrency"])
    prompt, answer = float(row["input_len"]), float(row["output_len"])
    return Batch(
        configuration=(model.name, gpu.name, precision, ways),
        peak_gib=float(found[1]) * _GIB_PER_GB,
        held_gib=held_gib(model, precision, ways, batch, prompt + answer),
        amounts=fitted_amounts(model, gpu, precision, ways, batch, prompt),
    )
