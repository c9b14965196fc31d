"""Files of benchmark tools as profiles: what `import` writes down, and what `--benchmarks` reads as it is.

What is left out of a file, and why, goes to stderr: a benchmark run that vanishes without a word would be trusted as if
it had never been measured.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.documents import load_documents
from firsttoken_operator.api.profiles import benchmark_document
from firsttoken_operator.cli.output import local_file
from firsttoken_sizing.benchmarks import Declared, ImportResult, detect, read_benchmarks, read_document
from firsttoken_sizing.engines.spec import SIXTEEN_BITS
from firsttoken_sizing.errors import InvalidInput, UnreadableBenchmark

_RESOURCES = (".yaml", ".yml")
_RESULTS = (".json", ".csv")
WORDS = (
    *("model", "gpu", "precision", "tensor-parallel", "pipeline-parallel", "attention-data-parallel"),
    *("engine", "engine-version"),
    *("max-batch-size", "max-batched-tokens", "kv-cache-type", "gpu-memory-percent"),
)
"""Words for what was measured and with which settings of the engine, where the results do not say it."""
_COUNT = re.compile("[1-9][0-9]{0,8}")
_COUNTS = (
    "tensor-parallel",
    "pipeline-parallel",
    "attention-data-parallel",
    "max-batch-size",
    "max-batched-tokens",
    "gpu-memory-percent",
)
_KV_CACHE_BITS = {"FP8": SIXTEEN_BITS // 2}
_EXAMPLE = "write such as gpu=H100-SXM-80GB,precision=FP8,tensor-parallel=1"


def add_benchmarks(parser: argparse.ArgumentParser) -> None:
    """Add `--benchmarks` and `--measured`."""
    parser.add_argument(
        "--benchmarks",
        action="extend",
        nargs="+",
        type=local_file,
        metavar="DIR-or-FILE",
        help="more measurements: results of benchmark tools as they are (JSON or CSV, all that `firsttoken import`"
        " reads), YAML with BenchmarkProfiles, or a folder of them",
    )
    parser.add_argument(
        "--measured",
        metavar="NAME=VALUE,...",
        help=f"what the results do not say: {', '.join(WORDS)}; as the flags of `firsttoken import`",
    )


def read_results(files: Sequence[Path], declared: Declared) -> ImportResult:
    """Read results of benchmark tools, and tell on stderr what was left out and what was noticed."""
    result = read_benchmarks(files, declared)
    for refused in result.refused:
        _left_out(refused.row, refused.reason)
    for remark in result.remarks:
        print(f"note on {remark.row}: {remark.text}", file=sys.stderr)
    return result


def read_measured(paths: Iterable[Path], words: str | None) -> tuple[BenchmarkProfile, ...]:
    """Every profile of the files and folders of `--benchmarks`; `words` are those of `--measured`.

    A file of a folder that is no benchmark is left out with its reason; one that was named raises
    `UnreadableBenchmark`. Raises `InvalidInput` for what neither a file nor `words` say.
    """
    resources: list[Path] = []
    results: list[Path] = []
    for path in paths:
        for file in _of_folder(path) if path.is_dir() else [path]:
            (resources if _holds_resources(file) else results).append(file)
    try:
        declared = _declared(words)
        found = read_results(results, declared).profiles if results else ()
    except InvalidInput as error:
        flag = error.field.removeprefix("--")
        if flag not in WORDS:
            raise
        fix = re.sub(rf"--({'|'.join(WORDS)})\b ?", r"--measured \1=", error.fix)
        raise InvalidInput("--measured", error.problem, fix) from error
    documents = [benchmark_document(profile) for profile in found]
    return (*load_documents(*resources).benchmarks, *map(BenchmarkProfile.model_validate, documents))


def _of_folder(folder: Path) -> list[Path]:
    """The files directly in a folder that hold measurements."""
    files = sorted(f for f in folder.iterdir() if f.suffix in (*_RESOURCES, *_RESULTS) and f.is_file())
    return [file for file in files if _holds_resources(file) or _is_result(file)]


def _is_result(file: Path) -> bool:
    """Recognize a file of a benchmark tool; one that is none is left out with a word."""
    try:
        detect(read_document(file))
    except UnreadableBenchmark as error:
        _left_out(error.file, error.problem)
        return False
    return True


def _holds_resources(file: Path) -> bool:
    """Tell custom resources from a result by the suffix, and JSON by what is in it."""
    if file.suffix != ".json":
        return file.suffix not in _RESULTS
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "apiVersion" in document


def declared_of(said: Mapping[str, str | int | None]) -> Declared:
    """Declaration of what was measured, by `WORDS`. Raises `InvalidInput` for a format that no KV cache has."""
    fields = {name.replace("-", "_"): value for name, value in said.items() if value is not None}
    if (kind := fields.pop("kv_cache_type", None)) is not None:
        if kind not in _KV_CACHE_BITS:
            raise InvalidInput("--kv-cache-type", f"{kind!r} is not known", f"use {' or '.join(_KV_CACHE_BITS)}")
        fields["kv_cache_bits"] = _KV_CACHE_BITS[str(kind)]
    return Declared(**fields)  # type: ignore[arg-type]  # the other names of WORDS are its fields


def _declared(words: str | None) -> Declared:
    found: dict[str, str | int | None] = {}
    for word in words.split(",") if words else ():
        name, _, value = word.strip().partition("=")
        if name not in WORDS or not value:
            raise InvalidInput("--measured", f"{word!r} is not one of {', '.join(WORDS)} with a value", _EXAMPLE)
        if name in _COUNTS and not _COUNT.fullmatch(value):
            raise InvalidInput("--measured", f"{word!r} is no whole number", _EXAMPLE)
        found[name] = int(value) if name in _COUNTS else value
    return declared_of(found)


def _left_out(what: str, reason: str) -> None:
    print(f"left out {what}: {reason}", file=sys.stderr)
