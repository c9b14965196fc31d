"""What is shown while the demo runs: one table, redrawn, and the verdict at the end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from demo.record import Record, Sample
from demo.scenario import Expectation, Scenario
from demo.verdict import Criterion

ROWS = 14
ROW_SECONDS = 5.0


def render_table(scenario: Scenario, expected: Expectation, record: Record) -> Table:
    """The last minute of the run, one row every five seconds, the newest at the bottom."""
    title = (
        f"{record.seconds:.0f} of {scenario.duration_seconds:.0f} s, every control duration / {scenario.time_scale:g}"
    )
    table = Table(title=title)
    for column in ("second", "requests/s", "sized", "desired", "ready", "TTFT P95", "SLA", "inside SLA", "reason"):
        table.add_column(column, justify="left" if column == "reason" else "right")
    for sample in _rows(record.samples):
        ttft = sample.ttft_p95_milliseconds
        inside = ttft is not None and ttft <= expected.ttft_sla_milliseconds
        table.add_row(
            f"{sample.seconds:.0f}",
            f"{sample.offered_requests_per_second:.0f}",
            str(sample.sized),
            str(sample.desired),
            str(sample.ready),
            "-" if ttft is None else f"[{'green' if inside else 'red'}]{ttft:.0f} ms[/]",
            f"{expected.ttft_sla_milliseconds:.0f} ms",
            "-" if sample.attainment_percent is None else f"{sample.attainment_percent:.1f} %",
            sample.reason,
        )
    return table


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
