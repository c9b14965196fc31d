"""One question in several places, such as servers of one's own and GPUs rented by the hour, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from firsttoken_sizing.answer import Answer
from firsttoken_sizing.catalog import resolve_gpu
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize.checks import check_fields
from firsttoken_sizing.optimize.size import size
from firsttoken_sizing.request import Sizing, SizingRequest
from firsttoken_sizing.rounding import floor
from firsttoken_sizing.step import Knowledge
from firsttoken_sizing.workload import Pricing


@dataclass(frozen=True, slots=True)
class Place:
    """GPUs of one kind that could be used, and what they cost."""

    name: str
    gpu: str
    pricing: Pricing | None = None
    gpus_per_server: int | None = None
    """None: as many as the request says."""
    most_gpus: int | None = None
    """GPUs that there are at most; None: as many as are asked for."""
    location: str = ""
    """`OnPrem`, `Cloud`; empty: not said."""


@dataclass(frozen=True, slots=True)
class PlacedSizing:
    """Answer in one place."""

    place: Place
    sizing: Sizing

    @property
    def enough(self) -> bool | None:
        """Tell whether the place has so many GPUs; None where no size meets the SLA or no limit is declared."""
        most = self.place.most_gpus
        return None if most is None or not self.sizing.feasible else self.sizing.gpus <= most

    @property
    def per_year(self) -> float | None:
        """Cost a year: of rented GPUs that follow the load where an average is declared, else of the peak's fleet."""
        cost = self.sizing.cost
        if cost is None:
            return None
        return cost.per_year if cost.per_year_autoscaled is None else cost.per_year_autoscaled


@dataclass(frozen=True, slots=True, repr=False)
class SideBySide(Answer):
    """The answers of several places, in the order in which they were given."""

    placed: tuple[PlacedSizing, ...]

    @property
    def cheapest(self) -> PlacedSizing | None:
        """The place that costs least a year; None where that cannot be told."""
        return cheapest(self.placed)


def in_places(
    request: SizingRequest, places: Iterable[Place], knowledge: Knowledge | None = None
) -> tuple[PlacedSizing, ...]:
    """The request sized in each place by itself, with its GPU, its servers and its prices, in the order given.

    A pinned configuration stays pinned where the GPU is its own. What one GPU cannot do, such as run the declared
    precision, is an infeasible answer there. Raises `InvalidInput` for a place with another GPU than the request allows
    or with numbers that are none, and where `size` refuses the request in every place.
    """
    allowed = {resolve_gpu(name).name for name in request.hardware.gpus}
    found: list[PlacedSizing] = []
    refused: list[InvalidInput] = []
    for place in places:
        gpu = resolve_gpu(place.gpu, field=f"place {place.name}").name
        if gpu not in allowed:
            problem = f"{gpu} is not one of hardware.gpus ({', '.join(sorted(allowed))})"
            raise InvalidInput(f"place {place.name}", problem, "add it there, or leave the place out")
        per_server = request.hardware.gpus_per_server if place.gpus_per_server is None else place.gpus_per_server
        asked = replace(
            request,
            hardware=replace(request.hardware, gpus=(gpu,), gpus_per_server=per_server),
            pricing={gpu: place.pricing} if place.pricing is not None else {},
            pinned=request.pinned if request.pinned and resolve_gpu(request.pinned.gpu).name == gpu else None,
        )
        check_fields(asked)
        try:
            sizing = size(asked, knowledge)
        except InvalidInput as error:
            refused.append(error)
            sizing = _refused(asked, error)
        found.append(PlacedSizing(place, sizing))
    if refused and len(refused) == len(found):
        raise refused[0]
    return tuple(found)


def _refused(request: SizingRequest, why: InvalidInput) -> Sizing:
    peak = request.workload.peak_requests_per_second or 0.0
    return Sizing(request, False, str(why), None, None, request.arrivals, why.field, peak)


def cheapest(placed: Sequence[PlacedSizing]) -> PlacedSizing | None:
    """The place that costs least a year of those with enough GPUs; None without one, or without prices of them all."""
    able = [one for one in placed if one.sizing.feasible and one.enough is not False]
    costs = [one.per_year for one in able]
    currencies = {one.sizing.cost.currency for one in able if one.sizing.cost}
    if not able or None in costs or len(currencies) > 1:
        return None
    return min(able, key=lambda one: one.per_year or 0.0)


def bought_is_cheaper_from(bought: PlacedSizing, rented: PlacedSizing) -> float | None:
    """Average load, requests/s, above which a bought fleet costs less than a rented one that follows the load.

    What the largest rented fleet carries that costs no more, in whole replicas; 0 where already one costs more. None:
    not even the fleet of the peak costs more, or a place lacks a price, a size or the GPUs for it.
    """
    ours, theirs, table = bought.sizing.cost, rented.sizing.cost, rented.sizing.table
    by_the_hour = rented.place.pricing is not None and rented.place.pricing.gpu_hour is not None
    if ours is None or theirs is None or table is None or not by_the_hour or ours.currency != theirs.currency:
        return None
    if bought.enough is False or rented.enough is False or ours.per_year is None or not theirs.per_year:
        return None
    replicas = floor(rented.sizing.replicas * ours.per_year / theirs.per_year)
    if replicas >= rented.sizing.replicas:
        return None
    return replicas * table.capacity_of_one_among(replicas) if replicas else 0.0
