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


COLUMNS = ("second", "requests/s", "sized", "desired", "ready", "TTFT P95", "SLA", "inside SLA", "reason")


@contextmanager
def live_display(console: Console, scenario: Scenario, expected: Expectation) -> Iterator[Callable[[Record], None]]:
    """A function that shows the record: a table redrawn on a terminal, else a line every five seconds."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=2) as live:
            yield lambda record: live.update(render_table(scenario, expected, record))
        return
    print("  ".join(COLUMNS), flush=True)
    shown: set[float] = set()

    def show(record: Record) -> None:
        sample = record.samples[-1]
        slot = sample.seconds // ROW_SECONDS
        if slot not in shown:
            shown.add(slot)
            print("  ".join(_cells(sample, expected)), flush=True)

    yield show


def render_table(scenario: Scenario, expected: Expectation, record: Record) -> Table:
    """The last minute of the run, one row every five seconds, the newest at the bottom."""
    title = (
        f"{record.seconds:.0f} of {scenario.duration_seconds:.0f} s, every control duration / {scenario.time_scale:g}"
    )
    table = Table(title=title)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "reason" else "right")
    for sample in _rows(record.samples):
        cells = _cells(sample, expected)
        ttft = sample.ttft_p95_milliseconds
        if ttft is not None:
            color = "green" if ttft <= expected.ttft_sla_milliseconds else "red"
            cells[COLUMNS.index("TTFT P95")] = f"[{color}]{ttft:.0f} ms[/]"
        table.add_row(*cells)
    return table


def _cells(sample: Sample, expected: Expectation) -> list[str]:
    """One sample in the order of `COLUMNS`."""
    ttft, attained = sample.ttft_p95_milliseconds, sample.attainment_percent
    return [
        f"{sample.seconds:.0f}",
        f"{sample.offered_requests_per_second:.0f}",
        str(sample.sized),
        str(sample.desired),
        str(sample.ready),
        "-" if ttft is None else f"{ttft:.0f} ms",
        f"{expected.ttft_sla_milliseconds:.0f} ms",
        "-" if attained is None else f"{attained:.1f} %",
        sample.reason,
    ]


def render_verdict(criteria: Sequence[Criterion]) -> Table:
    """The criteria, one a row."""
    table = Table(title="verdict")
    for column in ("", "criterion", "measured", "required"):
        table.add_column(column)
    for c in criteria:
        table.add_row("[green]passed[/]" if c.passed else "[red]failed[/]", c.name, c.measured, c.required)
    return table


def _rows(samples: Sequence[Sample]) -> list[Sample]:
    """One sample every five seconds, and always the newest."""
    newest_of_slot = {sample.seconds // ROW_SECONDS: sample for sample in samples}
    return list(newest_of_slot.values())[-ROWS:]
