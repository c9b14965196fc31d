"""Cost of a week's load: servers that are bought, GPUs that are rented, and the cheapest of both together.

Own the base, rent the peak: one more server pays for itself if its GPUs are busy for a larger share of the time than
its cost is of their rent, the critical ratio of the newsvendor (Arrow, Harris and Marschak, "Optimal inventory policy",
Econometrica 1951). So the cheapest number of servers is found in the sorted load of the week.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from firsttoken_lab.plan.pools import PlannedPool
from firsttoken_lab.plan.week import PoolWeek, Whole
from firsttoken_sizing.optimize.cost import HOURS_PER_YEAR, server_cost_per_year
from firsttoken_sizing.optimize.places import Place
from firsttoken_sizing.workload import Pricing


@dataclass(frozen=True, slots=True)
class WeekCost:
    """Cost of one pool a year, in the currency of its prices, if every week is as this one."""

    currency: str
    per_year: float
    """Servers that are there and those to buy; or rented GPUs that follow the load, their base paid at all times."""
    per_year_static: float | None
    """Rented GPUs for the busiest slot, kept all year, reserved where that has a price; None: they are bought."""
    per_year_spot: float | None = None
    """Everything above the base on spot; None: there is no such price."""
    reserve: Reserve | None = None
    """None: a reserved GPU has no price of its own."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """The number of reserved GPUs that costs least, the rest on demand."""

    gpus: int
    break_even_percent: float
    """Share of the time for which a GPU has to be busy, so that it costs less reserved than on demand."""
    per_year: float


@dataclass(frozen=True, slots=True)
class BaseAndBurst:
    """The load of a pool on so many servers of one's own, and the rest of it on rented GPUs. Costs are of a year."""

    own: str
    rented: str
    """Names of the pools whose prices are used."""
    currency: str
    servers: int
    base_gpus: int
    most_rented_gpus: int
    rented_gpu_hours_per_week: float
    break_even_percent: float
    """Share of the time for which a GPU has to be busy, so that a server costs less than its GPUs rented meanwhile."""
    per_year: float
    per_year_all_own: float
    per_year_all_rented: float


def week_cost(week: PoolWeek) -> WeekCost | None:
    """Cost of a pool; None where no price is declared."""
    pricing = week.pool.place.pricing
    if pricing is None:
        return None
    a_server = server_cost_per_year(pricing, week.pool.gpus_per_server)
    if pricing.gpu_hour is not None:
        return _rented(week, pricing, pricing.gpu_hour)
    if a_server is None:
        return None
    servers = (week.pool.servers or 0) + (week.servers_to_buy or 0) if week.pool.on_prem else week.servers
    return WeekCost(pricing.currency, a_server * servers, None)


def _rented(week: PoolWeek, pricing: Pricing, gpu_hour: float) -> WeekCost:
    """Cost of rented GPUs: the base at its own price at all times, and what is needed above it on demand."""
    reserved = gpu_hour if pricing.reserved_gpu_hour is None else pricing.reserved_gpu_hour
    base, most = week.pool.base_gpus, max(week.pool.base_gpus, int(week.gpus.max()))
    above = float(np.maximum(0, week.gpus - base).mean())
    of_base = HOURS_PER_YEAR * reserved * base
    reserve = None
    if pricing.reserved_gpu_hour is not None and reserved < gpu_hour:
        best = cheapest_servers(week.gpus, 1, reserved, gpu_hour)
        rest = float(np.maximum(0, week.gpus - best).mean())
        reserve = Reserve(best, 100 * reserved / gpu_hour, HOURS_PER_YEAR * (best * reserved + rest * gpu_hour))
    return WeekCost(
        currency=pricing.currency,
        per_year=of_base + HOURS_PER_YEAR * gpu_hour * above,
        per_year_static=HOURS_PER_YEAR * min(reserved, gpu_hour) * most,
        per_year_spot=None
        if pricing.spot_gpu_hour is None
        else of_base + HOURS_PER_YEAR * pricing.spot_gpu_hour * above,
        reserve=reserve,
    )


def base_and_burst(week: PoolWeek, pools: Iterable[PlannedPool]) -> BaseAndBurst | None:
    """The cheapest split of a pool's load between bought servers and rented GPUs of its type, at prices of the plan.

    Each of the two prices is its own, else the lowest of the other pools in the same currency; None without both.
    """
    same = [p for p in pools if p.place.gpu == week.pool.place.gpu and p.place.pricing is not None]
    bought = [(p, cost) for p in same if _is_bought(p.place) and (cost := _per_gpu_year(p)) is not None]
    rented = [(p, cost) for p in same if not _is_bought(p.place) and (cost := _per_gpu_year(p)) is not None]
    pairs = [(a, b) for a in _preferred(bought, week) for b in _preferred(rented, week) if _same_currency(a, b)]
    if not pairs or not week.gpus.max():
        return None
    own, rent = pairs[0]
    a_server = own.place.pricing and server_cost_per_year(own.place.pricing, own.gpus_per_server)
    gpu_hour, each = rent.place.pricing.gpu_hour if rent.place.pricing else None, own.gpus_per_server
    if not a_server or not gpu_hour or own.place.pricing is None:
        return None
    a_gpu = gpu_hour * HOURS_PER_YEAR
    servers = cheapest_servers(week.gpus, each, a_server, a_gpu)
    rest = np.maximum(0, week.gpus - servers * each)
    return BaseAndBurst(
        own=own.snapshot.name,
        rented=rent.snapshot.name,
        currency=own.place.pricing.currency,
        servers=servers,
        base_gpus=servers * each,
        most_rented_gpus=int(rest.max()),
        rented_gpu_hours_per_week=float(rest.mean()) * 24 * 7,
        break_even_percent=100 * a_server / (each * a_gpu),
        per_year=servers * a_server + float(rest.mean()) * a_gpu,
        per_year_all_own=week.servers * a_server,
        per_year_all_rented=float(week.gpus.mean()) * a_gpu,
    )


def cheapest_servers(gpus: Whole, gpus_per_server: int, a_server: float, a_gpu: float) -> int:
    """Number of servers for which they and rented GPUs for the rest cost least; of equal ones the fewest.

    `gpus`: need in each slot. `a_server`, `a_gpu`: cost of a year of each. Each server saves less than the one before
    it, so the first that does not pay ends the search.
    """
    servers = 0
    while True:
        above = np.clip(gpus - servers * gpus_per_server, 0, gpus_per_server)
        if a_server >= float(above.mean()) * a_gpu:
            return servers
        servers += 1


def _preferred(priced: Sequence[tuple[PlannedPool, float]], week: PoolWeek) -> list[PlannedPool]:
    """The pool itself first, then by price."""
    return [p for p, _ in sorted(priced, key=lambda one: (one[0] is not week.pool, one[1], one[0].snapshot.name))]


def _is_bought(place: Place) -> bool:
    return place.pricing is not None and place.pricing.gpu_hour is None


def _same_currency(one: PlannedPool, other: PlannedPool) -> bool:
    a, b = one.place.pricing, other.place.pricing
    return a is not None and b is not None and a.currency == b.currency


def _per_gpu_year(pool: PlannedPool) -> float | None:
    pricing = pool.place.pricing
    a_server = server_cost_per_year(pricing, pool.gpus_per_server) if pricing else None
    return None if a_server is None else a_server / pool.gpus_per_server
