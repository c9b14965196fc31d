"""A sizing as it is kept for the next process: what decisions read of it and what its status shows, as JSON.

What is read back is not trusted to be well-formed: anything that no sizing can be is a `ValidationError`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from firsttoken_operator.api.status import SizingStatus
from firsttoken_operator.domain import Reason
from firsttoken_operator.runtimes.settings import SizedSettings
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.performance.work import Work
from firsttoken_sizing.profile import STATISTICS, ConfigurationKey
from firsttoken_sizing.workload import Sla, Workload

_COLUMNS = 2 + 3 * len(STATISTICS)
"""Rate, the statistics of TTFT, ITL and end-to-end time, KV use."""


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class StoredTable(_Stored):
    """A capacity table, row by row."""

    rows: tuple[tuple[float, ...], ...] = Field(min_length=1)
    capacity_requests_per_second: float = Field(ge=0, allow_inf_nan=False)
    saturation_requests_per_second: float = Field(ge=0)
    capacity_alone_requests_per_second: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    sized_replicas: int = Field(ge=1)
    work: Work | None

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        rates = [row[0] for row in self.rows if len(row) == _COLUMNS]
        rising = all(low < high for low, high in pairwise(rates))
        if len(rates) < len(self.rows) or not (rates[0] > 0 and rates[-1] < math.inf and rising):
            raise ValueError(f"every row has {_COLUMNS} numbers, the first of them positive and rising")
        return self

    @classmethod
    def of(cls, table: CapacityTable) -> StoredTable:
        """The table to be kept."""
        rows = np.column_stack((table.rates, table.ttft, table.itl, table.end_to_end, table.kv_percent))
        return cls(
            rows=tuple(map(tuple, rows.tolist())),
            capacity_requests_per_second=table.capacity_requests_per_second,
            saturation_requests_per_second=table.saturation_requests_per_second,
            capacity_alone_requests_per_second=table.capacity_alone_requests_per_second,
            sized_replicas=table.sized_replicas,
            work=table.work,
        )

    def table(self) -> CapacityTable:
        """The table that was kept."""
        rates, ttft, itl, end_to_end, kv_percent = np.split(
            np.array(self.rows), [1 + len(STATISTICS) * number for number in range(3)] + [_COLUMNS - 1], axis=1
        )
        return CapacityTable(
            rates=rates[:, 0],
            ttft=ttft,
            itl=itl,
            end_to_end=end_to_end,
            kv_percent=kv_percent[:, 0],
            capacity_requests_per_second=self.capacity_requests_per_second,
            saturation_requests_per_second=self.saturation_requests_per_second,
            capacity_alone_requests_per_second=self.capacity_alone_requests_per_second,
            sized_replicas=self.sized_replicas,
            work=self.work,
        )


class StoredSize(_Stored):
    """Facts that decisions read."""

    configuration: ConfigurationKey
    table: StoredTable
    sla: Sla
    replicas_for_declared_peak: int = Field(ge=0)
    replicas_for_declared_average: int | None = Field(default=None, ge=0)
    most_replicas_for_declared_peak: int = Field(ge=0)
    careful_share: float = Field(gt=0, le=1)
    peak_requests_per_second: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    settings: SizedSettings | None = None


class StoredSizing(_Stored):
    """An answer of the sizing model: a size, or why there is none."""

    generations: dict[str, int]
    """Generations of the resources that it is the size of, by uid."""
    size: StoredSize | None = None
    reason: Reason | None = None
    message: str = ""
    shown: SizingStatus | None = None
    declared: Workload
    cost_per_hour: float | None = None
    recommended: ConfigurationKey | None = None
    compared: bool = False

    @model_validator(mode="after")
    def _check_answer(self) -> Self:
        if (self.size is None) == (self.reason is None):
            raise ValueError("an answer is a size or the reason for none")
        return self
