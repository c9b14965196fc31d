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

from firsttoken_sizing.catalog._names import read_entries, read_values
from firsttoken_sizing.catalog.gpus import Gpu, assumed, resolve_gpu


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
class _Costs:
    """Costs of an exchange between servers."""

    efficiency: float
    """Share of an adapter's line rate that collectives reach."""
    default_gigabits_per_second_per_server: float
    message_seconds: float
    """Start of a large message."""
    tree_base_seconds: float
    """Launch of a small all-reduce over servers, up and down a tree; below, a hop of it over NVLink and the network."""
    tree_nvlink_seconds: float
    tree_network_seconds: float


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
    costs = _costs()
    hops = (members - 1) * costs.tree_nvlink_seconds + math.ceil(math.log2(servers)) * costs.tree_network_seconds
    return Link(1 / seconds_per_gb, costs.tree_base_seconds + 2 * hops)


def transfer(gpu: Gpu, *, same_server: bool, gpus_per_server: int) -> Link:
    """A message from one GPU to another one: activations between pipeline stages, KV cache between workers.

    In a server at the speed of an all-reduce of two, in which each GPU sends the other the whole vector (the measured
    one, not the nominal one); between servers through the adapter of one GPU.
    """
    if same_server:
        return _inside(gpu, 2)
    return Link(_network_gb_per_second(gpu, gpus_per_server), _costs().message_seconds)


def leaves_server(gpu: Gpu, gpus_in_group: int, gpus_per_server: int) -> bool:
    """Tell whether a group is too large for one server (one NVLink rack, where there is one)."""
    return gpus_in_group > _domain(gpu, gpus_per_server)


def _domain(gpu: Gpu, gpus_per_server: int) -> int:
    return max(gpus_per_server, gpu.nvlink_domain_gpus or 0)


def _network_gb_per_second(gpu: Gpu, gpus_per_server: int) -> float:
    """Bandwidth of one GPU to another server."""
    costs = _costs()
    gigabits = _networks().get(gpu.name, costs.default_gigabits_per_second_per_server / gpus_per_server)
    return costs.efficiency * gigabits / 8


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
    return gpu.pcie_gb_per_second_bidirectional or assumed().pcie_gb_per_second_bidirectional, False


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
def _costs() -> _Costs:
    return _Costs(**read_values("networks", "costs"))


@cache
def _networks() -> dict[str, float]:
    """Gigabits a second of one GPU, by canonical name."""
    return {
        resolve_gpu(name).name: float(entry["gigabits_per_second_per_gpu"])
        for entry in read_entries("networks")
        for name in entry["gpus"]
    }
