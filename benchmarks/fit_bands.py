"""Measure the error bands that firsttoken ships, and write sizing/src/firsttoken_sizing/step/data/bands.json.

    python benchmarks/fit_bands.py [--data ../shared/data] [--check]

Reads the data folder (not part of the project) and writes quantiles of errors on held-out points with the coverage that
they reach; never a measured point. Run it after `fit_catalog.py`: bands belong to the way fits are made. `--check`
writes nothing and exits 1 where the committed file differs from what the data give.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from evaluation import bands
from evaluation.data import NIM, SILICON

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "sizing/src/firsttoken_sizing/step/data/bands.json"


def document(data: Path) -> str:
    """The text of bands.json."""
    content = {
        "script": "benchmarks/fit_bands.py",
        "sources": [
            "NVIDIA DLI S-FX-18, dataset/nim.csv: NIM with TensorRT-LLM, mid-2024",
            "NVIDIA aiconfigurator, silicon_sample.csv (with rows of InferenceX): engines of 2025 and 2026",
        ],
        "errors": "medians of absolute logarithms of measured over predicted, as percent; low and high: logarithms of"
        " times over the difficulty; coverage and half-width: by quantiles of other configurations",
        "bands": bands.shipped(data),
    }
    return json.dumps(content, indent=1) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="measure the shipped error bands")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data", help=f"folder with {NIM}, {SILICON}")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on a difference")
    arguments = parser.parse_args()
    for name in (NIM, SILICON):
        if not (arguments.data / name).is_file():
            print(f"--data: {arguments.data / name} does not exist; name the folder that holds it", file=sys.stderr)
            return 2
    text = document(arguments.data)
    if arguments.check:
        return 0 if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
