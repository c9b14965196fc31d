"""All-reduces and transfers: as measured where they were, scaled where they were not, slower wherever the link is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firsttoken_sizing.catalog import Gpu, gpus, resolve_gpu
from firsttoken_sizing.catalog.interconnect import leaves_server, link, transfer

ROOT = Path(__file__).resolve().parents[3]
H100, L40S = resolve_gpu("H100-SXM-80GB"), resolve_gpu("L40S")


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_every_gpu_has_an_interconnect_and_more_gpus_are_never_faster(gpu: Gpu) -> None:
    links = [link(gpu, group, 8) for group in (2, 4, 8, 16, 32)]
    bandwidths = [found.bandwidth_gb_per_second for found in links]

    assert bandwidths == sorted(bandwidths, reverse=True)
    assert all(found.latency_seconds > 0 for found in links)
    inside, outside = (transfer(gpu, same_server=same, gpus_per_server=8) for same in (True, False))
    assert inside.bandwidth_gb_per_second > 0
    assert outside.latency_seconds > inside.latency_seconds


def test_h100_has_the_measured_figures() -> None:
    """TensorRT-LLM's all-reduce of 2 H100: 2.7 us for the smallest message, 331 GB/s for 1 GiB."""
    pair = link(H100, 2, 8)

    assert pair.latency_seconds == pytest.approx(2.8e-6, rel=0.05)
    assert 250 < pair.bandwidth_gb_per_second < 331
    assert pair.seconds(1e6) == pytest.approx(pair.latency_seconds + 1e6 / (1e9 * pair.bandwidth_gb_per_second))


def test_a_gpu_that_was_not_measured_scales_with_its_link() -> None:
    v100, a100 = resolve_gpu("V100-SXM-32GB"), resolve_gpu("A100-SXM-80GB")

    assert link(v100, 8, 8).bandwidth_gb_per_second == pytest.approx(link(a100, 8, 8).bandwidth_gb_per_second / 2)


def test_pcie_is_an_order_of_magnitude_slower_than_nvlink() -> None:
    assert link(L40S, 4, 8).bandwidth_gb_per_second < link(H100, 4, 8).bandwidth_gb_per_second / 10


def test_a_bridge_joins_only_as_many_gpus_as_it_has_places_for() -> None:
    nvl = resolve_gpu("H100-NVL-94GB")

    assert link(nvl, 2, 8).bandwidth_gb_per_second > 4 * link(nvl, 4, 8).bandwidth_gb_per_second


def test_a_group_that_leaves_its_server_pays_for_the_network() -> None:
    inside, across = link(H100, 8, 8), link(H100, 16, 8)

    assert across.latency_seconds > 4 * inside.latency_seconds
    assert across.bandwidth_gb_per_second < inside.bandwidth_gb_per_second
    assert leaves_server(H100, 16, 8)
    assert not leaves_server(H100, 8, 8)


def test_an_nvlink_rack_is_one_server() -> None:
    rack = resolve_gpu("GB200-186GB")

    assert not leaves_server(rack, 72, 4)
    assert leaves_server(rack, 73, 4)
    assert link(rack, 16, 4).bandwidth_gb_per_second > link(H100, 16, 8).bandwidth_gb_per_second


@pytest.mark.parametrize(("group", "server"), [(1, 8), (0, 8), (2, 0)])
def test_a_group_of_one_has_no_all_reduce(group: int, server: int) -> None:
    with pytest.raises(ValueError, match="no all-reduce"):
        link(H100, group, server)


@pytest.mark.slow
def test_rerunning_the_script_changes_nothing() -> None:
    data = ROOT.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip("../shared/data is not here")
    script = ROOT / "benchmarks" / "fit_interconnect.py"
    done = subprocess.run(
        [sys.executable, str(script), "--data", str(data), "--check"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
