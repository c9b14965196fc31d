"""Pinning the configuration that was chosen changes nothing of the answer, so that it need not be sized again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from firsttoken_sizing import Hardware, Sizing, SizingRequest, size
from tests.fixtures.sizing_questions import questions

GPUS = Hardware(gpus=("H100-SXM-80GB", "H200-SXM-141GB", "L40S", "A100-SXM-80GB"))
CASES = questions() | {
    f"{name}, several GPUs and precisions": replace(request, precision=None, hardware=GPUS)
    for name, request in questions().items()
    if name.startswith(("shipped", "physics"))
}
COMPARED = (
    "feasible", "reason", "replicas", "replicas_for_average", "gpus", "servers", "requests_per_second_per_replica",
    "utilization_cap_percent", "binding_constraint", "basis", "error_band_percent", "cost", "job",
)  # fmt: skip


def said(sizing: Sizing) -> dict[str, Any]:
    """Figures that the operator reads of an answer, its table in numbers."""
    table = sizing.table
    assert table is not None
    columns = np.column_stack((table.rates, table.ttft, table.itl, table.end_to_end, table.kv_percent))
    return {name: getattr(sizing, name) for name in COMPARED} | {
        "table": np.nan_to_num(columns, nan=-1.0).tolist(),
        "capacity": (table.capacity_requests_per_second, table.capacity_alone_requests_per_second, table.work),
    }


@pytest.mark.slow
@pytest.mark.parametrize("request_", CASES.values(), ids=CASES)
def test_the_answer_is_the_same(request_: SizingRequest) -> None:
    chosen = size(request_)
    pinned = size(replace(request_, pinned=chosen.configuration))

    assert chosen.feasible
    assert said(pinned) == said(chosen)
