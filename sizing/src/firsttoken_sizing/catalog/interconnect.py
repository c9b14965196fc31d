"""Interconnect: how long GPUs take to exchange data, inside a server and between servers.

Three questions: the all-reduce that ends a tensor-parallel layer, the hand-over from one pipeline stage (or from a
prefill to a decode worker) to the next, and whether a group leaves its server at all. Figures are in `data/`:
all-reduces were measured and fitted (`benchmarks/fit_interconnect.py`), network adapters are those of the vendors' own
servers. How much longer than these an engine takes (launches, synchronization) is for the step model to say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from firsttoken_sizing.catalog._names import read_entries
from firsttoken_sizing.catalog.gpus import Gpu, resolve_gpu

NETWORK_EFFICIENCY = 0.94
"""Share of an adapter's line rate that collectives reach: 46 to 48 GB/s of 400 Gb/s, "should" of an NCCL maintainer
(NVIDIA/nccl-tests issue 290); three servers with 4 x 200 Gb/s reached 96 of 100 GB/s (issue 119)."""
DEFAULT_NETWORK_GBIT_PER_SERVER = 100
"""Network of servers without a reference design of their own (PCIe cards): one adapter that all their GPUs share. A
careful choice, not a measurement."""
NETWORK_MESSAGE_SECONDS = 22e-6
"""Start of a large message between servers: 8.4 us of launch and 14 us a hop (NCCL 2.20 src/graph/tuning.cc, `baseLat`
and `hwLat` of Ring/Simple over NET)."""
_TREE_BASE_SECONDS, _TREE_NVLINK_SECONDS, _TREE_NETWORK_SECONDS = 6.8e-6, 0.6e-6, 5.0e-6
"""A small all-reduce over servers, up and down a tree: launch, a hop over NVLink, one over the network (NCCL 2.20
src/graph/tuning.cc, Tree/LL)."""
_GPUS_OF_A_RACK = {"NVL72": 72}
"""GPUs that one NVLink domain joins where that is more than a server, by what the form factor says."""
_PCIE_GB_PER_SECOND = 64.0
"""PCIe 4.0 x16, both directions: where the catalog does not say."""


@dataclass(frozen=True, slots=True)
class Link:
    """Time of an exchange as a function of its size."""

    bandwidth_gb_per_second: float
    """Bytes of the message over time, for a large one; for an all-reduce of the vector that is reduced."""
    latency_seconds: float
    """Latency of the smallest message."""

    def seconds(self, size_bytes: float) -> float:
        """Time of a message of so many bytes."""
        return self.latency_seconds + size_bytes / (self.bandwidth_gb_per_second * 1e9)


@dataclass(frozen=True, slots=True)
class _Measured:
    gpu: Gpu
    gpus_in_group: int
    link: Link


def link(gpu: Gpu, gpus_in_group: int, gpus_per_server: int) -> Link:
    """An all-reduce over a tensor-parallel group of `gpus_in_group` (>= 2) neighbors.

    Inside a server (or an NVLink rack) as measured on this GPU; on another one, as on the measured GPU of the nearest
    link speed, with its bandwidth scaled by the nominal ones. Across servers the parts add up: inside each server, then
    between them, where every GPU uses its own adapter for its share (`2*(m-1)/m` of the vector for m servers). Raises
    ValueError for a group or server below 2 and 1 GPUs.
    """
    if gpus_in_group < 2 or gpus_per_server < 1:
        raise ValueError(f"no all-reduce over {gpus_in_group} GPUs with {gpus_per_server} in a server")
    domain = _domain(gpu, gpus_per_server)
    servers = math.ceil(gpus_in_group / domain)
    if servers == 1:
        return _inside(gpu, gpus_in_group)
    members = math.ceil(gpus_in_group / servers)
    network = members * _network_gb_per_second(gpu, gpus_per_server)
    seconds_per_gb = 2 * (servers - 1) / servers / network
    if members > 1:
        seconds_per_gb += 1 / _inside(gpu, members).bandwidth_gb_per_second
    hops = (members - 1) * _TREE_NVLINK_SECONDS + math.ceil(math.log2(servers)) * _TREE_NETWORK_SECONDS
    return Link(1 / seconds_per_gb, _TREE_BASE_SECONDS + 2 * hops)


def transfer(gpu: Gpu, *, same_server: bool, gpus_per_server: int) -> Link:
    """A message from one GPU to another one: activations between pipeline stages, KV cache between workers.

    In a server at the speed of an all-reduce of two, in which each GPU sends the other the whole vector (the measured
    one, not the nominal one); between servers through the adapter of one GPU.
    """
    if same_server:
        return _inside(gpu, 2)
    return Link(_network_gb_per_second(gpu, gpus_per_server), NETWORK_MESSAGE_SECONDS)


def leaves_server(gpu: Gpu, gpus_in_group: int, gpus_per_server: int) -> bool:
    """Tell whether a group is too large for one server (one NVLink rack, where there is one)."""
    return gpus_in_group > _domain(gpu, gpus_per_server)


def _domain(gpu: Gpu, gpus_per_server: int) -> int:
    rack = next((size for name, size in _GPUS_OF_A_RACK.items() if name in gpu.form_factor), 0)
    return max(gpus_per_server, rack)


def _network_gb_per_second(gpu: Gpu, gpus_per_server: int) -> float:
    """Bandwidth of one GPU to another server."""
    gigabits = _networks().get(gpu.name, DEFAULT_NETWORK_GBIT_PER_SERVER / gpus_per_server)
    return NETWORK_EFFICIENCY * gigabits / 8


def _inside(gpu: Gpu, gpus_in_group: int) -> Link:
    speed, joined = _link_speed(gpu, gpus_in_group)
    candidates = [entry for entry in _measured() if _link_speed(entry.gpu, gpus_in_group)[1] is joined]
    # The same GPU first (its ratio is 1); a group between two measured ones is timed as the larger.
    ratio = {entry.gpu.name: speed / _link_speed(entry.gpu, gpus_in_group)[0] for entry in candidates}
    nearest = min(candidates, key=lambda e: (e.gpu.name != gpu.name, abs(math.log(ratio[e.gpu.name])))).gpu.name
    of_gpu = sorted((e for e in candidates if e.gpu.name == nearest), key=lambda e: e.gpus_in_group)
    found = next((e for e in of_gpu if e.gpus_in_group >= gpus_in_group), of_gpu[-1]).link
    return Link(found.bandwidth_gb_per_second * ratio[nearest], found.latency_seconds)


def _link_speed(gpu: Gpu, gpus_in_group: int) -> tuple[float, bool]:
    """Nominal GB/s of what joins a group in a server, and whether that is NVLink (or Infinity Fabric)."""
    bridged = gpu.nvlink_bridge_gpus is not None and gpus_in_group <= gpu.nvlink_bridge_gpus
    if gpu.nvlink_gb_per_second_bidirectional is not None and (gpu.has_server_wide_link or bridged):
        return gpu.nvlink_gb_per_second_bidirectional, True
    return gpu.pcie_gb_per_second_bidirectional or _PCIE_GB_PER_SECOND, False


@cache
def _measured() -> tuple[_Measured, ...]:
    return tuple(
        _Measured(
            gpu=resolve_gpu(entry["gpu"]),
            gpus_in_group=entry["gpus_in_group"],
            link=Link(float(entry["bandwidth_gb_per_second"]), entry["latency_microseconds"] / 1e6),
        )
        for entry in read_entries("all_reduce")
    )


@cache
def _networks() -> dict[str, float]:
    """Gigabits a second of one GPU, by canonical name."""
    return {
        resolve_gpu(name).name: float(entry["gigabits_per_second_per_gpu"])
        for entry in read_entries("networks")
        for name in entry["gpus"]
    }
