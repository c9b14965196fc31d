"""Fit the step coefficients that firsttoken ships, and write sizing/src/firsttoken_sizing/step/shipped.json.

    python benchmarks/fit_catalog.py [--data ../shared/data] [--check]

Reads nim_dli.csv (data folder, not part of the project), fits every configuration in it, cross-validates by leaving one
pair of lengths out, and writes fitted numbers with their errors; never a measured point. `--check` writes nothing and
exits 1 where the committed file differs from what the data give.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from firsttoken_sizing.catalog import resolve_gpu, resolve_model, resolve_precision
from firsttoken_sizing.performance.closed_loop import predict
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey, Latency, Load, Point, Profile
from firsttoken_sizing.step.fit import ENGINE_MAX_BATCH, Sample, can_fit, errors_percent, fit_step, usable_samples
from firsttoken_sizing.step.scheduler import Scheduler

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "sizing/src/firsttoken_sizing/step/shipped.json"
SOURCE = "NVIDIA DLI S-FX-18, dataset/nim.csv: NIM with TensorRT-LLM, mid-2024"
STEP_TOKEN_CHOICES = (8192, 16384, 32768, 65536)
COEFFICIENTS = (
    "base_seconds",
    "per_sequence_seconds",
    "per_context_token_seconds",
    "per_prefill_token_seconds",
    "per_prefill_token_squared_seconds",
)


def read_profiles(path: Path) -> dict[ConfigurationKey, list[Profile]]:
    points: dict[tuple[ConfigurationKey, float, float], list[Point]] = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = ConfigurationKey(
                resolve_model(row["model"]).name,
                resolve_gpu(row["device"]).name,
                resolve_precision(row["precision"]),
                int(row["tp"]),
            )
            points[key, float(row["input_len"]), float(row["output_len"])].append(
                Point(
                    requests_per_second=float(row["request_throughput_rps"]),
                    concurrency=float(row["concurrency"]),
                    ttft=Latency(mean=float(row["ttft_ms_avg"])),
                    itl=Latency(mean=float(row["itl_ms_avg"])),
                    end_to_end=Latency(mean=float(row["e2e_ms_avg"])),
                )
            )
    profiles: dict[ConfigurationKey, list[Profile]] = defaultdict(list)
    for (key, prompt, output), measured in points.items():
        name = f"{prompt:g}-{output:g}"
        profiles[key].append(Profile(name, key, prompt, output, Load.CLOSED_LOOP, tuple(measured)))
    return profiles


def held_out_errors(profiles: list[Profile]) -> Iterator[float]:
    """Errors of every pair of lengths predicted from the others."""
    for left_out in profiles:
        rest = usable_samples(p for p in profiles if p is not left_out)
        tested = usable_samples([left_out])
        if tested and can_fit(rest):
            yield from errors_percent(fit_step(rest, ENGINE_MAX_BATCH), tested)


def repeat_errors(profiles: list[Profile]) -> Iterator[float]:
    """Difference in percent between two measurements of the same concurrency."""
    for profile in profiles:
        rates: dict[float | None, list[float]] = defaultdict(list)
        for point in profile.points:
            rates[point.concurrency].append(point.requests_per_second)
        yield from (100 * (max(twice) / min(twice) - 1) for twice in rates.values() if len(twice) > 1)


def ttft_error_percent(samples: tuple[Sample, ...], tokens_per_step: int) -> float:
    """Median error of the closed-loop TTFT for one choice of prompt tokens a step."""
    model = fit_step(samples, ENGINE_MAX_BATCH)
    errors = []
    for s in samples:
        if s.ttft_ms is None:
            continue
        lengths = Lengths(s.input_tokens, s.input_tokens, s.output_tokens)
        predicted = predict(model, lengths, round(s.concurrency), Scheduler(tokens_per_step)).ttft.mean
        errors.append(100 * abs((predicted or 0.0) / s.ttft_ms - 1))
    return float(np.median(errors))


def describe(key: ConfigurationKey, profiles: list[Profile]) -> dict[str, object]:
    samples = usable_samples(profiles)
    model = fit_step(samples, ENGINE_MAX_BATCH)
    held_out = np.array(list(held_out_errors(profiles)))
    prompts = [s.input_tokens for s in samples]
    outputs = [s.output_tokens for s in samples]
    ttft = {tokens: ttft_error_percent(samples, tokens) for tokens in STEP_TOKEN_CHOICES}
    median = float(np.median(errors_percent(model, samples)))
    print(
        f"{key.model} {key.gpu} {key.precision} TP{key.tensor_parallel}: {len(samples)} points, rps error % fitted"
        f" {median:.1f}, held out {np.median(held_out):.1f} (p90 {np.quantile(held_out, 0.9):.1f}); TTFT error % by"
        f" tokens a step: " + ", ".join(f"{tokens} {error:.0f}" for tokens, error in ttft.items())
    )
    return {
        "model": key.model,
        "gpu": key.gpu,
        "precision": key.precision,
        "tensorParallel": key.tensor_parallel,
        "engine": "NIM (TensorRT-LLM, mid-2024)",
        "inputTokens": [min(prompts), max(prompts)],
        "outputTokens": [min(outputs), max(outputs)],
        "points": len(samples),
        "seconds": {name: float(f"{getattr(model, name):.5g}") for name in COEFFICIENTS},
        "medianErrorPercent": round(median, 2),
        "heldOutErrorPercentMedian": round(float(np.median(held_out)), 2),
        "heldOutErrorPercentP90": round(float(np.quantile(held_out, 0.9)), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="fit the shipped step coefficients")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data", help="folder with nim_dli.csv")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on a difference")
    arguments = parser.parse_args()
    source = arguments.data / "nim_dli.csv"
    if not source.is_file():
        print(f"--data: {source} does not exist; name the folder that holds nim_dli.csv", file=sys.stderr)
        return 2
    profiles = read_profiles(source)
    repeats = [error for measured in profiles.values() for error in repeat_errors(measured)]
    ordered = sorted(profiles, key=lambda k: (k.model, k.gpu, k.precision, k.tensor_parallel))
    document = {
        "source": SOURCE,
        "script": "benchmarks/fit_catalog.py",
        "errors": "absolute, in percent of requests a second; held out: one pair of lengths left out of the fit",
        "repeatErrorPercentP90": round(float(np.quantile(repeats, 0.9)), 2),
        "configurations": [describe(key, profiles[key]) for key in ordered],
    }
    text = json.dumps(document, indent=1) + "\n"
    if arguments.check:
        return 0 if TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
