"""GPUs: memory, bandwidth and arithmetic of each, and the one way from any of their names to the facts.

The facts live in `data/gpus.json` with their sources; TFLOPS are dense ones (data sheets like to print sparse figures,
which are twice as large). Partitioned and time-sliced devices are refused: a name does not tell their share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from firsttoken_sizing.catalog._names import Index, read_entries, read_values
from firsttoken_sizing.errors import UnknownGPU


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU."""

    name: str
    """Canonical key, such as `H100-SXM-80GB`."""
    vendor: str
    product: str
    form_factor: str
    architecture: str
    memory_gb_nominal: float
    """Memory that the data sheet prints; see `memory_gib` for what is there."""
    memory_mib_reported: int | None
    """Memory that the driver reports; None where no report is known."""
    memory_bandwidth_gb_per_second: float
    dense_tflops: Mapping[str, float]
    """Dense TFLOPS (TOPS for INT8) by precision; a precision that is absent has no hardware of its own."""
    multiprocessors: int | None
    """Streaming multiprocessors that are switched on; None: unknown, or a GPU of another kind."""
    nvlink_gb_per_second_bidirectional: float | None
    """Aggregate of one GPU (Infinity Fabric for AMD); None without such a link."""
    pcie_gb_per_second_bidirectional: float | None
    tdp_watts: int | None
    gpus_per_server: int | None
    """GPUs of the usual server; None for cards that are sold singly."""
    node_label: str | None
    """Value of the node label that GPU feature discovery writes (`nvidia.com/gpu.product`)."""
    resource_name: str
    """Extended resource that a container asks for."""
    aliases: tuple[str, ...]
    source: str
    confidence: str
    """`high`, `medium` or `low`: how good the source is."""
    notes: str
    nvlink_bridge_gpus: int | None = None
    """GPUs that a bridge joins where the product comes with one; None: none, or an option that few have."""
    nvlink_domain_gpus: int | None = None
    """GPUs that one NVLink domain joins where that is more than a server."""

    @property
    def node_labels(self) -> tuple[str, ...]:
        """Values of that label on nodes with this GPU: products that differ in nothing that counts here are one GPU."""
        others = (alias for alias in self.aliases if self.node_label and alias.startswith("NVIDIA-"))
        return tuple(dict.fromkeys((self.node_label, *others))) if self.node_label else ()

    @property
    def memory_gib(self) -> float:
        """Memory in GiB: as reported, else the nominal figure at 10^9 bytes a GB (never too much)."""
        if self.memory_mib_reported is not None:
            return self.memory_mib_reported / 1024
        return self.memory_gb_nominal * 1e9 / 2**30

    @property
    def has_server_wide_link(self) -> bool:
        """True where every GPU of a server reaches every other over NVLink (bridges join two or four cards only)."""
        return self.nvlink_gb_per_second_bidirectional is not None and "pcie" not in self.form_factor.lower()


@dataclass(frozen=True, slots=True)
class Assumed:
    """Figures of a GPU of which the catalog does not give them."""

    multiprocessors: int
    gpus_per_server: int
    """GPUs of a server with cards that are sold singly, where a replica needs several."""
    pcie_gb_per_second_bidirectional: float


def resolve_gpu(name: str, *, field: str = "hardware.gpus") -> Gpu:
    """The GPU behind any of its names: canonical key, node label, or what a benchmark calls it.

    Case, and the difference between `-`, `_`, `.` and spaces, do not matter. Raises `UnknownGPU` (naming `field`) with
    the nearest names, and for time-sliced (`-SHARED`) and MIG devices.
    """
    folded = name.casefold()
    if folded.endswith("-shared"):
        raise UnknownGPU(
            field, f"{name!r} is a time-sliced GPU, whose latency depends on its neighbors", "use nodes with whole GPUs"
        )
    if "-mig-" in folded:
        raise UnknownGPU(
            field, f"{name!r} is a MIG partition, which the catalog has no figures for", "use nodes with whole GPUs"
        )
    found = _index().find(name)
    if found is None:
        raise UnknownGPU(field, f"unknown GPU {name!r}", _index().advice(name, "firsttoken gpus"))
    return found


def gpus() -> tuple[Gpu, ...]:
    """Every GPU of the catalog."""
    return _index().entries


@cache
def _index() -> Index[Gpu]:
    return Index([_gpu(entry) for entry in read_entries("gpus")], implied=_implied_names)


@cache
def assumed() -> Assumed:
    """Figures that stand in the place of those that are not known."""
    return Assumed(**read_values("gpus", "assumed"))


def _gpu(entry: dict[str, Any]) -> Gpu:
    parsed = {"dense_tflops": MappingProxyType(entry["dense_tflops"]), "aliases": tuple(entry["aliases"])}
    return Gpu(**entry | parsed)


def _implied_names(gpu: Gpu) -> list[str]:
    """Every name also without the vendor in front: `nvidia-smi` prints it, node labels mostly do, people do not."""
    vendor = gpu.vendor.casefold()
    names = [gpu.name, *gpu.aliases]
    bare = [name[len(vendor) + 1 :] for name in names if name.casefold().startswith(vendor) and len(name) > len(vendor)]
    return bare + [f"{gpu.vendor} {name}" for name in (*names, *bare) if not name.casefold().startswith(vendor)]
