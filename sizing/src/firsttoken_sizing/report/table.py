"""A sizing for people: both kinds of arrivals side by side, what happens at N-1 and N+1, the cost, and why.

Latencies are shown at the statistic that the SLA names; TTFT beside its mean. No heading needs more than 80 columns.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from firsttoken_sizing.engines.memory import Memory
from firsttoken_sizing.profile import Latency
from firsttoken_sizing.report.cells import (
    UNKNOWN,
    VERDICTS,
    certainty,
    configuration_name,
    limited,
    number,
    parallelism,
    replicas_range,
    word,
)
from firsttoken_sizing.report.prediction import predictions
from firsttoken_sizing.report.slow_few import Shown, remarks
from firsttoken_sizing.report.tables import alternatives_table, cost_table, job_table
from firsttoken_sizing.request import SeparatePools, Sizing
from firsttoken_sizing.workload import Limit, Percentile, Sla


def sizing_table(title: str, sizing: Sizing, other_arrivals: Sizing | str | None = None) -> RenderableType:
    """Everything about one sizing. `other_arrivals`: under the other kind of arrivals, or why there is none."""
    parts: list[RenderableType] = [_comparison(title, sizing, other_arrivals), Text(f"Why: {sizing.reason}")]
    parts += [Text(remark) for remark in remarks(_shown(sizing, other_arrivals))]
    if isinstance(other_arrivals, str):
        parts.append(Text(f"The other reading: {other_arrivals}"))
    if sizing.feasible:
        parts += [Text(), _predictions(sizing)]
    if sizing.job:
        parts += [Text(), job_table(sizing.job, sizing.cost)]
    elif sizing.cost:
        parts += [Text(), cost_table(sizing.cost)]
    parts += [Text(f"Warning: {warning}", style="yellow") for warning in sizing.warnings]
    if sizing.alternatives:
        parts += [Text(), alternatives_table(sizing.alternatives)]
    return Group(*parts)


def _shown(sizing: Sizing, other: Sizing | str | None) -> Iterable[Shown]:
    """The sized points, and those of one replica fewer and one more."""
    limits = limited(sizing.request.sla)
    for one in (sizing, other):
        if isinstance(one, Sizing):
            for _, name, limit in limits:
                yield one.arrivals, _percentile(limit), getattr(one, name)
    for prediction in predictions(sizing):
        limit = sizing.request.sla.time_to_first_token
        yield sizing.arrivals, _percentile(limit), prediction.operating.ttft


def _comparison(title: str, sizing: Sizing, other: Sizing | str | None) -> Table:
    sizings = [sizing, *([other] if isinstance(other, Sizing) else [])]
    table = Table(title=title, title_justify="left")
    table.add_column("reading")
    for i, column in enumerate(sizings):
        table.add_column(column.arrivals.value + (" (asked)" if i == 0 and len(sizings) > 1 else ""), justify="right")
    for label, cells in _rows(sizings):
        table.add_row(label, *cells)
    return table


def _rows(sizings: list[Sizing]) -> Iterable[tuple[str, list[str]]]:
    yield "basis", [certainty(s.basis, s.band) for s in sizings]
    yield "configuration", [configuration_name(s.configuration) for s in sizings]
    yield "engine, batching", [_engine(s) for s in sizings]
    yield "replicas", [replicas_range(s) if s.feasible else "none" for s in sizings]
    for label, name in (("GPUs", "gpus"), ("servers", "servers")):
        yield label, [str(getattr(s, name)) if s.feasible else "none" for s in sizings]
    if any(s.separate_pools for s in sizings):
        yield "prefill + decode apart", [_apart(s.separate_pools) for s in sizings]
    yield "replicas at the average", [number(s.replicas_for_average) for s in sizings]
    yield "peak requests/s", [number(s.peak_requests_per_second or None) for s in sizings]
    for label, name in (
        ("requests/s a replica", "requests_per_second_per_replica"),
        ("requests/s a server", "requests_per_second_per_server"),
        ("concurrency a replica", "concurrency_per_replica"),
    ):
        yield label, [number(getattr(s, name) if s.feasible else None) for s in sizings]
    if sizings[0].request.workload.prefixes_in_use is not None:
        yield "prompt in the cache %", [number(s.cached_input_percent if s.feasible else None) for s in sizings]
    for metric, name, limit in limited(sizings[0].request.sla):
        percentile = _percentile(limit)
        latencies: list[Latency] = [getattr(s, name) for s in sizings]
        yield (
            f"{metric} ms mean / {percentile.value}",
            [f"{number(latency.mean)} / {number(latency.at(percentile))}" for latency in latencies],
        )
    yield "bound by", [s.binding_constraint for s in sizings]
    yield "KV cache GiB a GPU", [number(s.memory.kv_cache_gib) if s.memory else UNKNOWN for s in sizings]
    yield "at once: fit / measured", [_at_once(s.memory) for s in sizings]


def _apart(pools: SeparatePools | None) -> str:
    """Workers of both pools, each with its parallelism."""
    if pools is None:
        return "no gain"
    each = (f"{pool.workers} x {parallelism(pool.configuration)}" for pool in (pools.prefill, pools.decode))
    return f"{' + '.join(each)}: {pools.gpus} GPUs"


def _at_once(memory: Memory | None) -> str:
    """Requests that fit if each reserves its full length, and the most that were measured running."""
    return f"{memory.max_concurrency} / {number(memory.measured_concurrency)}" if memory else UNKNOWN


def _percentile(limit: Limit | None) -> Percentile:
    """Statistic to show beside the mean: that of the limit, else P95."""
    return limit.percentile if limit and limit.percentile is not Percentile.MEAN else Percentile.P95


def _columns(sla: Sla) -> Iterable[tuple[str, str, Percentile]]:
    """TTFT with its mean, of the others the one statistic that their limit is about: more does not fit 80 columns."""
    yield "TTFT", "ttft", Percentile.MEAN
    for metric, name, limit in limited(sla):
        if name == "ttft":
            yield metric, name, _percentile(limit)
        else:
            yield metric, name, limit.percentile if limit else Percentile.MEAN


def _predictions(sizing: Sizing) -> Table:
    peak = number(sizing.peak_requests_per_second)
    title = f"At {peak} requests/s in all; latencies in ms, load in % of what a replica carries"
    table = Table(title=title, title_justify="left")
    shown = tuple(_columns(sizing.request.sla))
    latencies = [f"{metric}\n{word(statistic)}" for metric, _, statistic in shown]
    for heading in ("replicas", "rate\neach", *latencies, "in the\nSLA", "load\n%"):
        table.add_column(heading, justify="right")
    for prediction in predictions(sizing):
        at = prediction.operating
        bound = "> " if prediction.saturated else ""
        table.add_row(
            str(prediction.replicas),
            number(at.requests_per_second),
            *(bound + number(getattr(at, name).at(statistic)) for _, name, statistic in shown),
            VERDICTS[prediction.inside_sla],
            f"{prediction.load_percent:.1f}",
        )
    return table


def _engine(sizing: Sizing) -> str:
    engine = sizing.request.engine.value
    return f"{engine}, {sizing.batching.value}" if sizing.batching else engine
