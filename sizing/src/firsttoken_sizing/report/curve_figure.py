"""Curves as a picture: throughput against latency, grouped by color, with the limits, each knee and the chosen points.

Points that keep the whole SLA are filled, others are hollow: the limit of one axis is a line, the other limits are not
on the picture. One panel for each deployment, since each has an SLA of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from firsttoken_sizing.performance.measured import load_of
from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.report.cells import LATENCIES, certainty, configuration_name, parallelism
from firsttoken_sizing.report.curves import Curve, Study
from firsttoken_sizing.report.figure import Axis, Dash, Figure, LimitLine, Mark, MarkKind, Panel, Series, Shape
from firsttoken_sizing.report.quantity import Quantity, ReplicaFacts
from firsttoken_sizing.report.slow_few import remarks
from firsttoken_sizing.request import Sizing
from firsttoken_sizing.workload import Arrivals, Percentile, Sla

_DASHES, _SHAPES = tuple(Dash), tuple(Shape)
_KEPT = "Filled points keep every limit of the SLA, hollow ones break one."
_MARKS = "Star: chosen. Diamond: knee (most throughput for its end-to-end latency)."


class Grouping(StrEnum):
    """Property that has a color of its own; what else differs is told by how lines are broken."""

    TENSOR_PARALLEL = "tp"
    PRECISION = "precision"
    GPU = "gpu"
    LENGTHS = "lengths"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class View:
    """Choice of what is drawn. Latency axes are logarithmic unless `linear`; other axes are linear.

    Without `percentile` a latency is shown at the statistic of its limit, else as its mean.
    """

    x: Quantity | None
    """None: requests/s a GPU where y says how a request fares, else the first latency that the SLA limits."""
    y: Quantity
    by: Grouping
    linear: bool = False
    percentile: Percentile | None = None

    def axes(self, sla: Sla) -> tuple[Quantity, Quantity]:
        """X and y of a panel under this SLA."""
        if self.x is not None:
            return self.x, self.y
        if self.y.is_latency or self.y in (Quantity.TTFT_RATIO, Quantity.QUEUEING):
            return Quantity.REQUESTS_PER_GPU, self.y
        return next((q for q in Quantity if q.limit(sla)), Quantity.E2E), self.y

    def statistic(self, quantity: Quantity, sla: Sla) -> Percentile:
        """The statistic that an axis shows."""
        limit = quantity.limit(sla)
        return self.percentile or (limit.percentile if limit else Percentile.MEAN)


def curve_figure(subjects: Sequence[tuple[str, Sequence[Study]]], view: View) -> Figure:
    """The picture of deployments: of each its title, and its studies (models and lengths) under one SLA."""
    curves = [c for _, studies in subjects for s in studies for c in s.curves]
    styles = _Styles(curves, view.by)
    panels = []
    for title, studies in subjects:
        if not any(study.curves for study in studies):
            continue
        sla = studies[0].sla
        x, y = (_axis(view, quantity, sla) for quantity in view.axes(sla))
        series: list[Series] = []
        marks: list[Mark] = []
        for study in studies:
            for curve in study.curves:
                plotter = _Plotter(view, sla, curve, styles)
                if (drawn := plotter.series()).x:
                    series.append(drawn)
                marks += plotter.marks(study.sizing)
        of_title = title if len(subjects) > 1 else ""
        panels.append(Panel(x, y, tuple(series), _limits(view, sla), tuple(marks), title=of_title))
    return Figure(_title(subjects), tuple(panels), _notes(subjects))


def short_model(model: str) -> str:
    """A model's name without its organization."""
    return model.rpartition("/")[2]


class _Styles:
    """Styles that tell curves apart: by name, by color for the grouping, by dash and shape for what else differs."""

    def __init__(self, curves: Sequence[Curve], by: Grouping) -> None:
        differing = [g for g, of in _ATTRIBUTES.items() if len({of(c) for c in curves}) > 1]
        self._shown = [g for g in _ATTRIBUTES if g in _ALWAYS or g in differing]
        others = [g for g in differing if g is not by]
        # One attribute for the dash, the rest (mostly one, too) for the shape.
        self._dash, self._shape = others[-1:], others[:-1]
        self._by = by
        self._curves = curves

    def name(self, curve: Curve) -> str:
        """Precision and parallelism, and whatever else is not the same for all."""
        return self._words(curve, self._shown)

    def group(self, curve: Curve) -> str:
        return _ATTRIBUTES[self._by](curve)

    def color(self, curve: Curve) -> int:
        return self._place(curve, [self._by])

    def dash(self, curve: Curve) -> Dash:
        return _DASHES[self._place(curve, self._dash) % len(_DASHES)]

    def shape(self, curve: Curve) -> Shape:
        return _SHAPES[self._place(curve, self._shape) % len(_SHAPES)]

    def _place(self, curve: Curve, groupings: Sequence[Grouping]) -> int:
        seen = list(dict.fromkeys(self._words(c, groupings) for c in self._curves))
        return seen.index(self._words(curve, groupings))

    @staticmethod
    def _words(curve: Curve, groupings: Iterable[Grouping]) -> str:
        return " ".join(_ATTRIBUTES[g](curve) for g in groupings)


