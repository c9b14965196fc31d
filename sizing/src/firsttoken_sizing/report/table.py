"""A sizing for people: both readings side by side, what happens at N-1 and N+1, the cost, and why."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from firsttoken_sizing.performance.table import STATISTICS
from firsttoken_sizing.profile import ConfigurationKey, Latency
from firsttoken_sizing.request import Cost, Sizing

_UNKNOWN = "-"


def sizing_table(title: str, sizing: Sizing, other_reading: Sizing | str | None = None) -> RenderableType:
    """Everything about one sizing. `other_reading`: under the other kind of arrivals, or why there is none."""
    parts: list[RenderableType] = [_readings(title, sizing, other_reading), Text(f"Why: {sizing.reason}")]
    if isinstance(other_reading, str):
        parts.append(Text(f"The other reading: {other_reading}"))
    if sizing.feasible:
        parts += [Text(), _predictions(sizing)]
    if sizing.cost:
        parts += [Text(), _cost(sizing.cost)]
    parts += [Text(f"Warning: {warning}", style="yellow") for warning in sizing.warnings]
    if sizing.alternatives:
        parts += [Text(), _alternatives(sizing)]
    return Group(*parts)


def _readings(title: str, sizing: Sizing, other: Sizing | str | None) -> Table:
    readings = [sizing, *([other] if isinstance(other, Sizing) else [])]
    table = Table(title=title, title_justify="left")
    table.add_column("reading")
    for i, reading in enumerate(readings):
        table.add_column(reading.arrivals.value + (" (asked)" if i == 0 and len(readings) > 1 else ""), justify="right")
    for label, cells in _rows(readings):
        table.add_row(label, *cells)
    return table


def _rows(readings: list[Sizing]) -> Iterable[tuple[str, list[str]]]:
    yield "basis", [f"{r.basis.value} (± {r.error_band_percent:.3g} %)" if r.feasible else _UNKNOWN for r in readings]
    yield "configuration", [_configuration(r.configuration) for r in readings]
    for label, name in (("replicas", "replicas"), ("GPUs", "gpus"), ("servers", "servers")):
        yield label, [str(getattr(r, name)) if r.feasible else "none" for r in readings]
    yield "replicas at the average", [_number(r.replicas_for_average) for r in readings]
    yield "peak requests/s", [_number(r.peak_requests_per_second) for r in readings]
    yield "requests/s a replica", [_number(r.requests_per_second_per_replica) for r in readings]
    yield "requests/s a server", [_number(r.requests_per_second_per_server) for r in readings]
    yield "concurrency a replica", [_number(r.concurrency_per_replica) for r in readings]
    for label, name in (("TTFT ms", "ttft"), ("ITL ms", "itl"), ("E2E ms", "end_to_end")):
        yield f"{label} mean / P95", [_latency(getattr(r, name)) for r in readings]
    yield "bound by", [r.binding_constraint for r in readings]
    yield "KV cache GiB a GPU", [_number(r.memory.kv_cache_gib) if r.memory else _UNKNOWN for r in readings]


def _predictions(sizing: Sizing) -> Table:
    table = Table(title=f"At {sizing.peak_requests_per_second:.4g} requests/s", title_justify="left")
    for heading in ("replicas", "requests/s each", *(f"TTFT ms {s}" for s in STATISTICS), "ITL ms mean", "in the SLA"):
        table.add_column(heading, justify="right")
    peak, sized = sizing.peak_requests_per_second, sizing.table
    if sized is None:
        return table
    for replicas in range(max(1, sizing.replicas - 1), sizing.replicas + 2):
        at = sized.at(peak / replicas)
        ttft = [_number(getattr(at.ttft, s)) for s in STATISTICS]
        inside = "yes" if sized.replicas_for(peak) <= replicas else "no"
        # Above the last point of the curve the latencies are lower bounds.
        shown = [f"> {v}" if at.saturated else v for v in (*ttft, _number(at.itl.mean))]
        table.add_row(str(replicas), _number(peak / replicas), *shown, inside)
    return table


def _cost(cost: Cost) -> Table:
    table = Table(title=f"Cost ({cost.currency})", title_justify="left", show_header=False)
    for label, value in (
        ("a year", cost.per_year),
        ("an hour", cost.per_hour),
        ("1000 requests at the peak", cost.per_thousand_requests_at_peak),
        ("1000 requests at the peak, of the fraction of servers used", cost.per_thousand_requests_at_peak_fractional),
        ("1000 requests at the average", cost.per_thousand_requests_at_average),
        ("1 million tokens at the peak", cost.per_million_tokens_at_peak),
    ):
        if value is not None:
            table.add_row(label, f"{value:,.0f}" if value >= 1000 else f"{value:.4f}")
    return table


def _alternatives(sizing: Sizing) -> Table:
    table = Table(title="Alternatives", title_justify="left")
    for heading in ("configuration", "GPUs", "why not"):
        table.add_column(heading)
    for alternative in sizing.alternatives:
        gpus = str(alternative.gpus) if alternative.gpus is not None else _UNKNOWN
        table.add_row(_configuration(alternative.configuration), gpus, alternative.reason)
    return table


def _configuration(key: ConfigurationKey | None) -> str:
    if key is None:
        return _UNKNOWN
    pipeline = f" PP{key.pipeline_parallel}" if key.pipeline_parallel > 1 else ""
    return f"{key.gpu} {key.precision} TP{key.tensor_parallel}{pipeline}"


def _latency(latency: Latency) -> str:
    return f"{_number(latency.mean)} / {_number(latency.p95)}"


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.4g}"
