"""Benchmark results of other tools, read into profiles. One module a format; the table is in `formats`.

Nothing here knows Kubernetes: writing a `BenchmarkProfile` object is for the operator's API.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firsttoken_sizing.answer import Answer
from firsttoken_sizing.benchmarks.assemble import assemble
from firsttoken_sizing.benchmarks.document import read_document
from firsttoken_sizing.benchmarks.formats import FORMATS, Format, detect
from firsttoken_sizing.benchmarks.runs import Declared, Refused, Remark, Run
from firsttoken_sizing.benchmarks.validation import rejection, remarks
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import Profile

__all__ = [
    "FORMATS",
    "Declared",
    "Format",
    "ImportResult",
    "Refused",
    "Remark",
    "detect",
    "read_benchmarks",
    "read_document",
]


@dataclass(frozen=True, slots=True, repr=False)
class ImportResult(Answer):
    """Result of an import: profiles, every run that was left out with its reason, and remarks on those kept."""

    profiles: tuple[Profile, ...]
    refused: tuple[Refused, ...]
    remarks: tuple[Remark, ...] = ()


def read_benchmarks(paths: Path | Sequence[Path], declared: Declared | None = None) -> ImportResult:
    """Read benchmark files of any known format; runs of one configuration become one profile, over all files.

    Raises `UnreadableBenchmark` for a file that cannot be trusted, `InvalidInput` naming the command-line flag for what
    neither the file nor `declared` says, `UnknownModel` and `UnknownGPU`.
    """
    declared = declared or Declared()
    for flag, ways in (
        ("--tensor-parallel", declared.tensor_parallel),
        ("--pipeline-parallel", declared.pipeline_parallel),
        ("--attention-data-parallel", declared.attention_data_parallel),
        ("--max-batch-size", declared.max_batch_size),
        ("--max-batched-tokens", declared.max_batched_tokens),
    ):
        if ways is not None and ways < 1:
            raise InvalidInput(flag, f"{ways} is below 1", "use 1 or more")
    if declared.gpu_memory_percent is not None and not 1 <= declared.gpu_memory_percent <= 99:
        raise InvalidInput(
            "--gpu-memory-percent", f"{declared.gpu_memory_percent:g} is outside 1 to 99", "give percent"
        )
    files = [paths] if isinstance(paths, Path) else list(paths)
    valid: list[Run] = []
    refused: list[Refused] = []
    for path in files:
        document = read_document(path)
        found = detect(document).read(document)
        refused += (run for run in found if isinstance(run, Refused))
        for run in (run for run in found if isinstance(run, Run)):
            if (reason := rejection(run)) is None:
                valid.append(run)
            else:
                refused.append(Refused(run.where, reason))
    return ImportResult(
        profiles=assemble(valid, declared),
        refused=tuple(refused),
        remarks=tuple(Remark(run.where, remark) for run in valid for remark in remarks(run)),
    )
