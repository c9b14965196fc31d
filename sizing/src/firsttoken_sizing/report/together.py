"""The mix of several places, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from firsttoken_sizing.optimize.mix import Mix, Part
from firsttoken_sizing.optimize.together import Together
from firsttoken_sizing.report.cells import UNKNOWN, VERDICTS, number
from firsttoken_sizing.report.document import rounded

if TYPE_CHECKING:
    from rich.console import RenderableType


def together_table(answer: Together) -> RenderableType:
    """One row for each part of the mix, and below it what it saves and what is left without spot."""
    # NB: imported here, because a document needs no rich.
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    sentences = [Text(sentence) for sentence in together_sentences(answer)]
    if answer.mix is None or not answer.is_mixed:
        return Group(*sentences)
    table = Table(
        title=f"{'Mix as listed' if answer.is_listed else 'Cheapest mix'} for the declared peak", title_justify="left"
    )
    table.add_column("pool")
    for heading in ("on spot", "replicas", "GPUs", "% of the traffic", f"{answer.currency or 'cost'} an hour"):
        table.add_column(heading, justify="right")
    for part in answer.mix.parts:
        table.add_row(
            part.offer.place,
            VERDICTS[part.offer.is_spot],
            str(part.replicas),
            str(part.gpus),
            f"{100 * answer.mix.weight(part):.1f}",
            number(part.cost) if answer.currency else UNKNOWN,
        )
    return Group(table, *sentences)


def together_sentences(answer: Together) -> Iterable[str]:
    """Sentences on the mix: what it costs beside the cheapest pool alone, or why there is none."""
    mix, alone = answer.mix, answer.alone
    if mix is None:
        yield f"All pools together carry {number(answer.most_percent)} % of the peak; add GPUs or a pool."
        return
    if not answer.is_mixed and alone is not None:
        if answer.is_listed:
            yield f"{alone.offer.place} has the GPUs for the peak alone, and its type comes first in hardware.gpus."
            return
        less = "costs less" if answer.currency else "takes fewer GPUs"
        yield f"No mix of the pools {less} at the peak than {alone.offer.place} alone."
        return
    cost = f"{number(mix.cost)} {answer.currency} an hour" if answer.currency else f"{mix.gpus} GPUs"
    beside = "; no pool has enough GPUs alone."
    if alone is not None and alone.cost:
        more = 100 * (mix.cost / alone.cost - 1)
        beside = f", {abs(more):.1f} % {'more' if more > 0 else 'less'} than {alone.offer.place} alone."
    yield f"The mix takes {cost} at the peak{beside}"
    if mix.share_that_stays < mix.share:
        yield f"When all of spot is taken back, the rest carries {100 * mix.share_that_stays:.1f} % of the peak."
    if answer.uncertain:
        places = ", ".join(answer.uncertain)
        yield f"Known with a wide error band: {places}; measure a replica before you pay for the mix."


def together_json(answer: Together | None) -> dict[str, Any] | None:
    """The mix as an object; null where there is nothing to mix, no parts where all pools together are too few."""
    if answer is None:
        return None
    mix = answer.mix
    return {
        "feasible": mix is not None,
        "onDemandPercent": rounded(answer.on_demand_percent),
        "parts": [_part_json(mix, part, answer.currency) for part in mix.parts] if mix else [],
        "gpus": mix.gpus if mix else None,
        "currency": answer.currency,
        "costPerHour": rounded(mix.cost) if mix and answer.currency else None,
        "carriedPercent": rounded(100 * mix.share) if mix else None,
        "carriedPercentWithoutSpot": rounded(100 * mix.share_that_stays) if mix else None,
        "uncertainPools": list(answer.uncertain),
        "cheapestAlone": answer.alone.offer.place if answer.alone else None,
        "cheapestAloneCostPerHour": rounded(answer.alone.cost) if answer.alone and answer.currency else None,
    }


def _part_json(mix: Mix, part: Part, currency: str | None) -> dict[str, Any]:
    return {
        "pool": part.offer.place,
        "spot": part.offer.is_spot,
        "replicas": part.replicas,
        "gpus": part.gpus,
        "trafficPercent": rounded(100 * mix.weight(part)),
        "costPerHour": rounded(part.cost) if currency else None,
    }