class _Plotter:
    """One curve on the axes of a view."""

    def __init__(self, view: View, sla: Sla, curve: Curve, styles: _Styles) -> None:
        self._curve, self._styles = curve, styles
        self._name, self._color = styles.name(curve), styles.color(curve)
        self._x, self._y = ((q, view.statistic(q, sla)) for q in view.axes(sla))
        alone = curve.alone.ttft.mean
        self._replica = ReplicaFacts(curve.key.gpus_per_replica, curve.lengths.output_tokens, alone)

    def series(self) -> Series:
        points = []
        curve = self._curve
        basis = curve.basis.value
        if any(self._place(known) is None and self._place(filled) for known, filled in self._pairs()):
            # What a benchmark did not report is drawn, but not as if it had.
            basis += f", {self._statistics()} filled in"
        for (known, filled), kept in zip(self._pairs(), curve.kept, strict=True):
            place = self._place(filled)
            if place is not None:
                points.append((*place, kept, self._note(known, filled)))
        x, y, kept_all, notes = zip(*points, strict=True) if points else ((), (), (), ())
        styles, name = self._styles, f"{self._name} ({basis})"
        dash, shape = styles.dash(curve), styles.shape(curve)
        return Series(name, styles.group(curve), x, y, self._color, dash, shape, kept_all, notes)

    def marks(self, sizing: Sizing) -> list[Mark]:
        curve, found = self._curve, []
        knee = next((filled for known, filled in self._pairs() if known is curve.knee), None)
        for kind, what, point in (
            (MarkKind.KNEE, "knee of", knee),
            (MarkKind.CHOSEN, f"chosen: {sizing.replicas} x", curve.chosen),
        ):
            if point and (place := self._place(point)):
                found.append(Mark(kind, f"{what} {self._name}", *place, self._color))
        return found

    def _pairs(self) -> Iterable[tuple[Point, Point]]:
        return zip(self._curve.points, self._curve.filled, strict=True)

    def _statistics(self) -> str:
        shown = [statistic.value for quantity, statistic in (self._x, self._y) if quantity.is_latency]
        return " and ".join(dict.fromkeys(shown))

    def _place(self, point: Point) -> tuple[float, float] | None:
        x, y = (self._replica.value(quantity, point, statistic) for quantity, statistic in (self._x, self._y))
        return None if x is None or y is None else (x, y)

    def _note(self, known: Point, filled: Point) -> str:
        load = load_of(known)
        closed = self._curve.arrivals is Arrivals.CLOSED_LOOP
        lines = [self._name, f"concurrency {load:.4g}" if closed else f"{load:.4g} requests/s"]
        for metric, field, _ in LATENCIES:
            lines.append(f"{metric} ms: {_statistics(getattr(known, field), getattr(filled, field))}")
        return "\n".join(lines)


def _statistics(known: Latency, filled: Latency) -> str:
    """Mean and P95, with a tilde before what a benchmark did not report and sizing fills in."""
    shown = []
    for word, one, other in (("mean", known.mean, filled.mean), ("P95", known.p95, filled.p95)):
        if other is not None:
            shown.append(f"{word} {'' if one is not None else '~'}{other:.4g}")
    return ", ".join(shown) or "not known"


def _axis(view: View, quantity: Quantity, sla: Sla) -> Axis:
    return Axis(quantity.title(view.statistic(quantity, sla)), log=quantity.is_latency and not view.linear)


def _limits(view: View, sla: Sla) -> tuple[LimitLine, ...]:
    lines = []
    for quantity, vertical in zip(view.axes(sla), (True, False), strict=True):
        limit = quantity.limit(sla)
        if limit is not None and limit.percentile is view.statistic(quantity, sla):
            label = f"limit: {quantity.value.upper()} {limit.percentile.value} {limit.milliseconds:g} ms"
            lines.append(LimitLine(label, limit.milliseconds, vertical))
    return tuple(lines)


def _lengths(of: Curve | Study) -> str:
    return f"{of.lengths.input_tokens:g}/{of.lengths.output_tokens:g}"


_ATTRIBUTES: dict[Grouping, Callable[[Curve], str]] = {
    Grouping.MODEL: lambda c: short_model(c.key.model),
    Grouping.GPU: lambda c: c.key.gpu,
    Grouping.PRECISION: lambda c: c.key.precision,
    Grouping.TENSOR_PARALLEL: lambda c: parallelism(c.key),
    Grouping.LENGTHS: _lengths,
}
"""Names of a curve by each grouping, in the order in which a name has them."""
_ALWAYS = (Grouping.PRECISION, Grouping.TENSOR_PARALLEL)


def _title(subjects: Sequence[tuple[str, Sequence[Study]]]) -> str:
    studies = [s for _, of_one in subjects for s in of_one]
    models = " and ".join(dict.fromkeys(short_model(s.model) for s in studies))
    lengths = ", ".join(dict.fromkeys(_lengths(s) for s in studies))
    arrivals = " and ".join(dict.fromkeys(s.arrivals.value for s in studies))
    return f"{models}, {lengths} tokens in/out, {arrivals}"


def _answer(sizing: Sizing) -> str:
    return f"{sizing.reason}; {certainty(sizing.basis, sizing.band)}" if sizing.basis else sizing.reason


def _notes(subjects: Sequence[tuple[str, Sequence[Study]]]) -> tuple[str, ...]:
    judged = any(kept is not None for _, studies in subjects for s in studies for c in s.curves for kept in c.kept)
    notes = [f"{_KEPT} {_MARKS}" if judged else _MARKS]
    for title, studies in subjects:
        for s in studies:
            which = f", {short_model(s.model)} {_lengths(s)}" if len(studies) > 1 else ""
            notes.append(f"{title}{which}: {_answer(s.sizing)}")
            missing = ", ".join(dict.fromkeys(configuration_name(one.key) for one in s.left_out))
            if missing:
                notes.append(f"Not or not wholly drawn: {missing} (the table says why).")
    # NB: what a point tells under the pointer has the P95 of every latency.
    notes += remarks(
        (curve.arrivals, Percentile.P95, getattr(point, field))
        for _, studies in subjects
        for s in studies
        for curve in s.curves
        for point in curve.filled
        for _, field, _ in LATENCIES
    )
    return tuple(notes)
