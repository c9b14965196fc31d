"""The files of the data folder as profiles: one reader for everything that fits or judges by them.

Reads and renames only. Which points are sound (overload windows, queues) is for the fit to say.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from firsttoken_sizing.catalog import resolve_gpu, resolve_model, resolve_precision
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import ConfigurationKey, Latency, Load, Point, Profile

NIM = "nim_dli.csv"
SILICON = "aic_silicon_agg.csv"


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of one file of the data folder."""
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def key_of(row: Mapping[str, str]) -> ConfigurationKey:
    """The configuration of a row in canonical names. Raises `InvalidInput` for a name that the catalog lacks."""
    return ConfigurationKey(
        resolve_model(row["model"]).name,
        resolve_gpu(row["device"]).name,
        resolve_precision(row["precision"]),
        int(row["tp"]),
        int(row["pp"] or 1),
    )


def number(text: str) -> float | None:
    """A cell: None where nothing was reported."""
    return float(text) if text.strip() else None


def latency_of(row: Mapping[str, str], metric: str) -> Latency:
    """Statistics that a row reports of one latency (`ttft`, `itl` or `e2e`), in milliseconds."""
    return Latency(
        mean=number(row[f"{metric}_ms_avg"]),
        p90=number(row.get(f"{metric}_ms_p90", "")),
        p95=number(row[f"{metric}_ms_p95"]),
        p99=number(row[f"{metric}_ms_p99"]),
    )


def point_of(row: Mapping[str, str]) -> Point:
    """The measured point of a row."""
    return Point(
        requests_per_second=float(row["request_throughput_rps"]),
        concurrency=float(row["concurrency"]),
        ttft=latency_of(row, "ttft"),
        itl=latency_of(row, "itl"),
        end_to_end=latency_of(row, "e2e"),
    )


def read_profiles(path: Path) -> dict[ConfigurationKey, list[Profile]]:
    """Closed-loop rows as one profile for each configuration, engine (with its version) and pair of lengths.

    Rows of a model, GPU or precision that the catalog does not know are left out.
    """
    points: dict[tuple[ConfigurationKey, str, str, float, float], list[Point]] = defaultdict(list)
    for row in read_rows(path):
        try:
            key = key_of(row)
        except InvalidInput:
            continue
        group = key, row["engine"], row["engine_version"], float(row["input_len"]), float(row["output_len"])
        points[group].append(point_of(row))
    profiles: dict[ConfigurationKey, list[Profile]] = defaultdict(list)
    for (key, engine, version, prompt, output), measured in points.items():
        name = f"{prompt:g}-{output:g}"
        profiles[key].append(
            Profile(name, key, prompt, output, Load.CLOSED_LOOP, tuple(measured), engine=engine, engine_version=version)
        )
    return dict(sorted(profiles.items(), key=lambda item: _order(item[0])))


def _order(key: ConfigurationKey) -> tuple[str, str, str, int, int]:
    return key.model, key.gpu, key.precision, key.tensor_parallel, key.pipeline_parallel
