"""Fit the all-reduce table that firsttoken ships: `catalog/data/all_reduce.json`, from the shared reference data.

    python benchmarks/fit_interconnect.py [--data ../shared/data] [--check]

For each GPU and group size a start-up latency and a bandwidth, `T(bytes) = latency + bytes / bandwidth`, by least
squares on relative errors over the faster of TensorRT-LLM's own all-reduce and NCCL at every message size, as engines
choose between them. `--check` writes nothing and exits 1 where the committed file differs from what the data give.

NB: the NCCL files hold every message size twice, for 2-byte and for 1-byte elements, without saying which is which; the
slower of a pair is the 2-byte one that engines send.

NB: the L40S machine of the table (1 and 3 GB/s in groups of 8 and 4) is not what servers of that GPU do: Llama 2 70B
would take 6 s for a prompt of 2,048 tokens with TP 8, and NVIDIA measured 0.70 s (trtllm_0_9_0_static.csv). Groups of 4
and 8 over PCIe are therefore taken from those prefill times, after the compute that TP 2 shows.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "sizing/src/firsttoken_sizing/catalog/data/all_reduce.json"
GPUS = {
    "a100_sxm": "A100-SXM-80GB",
    "h100_sxm": "H100-SXM-80GB",
    "h200_sxm": "H200-SXM-141GB",
    "b200_sxm": "B200-SXM-180GB",
    "l40s": "L40S",
}
LEAST_BYTES, MOST_BYTES = 4096, 2**28
"""Sizes that steps send: one sequence of a small model to a whole prefill budget of a large one."""
BYTES_PER_ELEMENT = 2
_TABLE_SOURCE = "NVIDIA aiconfigurator-core (Apache-2.0), measured all-reduce latencies of TensorRT-LLM and NCCL"
_PREFILL_SOURCE = (
    "latency: NVIDIA aiconfigurator-core; bandwidth: prefill of Llama 2 70B FP8, 2048 tokens, TensorRT-LLM 0.9.0,"
    " NVIDIA DLI S-FX-18"
)
_LLAMA_70B_ALL_REDUCES, _LLAMA_70B_HIDDEN, _PROMPT = 160, 8192, 2048


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data", help="folder with the reference data")
    parser.add_argument("--check", action="store_true", help="compare with the committed file instead of writing it")
    args = parser.parse_args()
    entries = fitted(args.data)
    for entry in entries:
        print(*entry.values(), sep="  ")
    text = json.dumps({"schema": 1, "all_reduce": entries}, indent=1) + "\n"
    if not args.check:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    same = TARGET.read_text(encoding="utf-8") == text
    print(f"{TARGET.name} is {'what the data give' if same else 'NOT what the data give'}")
    return 0 if same else 1


def fitted(data: Path) -> list[dict[str, object]]:
    """Every entry of the file: GPU, group size, latency in microseconds, bandwidth in GB/s, median error, source."""
    entries: list[dict[str, object]] = []
    for (system, ways), (sizes, seconds) in sorted(_fastest(data / "allreduce_latency_aic.csv").items()):
        latency, bandwidth, error = _fit(sizes, seconds)
        entries.append(_entry(GPUS[system], ways, latency, bandwidth, error, _TABLE_SOURCE))
    by_key = {(entry["gpu"], entry["gpus_in_group"]): entry for entry in entries}
    for ways, bandwidth in _over_pcie(data / "trtllm_0_9_0_static.csv", by_key["L40S", 2]).items():
        shown = by_key["L40S", ways]
        shown["bandwidth_gb_per_second"] = round(bandwidth, 1)
        shown["median_error_percent"] = None
        shown["source"] = _PREFILL_SOURCE
    return entries


def _fastest(path: Path) -> dict[tuple[str, int], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Seconds by bytes of the fastest implementation, by system and group size."""
    rows: dict[tuple[str, int, str, str, int], list[float]] = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            size = BYTES_PER_ELEMENT * int(row["message_elements"])
            key = (row["system"], int(row["num_gpus"]), row["kernel_source"], row["file"], size)
            rows[key].append(float(row["latency_ms"]) / 1000)
    best: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for (system, ways, _, _, size), seconds in rows.items():
        known = best[system, ways].get(size, float("inf"))
        best[system, ways][size] = min(known, max(seconds))
    curves = {}
    for group, by_size in best.items():
        kept = sorted((size, seconds) for size, seconds in by_size.items() if LEAST_BYTES <= size <= MOST_BYTES)
        sizes, times = (np.array(column, dtype=np.float64) for column in zip(*kept, strict=True))
        curves[group] = (sizes, times)
    return curves


def _fit(sizes: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[float, float, float]:
    """Latency in seconds, bandwidth in bytes a second, median relative error."""
    design = np.stack([1 / seconds, sizes / seconds], axis=1)
    (latency, per_byte), _ = nnls(design, np.ones_like(seconds))
    error = float(np.median(np.abs(design @ [latency, per_byte] - 1)))
    return float(latency), float(1 / per_byte), error


def _over_pcie(path: Path, pair: dict[str, object]) -> dict[int, float]:
    """GB/s in groups of 4 and 8 L40S: what the prefill takes beyond its share of the compute that TP 2 shows."""
    ttft: dict[int, float] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            of = (row["model"], row["device"], row["precision"], row["concurrency"], row["input_len"])
            if of == ("LLaMA v2 70B", "L40S", "fp8", "1", str(_PROMPT)) and row["output_len"] == "128":
                ttft[int(row["tp"])] = float(row["ttft_ms_avg"]) / 1000
    sent = _LLAMA_70B_ALL_REDUCES * _PROMPT * _LLAMA_70B_HIDDEN * BYTES_PER_ELEMENT / 1e9
    compute = 2 * (ttft[2] - sent / float(str(pair["bandwidth_gb_per_second"])))
    return {ways: sent / (ttft[ways] - compute / ways) for ways in (4, 8)}


def _entry(
    gpu: str, ways: int, latency: float, bandwidth: float, error: float | None, source: str
) -> dict[str, object]:
    return {
        "gpu": gpu,
        "gpus_in_group": ways,
        "latency_microseconds": round(1e6 * latency, 2),
        "bandwidth_gb_per_second": round(bandwidth / 1e9, 1),
        "median_error_percent": None if error is None else round(100 * error, 1),
        "source": source,
    }


if __name__ == "__main__":
    sys.exit(main())
