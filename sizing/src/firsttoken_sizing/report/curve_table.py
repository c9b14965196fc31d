"""Curves for people: the models side by side under one SLA with their cost, then every point of every configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from firsttoken_sizing.performance.measured import load_of
from firsttoken_sizing.profile import Point
from firsttoken_sizing.report.cells import (
    UNKNOWN,
    VERDICTS,
    certainty,
    configuration_name,
    limited,
    number,
    replicas_range,
    word,
)
from firsttoken_sizing.report.curve_figure import short_model
from firsttoken_sizing.report.curves import Curve, Study
from firsttoken_sizing.report.slow_few import Shown, remarks
from firsttoken_sizing.request import Sizing
from firsttoken_sizing.workload import Arrivals, Percentile, Sla


def curve_tables(title: str, studies: Sequence[Study]) -> RenderableType:
    """Everything about the studies (models, pairs of lengths) of one deployment."""
    parts: list[RenderableType] = [_sizes(title, studies)]
    for study in studies:
        if not study.sizing.feasible:
            parts.append(Text(f"{_subject(study)}: {study.sizing.reason}"))
        if study.curves:
            parts += [
                Text(),
                Text(f"{_subject(study)}, one replica, {study.arrivals.value}; rates in requests/s, latencies in ms"),
            ]
        parts += [_points(curve, study.sla) for curve in study.curves]
        parts += [Text(remark) for remark in remarks(_shown(study))]
        parts += [Text(f"Left out: {configuration_name(one.key)}: {one.reason}") for one in study.left_out]
    return Group(*parts)


def _shown(study: Study) -> Iterable[Shown]:
    for curve in study.curves:
        for point in curve.points:
            for _, field, statistic in _columns(study.sla):
                yield curve.arrivals, statistic, getattr(point, field)


def _subject(study: Study) -> str:
    return f"{short_model(study.model)} {study.lengths.input_tokens:g}/{study.lengths.output_tokens:g}"


def _sizes(title: str, studies: Sequence[Study]) -> Table:
    """One row a study: what the SLA costs with this model."""
    currencies = {s.sizing.cost.currency for s in studies if s.sizing.cost}
    table = Table(title=f"{title}: sized under its SLA ({studies[0].arrivals.value})", title_justify="left")
    table.add_column("model,\ntokens in/out", overflow="fold")
    table.add_column("configuration,\nbasis", min_width=14)
    money = next(iter(currencies)) if len(currencies) == 1 else "cost"
    for heading in ("replicas", "GPUs", f"{money}\nan hour", f"{money} per 1000\nrequests"):
        table.add_column(heading, justify="right", min_width=max(len(line) for line in heading.splitlines()))
    for study in studies:
        table.add_row(_subject(study).replace(" ", "\n"), *_size_cells(study.sizing))
        table.add_section()
    return table


def _size_cells(sizing: Sizing) -> list[str]:
    if not sizing.feasible:
        return [sizing.binding_constraint, "none", "none", UNKNOWN, UNKNOWN]
    cost, key = sizing.cost, sizing.configuration
    name = configuration_name(key).replace(" ", "\n", 1)
    basis = certainty(sizing.basis, sizing.band).replace(" ", "\n", 1)
    return [
        f"{name}\n{basis}",
        replicas_range(sizing).replace(" (", "\n(").replace("to ", "to\n"),
        str(sizing.gpus),
        number(cost.per_hour if cost else None),
        number(cost.per_thousand_requests_at_peak if cost else None),
    ]


def _points(curve: Curve, sla: Sla) -> Table:
    key, closed = curve.key, curve.arrivals is Arrivals.CLOSED_LOOP
    table = Table(title=f"{configuration_name(key)} ({curve.basis.value})", title_justify="left")
    shown = tuple(_columns(sla))
    load = ("concur-\nrency", "rate") if closed else ("rate",)
    latencies = (f"{metric}\n{word(statistic)}" for metric, _, statistic in shown)
    for heading in (*load, "rate\na GPU", *latencies, "in the\nSLA", ""):
        table.add_column(heading, justify="right" if heading else "left")
    for point, kept, mark in _rows(curve):
        rate = point.requests_per_second
        cells = [number(load_of(point)), *([number(rate)] if closed else []), number(rate / key.gpus_per_replica)]
        cells += [number(getattr(point, field).at(statistic)) for _, field, statistic in shown]
        table.add_row(*cells, VERDICTS[kept], mark)
    return table


def _rows(curve: Curve) -> Iterable[tuple[Point, bool | None, str]]:
    """The points by rising load, each with its verdict and what it is; the chosen one in its place among them."""
    chosen = curve.chosen
    rows = []
    for point, kept in zip(curve.points, curve.kept, strict=True):
        marks = ["knee"] if point is curve.knee else []
        if chosen is not None and abs(load_of(point) / load_of(chosen) - 1) < 1e-6:
            marks.append("chosen")
            chosen = None
        rows.append((point, kept, ", ".join(marks)))
    if chosen is not None:
        rows.append((chosen, True, "chosen"))
    return sorted(rows, key=lambda row: load_of(row[0]))


def _columns(sla: Sla) -> Iterable[tuple[str, str, Percentile]]:
    """Every latency as its mean, and the statistic that its limit is about."""
    for metric, field, limit in limited(sla):
        for statistic in dict.fromkeys((Percentile.MEAN, limit.percentile if limit else Percentile.MEAN)):
            yield metric, field, statistic
