"""Display while the demo runs: one table, redrawn, and the verdict at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from demo.record import Record, Sample
from demo.scenario import Expectation, Scenario
from demo.verdict import Criterion

ROWS = 14
ROW_SECONDS = 5.0


COLUMNS = (
    "second", "requests/s", "sized", "desired", "ready", "TTFT P95", "SLA", "inside SLA", "reason",
    "frozen: ready", "TTFT P95", "inside SLA",
)  # fmt: skip
TTFT_COLUMNS = (5, 10)


@contextmanager
def live_display(
    console: Console, scenario: Scenario, expected: Expectation
) -> Iterator[Callable[[Record, Record], None]]:
    """Yield what shows both records: a table redrawn on a terminal, else a line every five seconds."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=2) as live:
            yield lambda scaled, frozen: live.update(render_table(scenario, expected, scaled, frozen))
        return
    shown: set[float] = set()

    def show(scaled: Record, frozen: Record) -> None:
        if not shown:
            print("  ".join(_columns(scaled)), flush=True)
        sample = scaled.samples[-1]
        slot = sample.seconds // ROW_SECONDS
        if slot not in shown:
            shown.add(slot)
            print("  ".join(_cells(sample, frozen.samples[-1], expected, real=scaled.real is not None)), flush=True)

    yield show


def render_table(scenario: Scenario, expected: Expectation, scaled: Record, frozen: Record) -> Table:
    """The last minute of the run, one row every five seconds, the newest at the bottom."""
    title = (
        f"{scaled.seconds:.0f} of {scenario.duration_seconds:.0f} s, every control duration / {scenario.time_scale:g}"
    )
    table = Table(title=title)
    for column in _columns(scaled):
        table.add_column(column, justify="left" if column == "reason" else "right")
    for sample, beside in _rows(scaled.samples, frozen.samples):
        cells = _cells(sample, beside, expected, real=scaled.real is not None)
        for at, shown in zip(TTFT_COLUMNS, (sample, beside), strict=True):
            ttft = shown.ttft_p95_milliseconds
            if ttft is not None:
                cells[at] = f"[{'green' if ttft <= expected.ttft_sla_milliseconds else 'red'}]{cells[at]}[/]"
        table.add_row(*cells)
    return table


def _columns(scaled: Record) -> list[str]:
    return [*COLUMNS, *([f"{scaled.real.name}: TTFT P95"] if scaled.real is not None else [])]


def _cells(scaled: Sample, frozen: Sample, expected: Expectation, *, real: bool) -> list[str]:
    """One sample of both in the order of the columns."""
    return [
        f"{scaled.seconds:.0f}",
        f"{scaled.offered_requests_per_second:.0f}",
        str(scaled.sized),
        str(scaled.desired),
        str(scaled.ready),
        _milliseconds(scaled.ttft_p95_milliseconds),
        f"{expected.ttft_sla_milliseconds:.0f} ms",
        _percent(scaled.attainment_percent),
        scaled.reason,
        str(frozen.ready),
        _milliseconds(frozen.ttft_p95_milliseconds),
        _percent(frozen.attainment_percent),
        *([_milliseconds(scaled.real_ttft_p95_milliseconds)] if real else []),
    ]


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} %"


def render_verdict(criteria: Sequence[Criterion]) -> Table:
    """The criteria, one a row."""
    table = Table(title="verdict")
    for column in ("", "criterion", "measured", "required"):
        table.add_column(column)
    for c in criteria:
        table.add_row("[green]passed[/]" if c.passed else "[red]failed[/]", c.name, c.measured, c.required)
    return table


def _rows(scaled: Sequence[Sample], frozen: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """One sample of both every five seconds, and always the newest."""
    newest_of_slot = {pair[0].seconds // ROW_SECONDS: pair for pair in zip(scaled, frozen, strict=True)}
    return list(newest_of_slot.values())[-ROWS:]
