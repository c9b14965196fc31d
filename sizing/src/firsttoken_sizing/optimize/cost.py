"""Cost of the answer: cloud GPUs by the hour, or servers that were bought and are written off; and the alternatives.

Three comparisons beside the price of the fleet: the static peak against a fleet that follows the load, own GPUs against
an API that is paid by the token, and the load at which one becomes cheaper than the other. Prices are the user's; none
is known here. See docs/design/sizing.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.request import Cost, SizingRequest
from firsttoken_sizing.workload import Pricing, Workload

HOURS_PER_YEAR = 8760
_HOURS_PER_DAY = 24
_SECONDS_PER_YEAR = HOURS_PER_YEAR * 3600
_STATIC = "The yearly cost is of the fleet for the declared peak, kept all year."
_AUTOSCALED = (
    "Autoscaled: as if the load always stood at the declared average; ramps, headroom and minReplicas come on top."
)
_BOUGHT = "Bought servers cost the same when they are idle, so autoscaling saves GPU-hours for others and no money."
_API = "The API is paid for every input and output token alike, cached or not, and only for what is sent."


@dataclass(frozen=True, slots=True)
class Bill:
    """GPUs, servers and cost of so many replicas of a configuration. Costs are None without a price."""

    gpus: int
    servers: int
    gpus_per_replica: int
    replicas_per_server: float
    cost_per_year: float | None
    cost_per_year_of_one_replica: float | None
    """Cost with its share of a server; it does not depend on the load, as that of whole replicas and servers does."""

    def compared(self, *, priced: bool) -> tuple[float, int]:
        """Key by which fleets are compared: money where every one has a price, then GPUs."""
        return (self.cost_per_year or 0.0) if priced else 0.0, self.gpus

    def of_one_replica(self, *, priced: bool) -> float:
        """Cost of one replica: money a year where every fleet has a price, else GPUs."""
        return (self.cost_per_year_of_one_replica or 0.0) if priced else self.gpus_per_replica


def bill(key: ConfigurationKey, replicas: int, request: SizingRequest) -> Bill:
    """Whole replicas in whole servers: none is split between two servers that could hold one."""
    per_server, gpus_per_replica = request.hardware.gpus_per_server, key.gpus_per_replica
    if gpus_per_replica <= per_server:
        in_one_server = per_server // gpus_per_replica
        servers, replicas_per_server = -(-replicas // in_one_server), float(in_one_server)
    else:
        of_one_replica = -(-gpus_per_replica // per_server)
        servers, replicas_per_server = replicas * of_one_replica, 1 / of_one_replica
    gpus, pricing = replicas * gpus_per_replica, request.pricing.get(key.gpu)

    def cost(gpus: int, servers: float) -> float | None:
        return _cost_per_year(pricing, gpus, servers, per_server) if pricing else None

    return Bill(
        gpus=gpus,
        servers=servers,
        gpus_per_replica=gpus_per_replica,
        replicas_per_server=replicas_per_server,
        cost_per_year=cost(gpus, servers),
        cost_per_year_of_one_replica=cost(gpus_per_replica, 1 / replicas_per_server),
    )


def server_cost_per_year(pricing: Pricing, gpus_per_server: int) -> float | None:
    """Yearly cost of one server: `price / years + hosting + license * GPUs`; None where no price is declared.

    By the GPU-hour it is that price times the GPUs of a server. The figures of the DLI course, $320k over 4 years with
    $3k hosting and 8 licenses at $4.5k, give $119k.
    """
    if pricing.gpu_hour is not None:
        return pricing.gpu_hour * gpus_per_server * HOURS_PER_YEAR
    if pricing.server_price is None or not pricing.amortization_years:
        return None
    amortized = pricing.server_price / pricing.amortization_years
    return amortized + pricing.hosting_per_year + pricing.license_per_gpu_year * gpus_per_server


def _cost_per_year(pricing: Pricing, gpus: int, servers: float, gpus_per_server: int) -> float | None:
    """Yearly cost of what is paid for: GPUs in the cloud, servers on-prem; None where no price is declared."""
    if pricing.gpu_hour is not None:
        return pricing.gpu_hour * gpus * HOURS_PER_YEAR
    a_server = server_cost_per_year(pricing, gpus_per_server)
    return None if a_server is None else a_server * servers


def api_cost_of_a_request(pricing: Pricing, workload: Workload) -> float | None:
    """Cost of one request of the mean lengths from a per-token API; None where no such price is declared.

    A price for one side only is taken as it is: the other side is then free.
    """
    if pricing.input_per_million_tokens is None and pricing.output_per_million_tokens is None:
        return None
    prompt = workload.input_tokens * (pricing.input_per_million_tokens or 0.0)
    return (prompt + workload.output_tokens * (pricing.output_per_million_tokens or 0.0)) / 1e6


def cost_of(
    pricing: Pricing,
    workload: Workload,
    fleet: Bill,
    *,
    peak_requests_per_second: float,
    requests_per_second_per_server: float,
    gpus_for_average: int | None,
    gpus_per_server: int,
) -> Cost | None:
    """Cost of a sizing; None where the pricing declares no price. `gpus_for_average`: of the fleet at the average."""
    per_year, a_server = fleet.cost_per_year, server_cost_per_year(pricing, gpus_per_server)
    if per_year is None or a_server is None:
        return None
    average = workload.average_requests_per_second
    rented = pricing.gpu_hour is not None
    autoscaled = (pricing.gpu_hour or 0.0) * gpus_for_average * HOURS_PER_YEAR if rented and gpus_for_average else None
    at_peak = _per_thousand(per_year, peak_requests_per_second)
    at_average = _per_thousand(per_year, average) if average else None
    tokens = workload.input_tokens + workload.output_tokens
    of_api = api_cost_of_a_request(pricing, workload)
    break_even = per_year / (of_api * _SECONDS_PER_YEAR) if of_api else None
    return Cost(
        currency=pricing.currency,
        per_hour=per_year / HOURS_PER_YEAR,
        per_year=per_year,
        per_year_autoscaled=autoscaled,
        gpu_hours_per_day=float(_HOURS_PER_DAY * fleet.gpus),
        gpu_hours_per_day_autoscaled=float(_HOURS_PER_DAY * gpus_for_average) if gpus_for_average else None,
        per_thousand_requests_at_peak=at_peak,
        per_thousand_requests_at_peak_fractional=_per_thousand(a_server, requests_per_second_per_server),
        per_thousand_requests_at_average=at_average,
        per_thousand_requests_autoscaled=_per_thousand(autoscaled, average) if autoscaled and average else None,
        per_million_tokens_at_peak=at_peak / tokens * 1000,
        per_million_tokens_at_average=at_average / tokens * 1000 if at_average is not None else None,
        api_per_thousand_requests=1000 * of_api if of_api is not None else None,
        api_per_million_tokens=1e6 * of_api / tokens if of_api is not None else None,
        api_per_year_at_average=of_api * average * _SECONDS_PER_YEAR if of_api is not None and average else None,
        break_even_requests_per_second=break_even,
        break_even_percent_of_peak=100 * break_even / peak_requests_per_second if break_even is not None else None,
        assumptions=tuple(_assumptions(rented=rented, autoscaled=gpus_for_average is not None, api=bool(of_api))),
    )


def _assumptions(*, rented: bool, autoscaled: bool, api: bool) -> list[str]:
    said = [_STATIC]
    if autoscaled:
        said.append(_AUTOSCALED if rented else f"{_AUTOSCALED} {_BOUGHT}")
    if api:
        said.append(_API)
    return said


def _per_thousand(per_year: float, requests_per_second: float) -> float:
    return per_year / (requests_per_second * _SECONDS_PER_YEAR / 1000)
