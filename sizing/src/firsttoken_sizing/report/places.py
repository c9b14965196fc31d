"""The answers of several places side by side, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from firsttoken_sizing.optimize.places import PlacedSizing, bought_is_cheaper_from, cheapest
from firsttoken_sizing.report.cells import UNKNOWN, VERDICTS, configuration_name, number, replicas_range
from firsttoken_sizing.request import Cost


def places_table(placed: Sequence[PlacedSizing]) -> RenderableType:
    """One column a place, and below it which is cheaper and from which load on."""
    table = Table(title="Side by side", title_justify="left")
    table.add_column("pool")
    for one in placed:
        table.add_column(one.place.name, justify="right")
    table.add_row("location", *(one.place.location or UNKNOWN for one in placed))
    table.add_row("configuration", *(configuration_name(one.sizing.configuration) for one in placed))
    table.add_row("replicas", *(replicas_range(one.sizing) if one.sizing.feasible else "none" for one in placed))
    for label, field in (("GPUs", "gpus"), ("servers", "servers")):
        table.add_row(label, *(str(getattr(o.sizing, field)) if o.sizing.feasible else "none" for o in placed))
    table.add_row("GPUs there", *("any" if o.place.most_gpus is None else str(o.place.most_gpus) for o in placed))
    table.add_row("enough", *(VERDICTS[one.enough] for one in placed))
    costs = [one.sizing.cost for one in placed]
    table.add_row("currency", *(cost.currency if cost else UNKNOWN for cost in costs))
    for label, field in (
        ("a year", "per_year"),
        ("a year, autoscaled", "per_year_autoscaled"),
        ("1000 requests at the peak", "per_thousand_requests_at_peak"),
        ("1000 requests at the average", "per_thousand_requests_at_average"),
        ("the same, autoscaled", "per_thousand_requests_autoscaled"),
    ):
        if any(getattr(cost, field) is not None for cost in costs if cost):
            table.add_row(label, *(_amount(cost, field) for cost in costs))
    return Group(table, *(Text(sentence) for sentence in places_sentences(placed)))


def places_sentences(placed: Sequence[PlacedSizing]) -> Iterable[str]:
    """Sentences on the comparison: why a place cannot, which one costs least, and from which load on buying does."""
    for one in placed:
        if not one.sizing.feasible:
            yield f"{one.place.name}: {one.sizing.reason}"
    best = cheapest(placed)
    if best is not None and best.per_year is not None and best.sizing.cost is not None:
        yield f"Cheapest: {best.place.name}, {best.per_year:,.0f} {best.sizing.cost.currency} a year."
    for bought in placed:
        for rented in placed:
            if bought.place.pricing is None or bought.place.pricing.gpu_hour is not None:
                continue
            average = bought_is_cheaper_from(bought, rented)
            if average is not None:
                share = 100 * average / bought.sizing.peak_requests_per_second
                load = f"from an average of {number(average)} requests/s on ({share:.0f} % of the peak)"
                yield (
                    f"{bought.place.name} costs less than {rented.place.name}, autoscaled,"
                    f" {load if average else 'at every load'}."
                )


def _amount(cost: Cost | None, field: str) -> str:
    value: float | None = getattr(cost, field) if cost else None
    return UNKNOWN if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.4f}"
