"""Tables that are printed: one a scenario, the means, the variants, the bar. The same for a terminal and for a page."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.table import Table

from policies.cells import Cell
from policies.contenders import CLAIRVOYANT, NAMES, PEERS, TUNING_PARAMETERS
from policies.fingerprint import CAUSAL, OURS
from policies.fronts import hours_at, points, reference_hours
from policies.intervals import Interval
from policies.plan import CAPACITY_ERRORS
from policies.scenarios import SCENARIOS, Kind, Scenario
from policies.summary import Line, Summary
from policies.verdict import Verdict, condition, more_percent, pairs


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A title, headings, rows of text."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def for_terminal(self) -> Table:
        """Table for rich."""
        table = Table(title=self.title, title_justify="left")
        for number, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if not number else "right", no_wrap=not number)
        for row in self.rows:
            table.add_row(*row)
        return table

    def for_page(self) -> str:
        """Table in Markdown."""
        lines = [self.headings, tuple("---" if not number else "---:" for number in range(len(self.headings)))]
        table = "\n".join(f"| {' | '.join(row)} |" for row in (*lines, *self.rows))
        return f"### {self.title}\n\n{table}\n"


MEANS = "Mean over the traces"
FRONTS = "Fronts: every setting, first seed"
_FIGURES = ("inside SLA %", "5 min < 95 in %", "GPU-hours", "over clairvoyant %", "changes", "worst hour %", "seeds")


def tables(summary: Summary, verdicts: list[Verdict]) -> list[ResultTable]:
    """All of a run; those that would be empty are left out."""
    every = [
        *(_scenario(summary, name) for name in summary.scenarios(*Kind)),
        _tuning(summary),
        _fronts(summary),
        _equal_attainment(summary),
        _means(summary),
        _conditions(summary),
        _standby(summary),
        _learning(summary),
        _speed(summary),
        _bar(verdicts),
    ]
    return [table for table in every if table.rows]


def shown(value: Interval | None, digits: int = 2, sign: str = "") -> str:
    """The mean, and half of its interval."""
    if value is None:
        return "-"
    mean = f"{value.mean:{sign}.{digits}f}"
    return mean if value.half_width is None else f"{mean} ± {value.half_width:.{digits}f}"


def _figures(line: Line) -> tuple[str, ...]:
    return (
        shown(line.attainment_percent),
        shown(line.windows_under_95_percent),
        shown(line.gpu_hours, 1),
        shown(line.over_clairvoyant_percent, 1, "+"),
        f"{line.scale_events:.0f}",
        f"{line.worst_hour_percent:.1f}",
        str(len(line.plays)),
    )


def _scenario(summary: Summary, name: str) -> ResultTable:
    lines = sorted(summary.lines(name, usual=True), key=lambda line: NAMES.index(line.policy))
    rows = []
    for line in lines:
        tuning = "" if line.tuning is None else f"{line.tuning:g}"
        rows.append((line.policy, tuning, *_figures(line)))
    requests = max((line.plays[0].figures.requests for line in lines), default=0)
    static = max((line.plays[0].figures.static_peak_replicas for line in lines), default=0)
    return ResultTable(
        f"{name}: {what(SCENARIOS[name])}; {requests:,} requests scored, static peak {static} replicas",
        ("policy", "tuning", *_FIGURES),
        tuple(rows),
    )


def what(scenario: Scenario) -> str:
    """Trace of a scenario, and how it was scaled."""
    made = "" if scenario.episode is None else scenario.episode.what
    return f"{scenario.file or made}; {scenario.scaling}"


def _tuning(summary: Summary) -> ResultTable:
    """Tuning parameters, the values that were tried, and which of them is in the tables."""
    rows = []
    for name, parameter in TUNING_PARAMETERS.items():
        tried = {o.cell.tuning for o in summary.outcomes if o.cell.policy == name and o.cell.tuning is not None}
        if tried:
            lines = [line for scenario in summary.scenarios(*Kind) if (line := summary.line(scenario, name))]
            best = ", ".join(f"{line.scenario} {line.tuning:g}" for line in lines)
            rows.append((name, parameter.what, ", ".join(f"{value:g}" for value in sorted(tried)), best))
    return ResultTable(
        "Tuning of the peers, the best in hindsight", ("policy", "tuning parameter", "tried", "best"), tuple(rows)
    )


def _fronts(summary: Summary) -> ResultTable:
    rows = []
    for scenario in summary.scenarios(Kind.WEEK, Kind.FLEET):
        known = reference_hours(summary.outcomes, scenario)
        for policy in NAMES:
            for point in points(summary.outcomes, scenario, policy):
                over = "-" if known is None else f"{100 * (point.gpu_hours / known - 1):+.1f}"
                attained = f"{point.attainment_percent:.2f}"
                rows.append((scenario, policy, f"{point.setting:g}", attained, f"{point.gpu_hours:.1f}", over))
    headings = ("trace", "policy", "setting", "inside SLA %", "GPU-hours", "over clairvoyant %")
    return ResultTable(FRONTS, headings, tuple(rows))


def _equal_attainment(summary: Summary) -> ResultTable:
    """Excess of our GPU-hours over those on every other front, at what ours attains; -: nothing on it attains that."""
    others = (CAUSAL, CLAIRVOYANT, *PEERS)
    rows = []
    for scenario in summary.scenarios(Kind.WEEK, Kind.FLEET):
        for own in points(summary.outcomes, scenario, OURS):
            at = [hours_at(points(summary.outcomes, scenario, name), own.attainment_percent) for name in others]
            over = ["-" if hours is None else f"{100 * (own.gpu_hours / hours - 1):+.1f}" for hours in at]
            rows.append((f"{scenario}, {own.setting:g} % asked", f"{own.attainment_percent:.2f}", *over))
    return ResultTable(
        "GPU-hours of ours over each front at equal attainment, %", ("trace", "ours attains %", *others), tuple(rows)
    )


def _means(summary: Summary) -> ResultTable:
    weeks, recorded = summary.scenarios(Kind.WEEK), summary.scenarios(Kind.WEEK, Kind.HOUR)
    rows = []
    for name in NAMES:
        cells = []
        for scenarios in (weeks, recorded):
            mean = summary.mean_over(scenarios, name)
            cells += ["-", "-"] if mean is None else [f"{mean[0]:.2f}", f"{mean[1]:+.1f}"]
        if cells != ["-"] * 4:
            rows.append((name, *cells))
    headings = ("weeks: inside SLA %", "over clairvoyant %", "all recorded: inside SLA %", "over clairvoyant %")
    return ResultTable(MEANS, ("policy", *headings), tuple(rows))


def _conditions(summary: Summary) -> ResultTable:
    rows = [
        (f"{name}, {condition(line)}", line.policy, *_figures(line))
        for name in summary.scenarios(Kind.WEEK)
        for line in summary.lines(name, usual=False)
    ]
    return ResultTable("Other cold starts, and a wrong capacity", ("condition", "policy", *_FIGURES), tuple(rows))


def _standby(summary: Summary) -> ResultTable:
    """Ours with replicas asleep beside ours without, on the same requests."""
    rows = []
    without = {_conditions_of(o.cell): o for o in summary.outcomes if o.cell.policy == OURS and not o.cell.standby}
    for outcome in summary.outcomes:
        cell, figures = outcome.cell, outcome.figures
        bare = without.get(_conditions_of(cell))
        if not cell.standby or bare is None:
            continue
        for asleep, each in ((0, bare.figures), (cell.standby, figures)):
            more = 100 * (each.gpu_hours / bare.figures.gpu_hours - 1)
            row = (
                f"{cell.scenario}, start {cell.cold_start_seconds:g} s",
                str(asleep),
                f"{each.attainment_percent:.2f}",
                f"{each.worst_hour_attainment_percent:.1f}",
                f"{each.gpu_hours:.1f}",
                f"{each.standby_gpu_hours:.1f}",
                f"{more:+.1f}" if asleep else "",
            )
            if row not in rows:
                rows.append(row)
    headings = ("inside SLA %", "worst hour %", "GPU-hours", "of them asleep", "more %")
    return ResultTable("Replicas on standby, seed by seed", ("trace", "asleep", *headings), tuple(rows))


def _conditions_of(cell: Cell) -> Cell:
    """Cell with the same requests and starts, and nothing on standby."""
    return replace(cell, standby=0)


def _learning(summary: Summary) -> ResultTable:
    rows = []
    for name in summary.scenarios(Kind.WEEK):
        right = summary.line(name, OURS)
        for error in CAPACITY_ERRORS:
            wrong = summary.line(name, OURS, capacity_error=error)
            for bad, good in pairs(wrong, right) if wrong and right else []:
                factor = bad.figures.capacity_factor
                spans = ((bad.figures.first_hour, good.figures.first_hour), (bad.figures.later, good.figures.later))
                cells = [
                    text
                    for span, other in spans
                    for text in (
                        f"{span.attainment_percent:.2f} ({other.attainment_percent:.2f})",
                        f"{more_percent(span, other):+.1f}",
                    )
                ]
                rows.append(
                    (f"{name}, {error:+d} %, seed {bad.cell.seed}", *cells, "-" if factor is None else f"{factor:.2f}")
                )
    return ResultTable(
        "A wrong capacity is learned (in brackets: with the right one)",
        ("trace", "first hour %", "GPU-hours, more %", "later %", "GPU-hours, more %", "factor after an hour"),
        tuple(rows),
    )


def _speed(summary: Summary) -> ResultTable:
    weeks, fleets = summary.seconds_a_week(), summary.seconds_a_week(Kind.FLEET)
    rows = tuple(
        (name, *(f"{seconds[name]:.0f}" if name in seconds else "-" for seconds in (weeks, fleets)))
        for name in NAMES
        if name in weeks or name in fleets
    )
    return ResultTable("Seconds of one core for the longest week", ("policy", "s", "s, large fleet"), rows)


def _bar(verdicts: list[Verdict]) -> ResultTable:
    rows = tuple((verdict.asks, "yes" if verdict.holds else "NO", verdict.found) for verdict in verdicts)
    return ResultTable("The bar", ("line", "holds", "found"), rows)
