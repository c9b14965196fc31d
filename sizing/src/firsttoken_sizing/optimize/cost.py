"""What the answer costs: cloud GPUs by the hour, or servers that were bought and are written off."""

from __future__ import annotations

from firsttoken_sizing.request import Cost
from firsttoken_sizing.workload import Pricing, Workload

HOURS_PER_YEAR = 8760
_SECONDS_PER_YEAR = HOURS_PER_YEAR * 3600


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


def cost_per_year(pricing: Pricing, *, gpus: int, servers: float, gpus_per_server: int) -> float | None:
    """Yearly cost of what is paid for: GPUs in the cloud, servers on-prem; None where no price is declared."""
    if pricing.gpu_hour is not None:
        return pricing.gpu_hour * gpus * HOURS_PER_YEAR
    a_server = server_cost_per_year(pricing, gpus_per_server)
    return None if a_server is None else a_server * servers


def cost_of(
    pricing: Pricing,
    workload: Workload,
    *,
    peak_requests_per_second: float,
    requests_per_second_per_server: float,
    gpus: int,
    servers: int,
    gpus_per_server: int,
) -> Cost | None:
    """Cost of a sizing; None where the pricing declares no price."""
    per_year = cost_per_year(pricing, gpus=gpus, servers=servers, gpus_per_server=gpus_per_server)
    a_server = server_cost_per_year(pricing, gpus_per_server)
    if per_year is None or a_server is None:
        return None
    average = workload.average_requests_per_second
    at_peak = _per_thousand(per_year, peak_requests_per_second)
    tokens = workload.input_tokens + workload.output_tokens
    return Cost(
        currency=pricing.currency,
        per_hour=per_year / HOURS_PER_YEAR,
        per_year=per_year,
        per_thousand_requests_at_peak=at_peak,
        per_thousand_requests_at_peak_fractional=_per_thousand(a_server, requests_per_second_per_server),
        per_thousand_requests_at_average=_per_thousand(per_year, average) if average else None,
        per_million_tokens_at_peak=at_peak / tokens * 1000,
    )


def _per_thousand(per_year: float, requests_per_second: float) -> float:
    return per_year / (requests_per_second * _SECONDS_PER_YEAR / 1000)
