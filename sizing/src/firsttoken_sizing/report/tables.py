"""The tables below the main one of a sizing: the job, the cost, and the alternatives, grouped to stay readable.

The JSON document lists every alternative by itself; here those of one GPU and precision that lost for the same kind of
reason share a row, with the reason of the nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from firsttoken_sizing.report.cells import UNKNOWN, configuration_name, number, parallelism
from firsttoken_sizing.request import Alternative, Cost, Job
from firsttoken_sizing.workload import Batching

_LISTED_ONE_BY_ONE = 8
"""Alternatives with a size of their own; the costlier rest is counted."""
_GROUPS = 12


def job_table(job: Job, cost: Cost | None) -> Table:
    """Table of an offline job."""
    table = Table(title="Job", title_justify="left", show_header=False)
    table.add_row("requests", f"{job.requests:,}")
    table.add_row("done after, of the deadline (hours)", f"{number(job.finish_hours)} of {number(job.deadline_hours)}")
    table.add_row("GPU-hours", number(job.gpu_hours))
    if job.cost is not None and cost is not None:
        table.add_row(f"cost ({cost.currency})", _amount(job.cost))
        table.add_row("1000 requests", _amount(job.cost_per_thousand_requests or 0.0))
    return table


def cost_table(cost: Cost) -> RenderableType:
    """Cost of the fleet, beside a fleet that follows the load and an API that is paid by the token."""
    table = Table(title=f"Cost ({cost.currency})", title_justify="left", show_header=False)
    for label, value in (
        ("a year", cost.per_year),
        ("a year, autoscaled", cost.per_year_autoscaled),
        ("an hour", cost.per_hour),
        ("1000 requests at the peak", cost.per_thousand_requests_at_peak),
        ("1000 requests at the peak, of the fraction of servers used", cost.per_thousand_requests_at_peak_fractional),
        ("1000 requests at the average", cost.per_thousand_requests_at_average),
        ("1000 requests at the average, autoscaled", cost.per_thousand_requests_autoscaled),
        ("1 million tokens at the peak", cost.per_million_tokens_at_peak),
        ("1 million tokens at the average", cost.per_million_tokens_at_average),
        ("1000 requests from the API", cost.api_per_thousand_requests),
        ("a year of the API at the average", cost.api_per_year_at_average),
    ):
        if value is not None:
            table.add_row(label, _amount(value))
    for label, text in _loads(cost):
        table.add_row(label, text)
    return Group(table, *(Text(f"  {sentence}", style="dim") for sentence in cost.assumptions))


def alternatives_table(alternatives: Sequence[Alternative]) -> Table:
    """Alternatives and why they lost: sizes one by one, the rest in groups."""
    table = Table(title="Alternatives", title_justify="left")
    for heading in ("configuration", "GPUs", "why not"):
        table.add_column(heading)
    sized = [a for a in alternatives if a.gpus is not None]
    for alternative in sized[:_LISTED_ONE_BY_ONE]:
        table.add_row(_name(alternative), str(alternative.gpus), alternative.reason)
    if (more := len(sized) - _LISTED_ONE_BY_ONE) > 0:
        table.add_row(f"and {more} more", f"{sized[_LISTED_ONE_BY_ONE].gpus}+", "cost more, or are known less well")
    groups = _groups(a for a in alternatives if a.gpus is None)
    for group in groups[:_GROUPS]:
        # What would help is the same for all of them, and stands in the document.
        table.add_row(_names(group), UNKNOWN, group[0].reason.partition("; ")[0])
    if len(groups) > _GROUPS:
        table.add_row(f"and {sum(map(len, groups[_GROUPS:]))} more", UNKNOWN, "-o json lists all")
    return table


def _loads(cost: Cost) -> Iterable[tuple[str, str]]:
    if cost.gpu_hours_per_day is not None and cost.gpu_hours_per_day_autoscaled is not None:
        yield (
            "GPU-hours a day, static / autoscaled",
            f"{number(cost.gpu_hours_per_day)} / {number(cost.gpu_hours_per_day_autoscaled)}",
        )
    if cost.break_even_requests_per_second is not None and cost.break_even_percent_of_peak is not None:
        rate, share = cost.break_even_requests_per_second, cost.break_even_percent_of_peak
        never = " (the API is cheaper at any load)" if share > 100 else ""
        yield (
            "cheaper than the API from an average of",
            f"{number(rate)} requests/s, {number(share)} % of the peak{never}",
        )


def _groups(alternatives: Iterable[Alternative]) -> list[list[Alternative]]:
    """Alternatives of one GPU and precision that lost for the same kind of reason, in their order."""
    found: dict[tuple[str, str, str], list[Alternative]] = {}
    for a in alternatives:
        # The cause of an infeasible one stands before the colon, and that pools are apart; what was pruned has none.
        kind = "" if a.feasible and a.batching else a.reason.partition(":")[0]
        found.setdefault((a.configuration.gpu, a.configuration.precision, kind), []).append(a)
    return list(found.values())


def _names(group: Sequence[Alternative]) -> str:
    first = group[0].configuration
    ways = ", ".join(dict.fromkeys(f"{parallelism(a.configuration)}{_batching(a)}" for a in group))
    return f"{first.gpu} {first.precision} {ways}"


def _name(alternative: Alternative) -> str:
    return f"{configuration_name(alternative.configuration)}{_batching(alternative)}"


def _batching(alternative: Alternative) -> str:
    if alternative.batching is None:
        return " prefill/decode"
    return "" if alternative.batching is Batching.IN_FLIGHT else f" {alternative.batching.value}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4f}"
