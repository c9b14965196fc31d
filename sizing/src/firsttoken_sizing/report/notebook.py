"""Sizings, curves, simulations, benchmarks and places as a notebook shows them: a line, rows, an HTML table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from html import escape

from firsttoken_sizing.answer import Answer
from firsttoken_sizing.benchmarks import ImportResult
from firsttoken_sizing.optimize.places import SideBySide
from firsttoken_sizing.profile import STATISTICS, ConfigurationKey, Latencies, Point
from firsttoken_sizing.report.cells import LATENCIES, UNKNOWN, certainty, configuration_name, number, replicas_range
from firsttoken_sizing.report.curves import Curve, Study
from firsttoken_sizing.report.simulation import Simulated, verdict
from firsttoken_sizing.request import Sizing

_Row = dict[str, object]
_MOST_ROWS = 60
_SHORT = {"ttft": "ttft", "itl": "itl", "end_to_end": "e2e"}
"""Names of the latencies in columns."""


@singledispatch
def line(answer: Answer) -> str:
    """One line that says what was found."""
    raise NotImplementedError(type(answer).__name__)


@singledispatch
def rows(answer: Answer) -> list[_Row]:
    """Rows of plain values: a sizing has one, a curve one a point."""
    raise NotImplementedError(type(answer).__name__)


def html(answer: Answer) -> str:
    """The line, and the rows as a table: one row upright, without what is not known."""
    found = rows(answer)
    body = _upright(found[0]) if len(found) == 1 else _across(found[:_MOST_ROWS])
    rest = f"<p>and {len(found) - _MOST_ROWS} more rows: to_rows() has all</p>" if len(found) > _MOST_ROWS else ""
    return f"<div><p>{escape(line(answer))}</p>{body}{rest}</div>"


@line.register
def _(answer: Sizing) -> str:
    if not answer.feasible:
        return f"no size: {answer.reason}"
    key, capacity = configuration_name(answer.configuration), number(answer.requests_per_second_per_replica)
    replicas = f"{replicas_range(answer)} replica{'' if answer.replicas == 1 else 's'}"
    return (
        f"{replicas} of {key}: {_counted(answer.gpus, 'GPU')}, {_counted(answer.servers, 'server')}; one carries"
        f" {capacity} requests/s, bound by {answer.binding_constraint}; {certainty(answer.basis, answer.band)}"
    )


@rows.register
def _(answer: Sizing) -> list[_Row]:
    size = answer if answer.feasible else None
    return [
        {
            "feasible": answer.feasible,
            **_configuration(answer.configuration),
            "arrivals": answer.arrivals.value,
            "replicas": size and size.replicas,
            "replicas_low": size and size.replicas_low,
            "replicas_high": size and size.replicas_high,
            "gpus": size and size.gpus,
            "servers": size and size.servers,
            "requests_per_second": answer.peak_requests_per_second,
            "requests_per_second_per_replica": size and size.requests_per_second_per_replica,
            "requests_per_second_per_server": size and size.requests_per_second_per_server,
            "concurrency_per_replica": size and size.concurrency_per_replica,
            **_latencies(answer),
            "bound_by": answer.binding_constraint,
            "basis": answer.basis.value if answer.basis else None,
            "error_band_percent": size and size.error_band_percent,
            "cost_per_year": answer.cost.per_year if answer.cost else None,
            "currency": answer.cost.currency if answer.cost else None,
        }
    ]


@line.register
def _(answer: Study) -> str:
    lengths = f"{answer.lengths.input_tokens:g}/{answer.lengths.output_tokens:g}"
    chosen = next((configuration_name(c.key) for c in answer.curves if c.chosen), None)
    found = f"chosen: {chosen}" if chosen else answer.sizing.reason
    return f"{_counted(len(answer.curves), 'curve')} of {answer.model} {lengths}, {answer.arrivals.value}; {found}"


@rows.register
def _(answer: Study) -> list[_Row]:
    return [row for curve in answer.curves for row in _of_curve(curve)]


def _of_curve(curve: Curve) -> Iterable[_Row]:
    for point, kept in zip(curve.points, curve.kept, strict=True):
        yield {
            **_configuration(curve.key),
            "arrivals": curve.arrivals.value,
            "basis": curve.basis.value,
            **_point(point, curve.key),
            "inside_sla": kept,
            "knee": point is curve.knee,
        }


@line.register
def _(answer: Simulated) -> str:
    return f"{answer.load}: {verdict(answer)}"


@rows.register
def _(answer: Simulated) -> list[_Row]:
    summary = answer.summary
    return [
        {
            **_configuration(answer.subject.key),
            "replicas": answer.settings.replicas,
            "batching": answer.settings.batching.value,
            "load": answer.load,
            "requests": summary.requests,
            "requests_per_second": summary.requests_per_second,
            **_latencies(summary),
            "inside_sla": all(bound.kept for bound in answer.limits) if answer.limits else None,
            "gpu_busy_percent": summary.busy_percent,
            "mean_batch": summary.mean_batch,
            "queued_percent": summary.queued_percent,
        }
    ]


@line.register
def _(answer: ImportResult) -> str:
    points = sum(len(profile.points) for profile in answer.profiles)
    found = f"{_counted(points, 'point')} in {_counted(len(answer.profiles), 'profile')}"
    return f"{found}, {_counted(len(answer.refused), 'run')} left out"


@rows.register
def _(answer: ImportResult) -> list[_Row]:
    return [
        {
            "profile": profile.name,
            **_configuration(profile.key),
            "input_tokens": profile.input_tokens,
            "output_tokens": profile.output_tokens,
            "load": profile.load.value,
            "engine": profile.engine,
            **_point(point, profile.key),
        }
        for profile in answer.profiles
        for point in profile.points
    ]


@line.register
def _(answer: SideBySide) -> str:
    return "; ".join(f"{one.place.name}: {line(one.sizing)}" for one in answer.placed)


@rows.register
def _(answer: SideBySide) -> list[_Row]:
    found = []
    for one in answer.placed:
        cost = one.sizing.cost
        found.append(
            {
                "place": one.place.name,
                **rows(one.sizing)[0],
                "cost_per_year_autoscaled": cost.per_year_autoscaled if cost else None,
                "cost_per_thousand_requests_at_peak": cost.per_thousand_requests_at_peak if cost else None,
                "most_gpus": one.place.most_gpus,
                "enough": one.enough,
            }
        )
    return found


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _configuration(key: ConfigurationKey | None) -> _Row:
    return {
        "model": key and key.model,
        "gpu": key and key.gpu,
        "precision": key and key.precision,
        "tensor_parallel": key and key.tensor_parallel,
        "pipeline_parallel": key and key.pipeline_parallel,
        "attention_data_parallel": key and key.attention_data_parallel,
    }


def _point(point: Point, key: ConfigurationKey) -> _Row:
    return {
        "concurrency": point.concurrency,
        "offered_requests_per_second": point.offered_requests_per_second,
        "requests_per_second": point.requests_per_second,
        "requests_per_second_per_gpu": point.requests_per_second / key.gpus_per_replica,
        **_latencies(point),
    }


def _latencies(latencies: Latencies) -> _Row:
    """Every statistic of the three latencies: `ttft_mean_ms` to `e2e_p99_ms`."""
    return {
        f"{_SHORT[field]}_{statistic}_ms": getattr(getattr(latencies, field), statistic)
        for _, field, _ in LATENCIES
        for statistic in STATISTICS
    }


def _upright(row: Mapping[str, object]) -> str:
    known = ((name, value) for name, value in row.items() if value is not None)
    return _table(f"<tr><th>{escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in known)


def _across(found: Sequence[_Row]) -> str:
    """A column for each name under which some row has a value."""
    names = [name for name in (found[0] if found else {}) if any(row[name] is not None for row in found)]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = ("".join(f"<td>{_cell(row[name])}</td>" for name in names) for row in found)
    return _table((f"<tr>{head}</tr>", *(f"<tr>{cells}</tr>" for cells in lines)))


def _table(lines: Iterable[str]) -> str:
    return f"<table>{''.join(lines)}</table>"


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else escape(UNKNOWN if value is None else str(value))
