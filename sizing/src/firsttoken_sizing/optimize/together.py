"""Several places together: the cheapest mix of their GPUs for the declared peak, on demand and on spot.

Each place brings the configuration that it was sized with, and each part gets the traffic in proportion to what it
carries, as weights of a gateway split it. What a replica carries is then as much as it carries alone: the more of a
router that evens out arrivals is left as a margin, because it depends on how many the mix has of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from firsttoken_sizing.catalog import resolve_gpu
from firsttoken_sizing.optimize.cost import HOURS_PER_YEAR, bill
from firsttoken_sizing.optimize.mix import Mix, Offer, Part, cheapest_mix
from firsttoken_sizing.optimize.places import PlacedSizing
from firsttoken_sizing.rounding import NOISE


@dataclass(frozen=True, slots=True)
class Together:
    """The preferred mix for the declared peak, beside the place that is preferred of those that carry it alone.

    Costs are an hour, in `currency`; where that is None not every place has a price in one currency, and GPUs are
    counted instead.
    """

    mix: Mix | None
    """None: all places together do not carry the peak."""
    currency: str | None
    on_demand_percent: float
    """Share of the peak that has to be carried without spot."""
    alone: Part | None
    """The cheapest place by itself, without spot, of the first GPU type with one; None: none has enough GPUs."""
    most_percent: float | None
    """Share of the peak that all GPUs carry together; None: there is a place without a limit."""
    is_listed: bool
    """True where an earlier GPU type is filled before a later one, whatever it costs."""
    uncertain: tuple[str, ...]
    """Places of the mix whose replicas may carry so much less that a start prepares for it."""

    @property
    def is_mixed(self) -> bool:
        """True where the mix is preferred to the place that carries the peak alone, or no place does.

        It costs less, or has GPUs of a type that is listed before the one of that place.
        """
        if self.mix is None or self.alone is None:
            return self.mix is not None
        before = any(part.offer.rank < self.alone.offer.rank for part in self.mix.parts)
        return before or self.mix.cost < self.alone.cost * (1 - NOISE)


def together(
    placed: Sequence[PlacedSizing], on_demand_percent: float = 100.0, listed: Sequence[str] = ()
) -> Together | None:
    """The places together; None without one that is sized by the rate or the requests in flight that one replica takes.

    `on_demand_percent`: share of the peak that GPUs carry which are not taken back; below 100 GPUs on spot are offered
    beside, where a place has a price for them. They are of the same GPUs that the place has at most.
    `listed`: GPU types of which an earlier one is filled before a later one, whatever it costs; none: by cost.
    """
    able = [one for one in placed if one.sizing.feasible and one.sizing.table is not None and one.sizing.job is None]
    if not able:
        return None
    currencies = {one.sizing.cost.currency if one.sizing.cost else None for one in able}
    currency = currencies.pop() if len(currencies) == 1 else None
    ranks = {resolve_gpu(name).name: rank for rank, name in enumerate(listed)}
    priced, spot = currency is not None, on_demand_percent < 100
    offers = [offer for one in able for offer in _offers(one, ranks, priced=priced, spot=spot)]
    most_gpus = {one.place.name: one.place.most_gpus for one in able if one.place.most_gpus is not None}
    mix = cheapest_mix(offers, most_gpus, on_demand_percent / 100)
    used = {part.offer.place for part in mix.parts} if mix else set()
    return Together(
        mix=mix,
        currency=currency,
        on_demand_percent=on_demand_percent,
        alone=_alone(able, offers),
        most_percent=None if len(most_gpus) < len(able) else 100 * sum(_most_shares(offers, most_gpus)),
        is_listed=bool(listed),
        uncertain=tuple(one.place.name for one in able if one.place.name in used and one.sizing.careful_share < 1),
    )


def _offers(one: PlacedSizing, ranks: Mapping[str, int], *, priced: bool, spot: bool) -> Iterable[Offer]:
    """The replicas of a place as they are paid for; the GPUs are counted where not all have a price."""
    key, request, table = one.sizing.configuration, one.sizing.request, one.sizing.table
    if key is None or table is None:
        return
    # NB: as shares, the peak may be a rate as well as requests in flight.
    share = table.capacity_of_one_among(1) / one.sizing.peak_requests_per_second
    gpus, pricing = key.gpus_per_replica, one.place.pricing
    rank = ranks.get(key.gpu, 0)
    bought = priced and pricing is not None and pricing.gpu_hour is None
    lot = max(1, int(bill(key, 1, request).replicas_per_server)) if bought else 1
    cost = (bill(key, lot, request).cost_per_year or 0.0) / HOURS_PER_YEAR if priced else float(gpus)
    yield Offer(one.place.name, share, gpus, cost, lot, rank=rank)
    if spot and pricing is not None and pricing.spot_gpu_hour is not None:
        cost = pricing.spot_gpu_hour * gpus if priced else float(gpus)
        yield Offer(one.place.name, share, gpus, cost, is_spot=True, rank=rank)


def _alone(able: Iterable[PlacedSizing], offers: Iterable[Offer]) -> Part | None:
    """The cheapest place that has the GPUs of its own size."""
    on_demand = {offer.place: offer for offer in offers if not offer.is_spot}
    parts = [Part(on_demand[one.place.name], one.sizing.replicas) for one in able if one.enough is not False]
    return min(parts, key=lambda part: (part.offer.rank, part.cost, part.gpus), default=None)


def _most_shares(offers: Iterable[Offer], most_gpus: dict[str, int]) -> Iterable[float]:
    return (most_gpus[o.place] // o.gpus * o.share for o in offers if not o.is_spot)
