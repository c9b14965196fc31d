"""Runs: what a reader hands over, in one form for all formats, and what it left out.

A reader translates units and names and nothing else: whether a run is valid, what it is about and how runs make a
profile is decided once for every format (`validation`, `assemble`).
"""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_sizing.declared import DeclaredSettings
from firsttoken_sizing.profile import Load, Point


@dataclass(frozen=True, slots=True)
class Declared:
    """Facts about the replica that was measured, as a file or the user states them. Names may be aliases."""

    model: str | None = None
    gpu: str | None = None
    precision: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    engine: str | None = None
    engine_version: str | None = None
    max_batch_size: int | None = None
    max_batched_tokens: int | None = None
    kv_cache_bits: int | None = None
    gpu_memory_percent: float | None = None
    attention_data_parallel: int | None = None

    def settings(self, in_file: Declared) -> DeclaredSettings:
        """Settings of the engine, as far as the user or else the file states them."""
        percent = self.gpu_memory_percent or in_file.gpu_memory_percent
        return DeclaredSettings(
            max_batch=self.max_batch_size or in_file.max_batch_size,
            tokens_per_step=self.max_batched_tokens or in_file.max_batched_tokens,
            kv_cache_bits=self.kv_cache_bits or in_file.kv_cache_bits,
            memory_share=None if percent is None else percent / 100,
        )


@dataclass(frozen=True, slots=True)
class Run:
    """One operating point as a file tells it; None is what the file does not say.

    `requested_*` are the lengths that were asked for, the others the mean lengths that were measured (tokens). A file
    that does not know how its GPUs were used, and only counts them, sets `gpus_per_replica`.
    """

    where: str
    """File and line or object, for messages."""
    source: str
    """Tool and file, so that the figures can be traced."""
    load: Load
    input_tokens: float
    output_tokens: float
    point: Point
    times: str
    """The units that the file is taken to have its times in, for messages."""
    requested_input_tokens: float | None = None
    requested_output_tokens: float | None = None
    declared: Declared = Declared()
    gpus_per_replica: int | None = None
    succeeded: float | None = None
    failed: float | None = None
    """Requests that were answered, and those that were not, where the tool counts them."""
    remarks: tuple[str, ...] = ()
    """Remarks of the reader: what it left out of the point, and why."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A run that was left out, where it stands and why."""

    row: str
    reason: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A limitation of a run that was kept, which a reader of its figures has to know."""

    row: str
    text: str
