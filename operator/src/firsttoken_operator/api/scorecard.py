"""The part of the status that says whether the operator is worth its place, for the last days together and one by one.

The days are what a restarted operator goes on from, so every figure of the sum can be computed from theirs. Decimals
are strings, as everywhere in the API; what was not measured is absent.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from firsttoken_operator.api.base import ApiModel, Int, described, optional
from firsttoken_operator.api.quantities import MAX_INTEGER, Amount, Date, SignedAmount, Timestamp

MAX_REQUESTS = 1_000_000_000_000
FLAP_MINUTES = 15
"""A change of direction sooner than this after the last change is a flap: the pods were hardly of use."""
KEPT_DAYS = 7
"""Days of UTC, the present one included: long enough for a weekend, short enough for what changed to show."""
FLAPS = f"Changes of direction within {FLAP_MINUTES} minutes of the change before"

Requests = Annotated[Int, Field(ge=0, le=MAX_REQUESTS)]
Times = Annotated[Int, Field(ge=0, le=MAX_INTEGER)]


class ScorecardFigures(ApiModel):
    """Counts over some time."""

    hours: Amount | None = optional("Time in which the operator watched the target.", unit="hours")
    attainment_percent: Amount | None = optional(
        "Share of the requests whose first token came inside sla.timeToFirstToken; with a limit on the mean, of "
        "those in rate windows whose mean was inside. Rounded down.",
        unit="percent",
        absent="nothing was measured, or no such limit is declared",
    )
    requests: Requests | None = optional("Requests that were judged: those that got a first token.", unit="requests")
    late_requests: Requests | None = optional(
        "Requests whose first token came after the limit, as far as histograms tell.", unit="requests"
    )
    late_requests_at_most: Requests | None = optional(
        "Requests whose first token may have come after the limit: more than lateRequests where the limit lies "
        "inside a histogram bucket.",
        unit="requests",
    )
    late_requests_allowed: Amount | None = optional(
        "Requests that may be late by the percentile of sla.timeToFirstToken: the error budget.",
        unit="requests",
        absent="nothing was judged by a percentile",
    )
    late_requests_charged: Amount | None = optional(
        "Late requests that the error budget is charged with: those of lateRequests that came while "
        "sla.timeToFirstToken was on a percentile, and since this is counted.",
        unit="requests",
        absent="nothing was judged by a percentile",
    )
    burn_rate: Amount | None = optional(
        "lateRequestsCharged over lateRequestsAllowed: at 1 exactly the error budget is used; a day at 7 uses up that "
        "of seven days like it.",
        unit="error budgets",
        absent="nothing was judged by a percentile",
    )
    gpu_hours: Amount | None = optional(
        "GPU time of all pods that held GPUs: ready, starting, failing and terminating.", unit="GPU-hours"
    )
    gpu_hours_saved_versus_peak: SignedAmount | None = optional(
        "GPU time that replicasForDeclaredPeak, standing all the time, would have taken beyond that; negative "
        "where it would have taken less.",
        unit="GPU-hours",
        absent="there is no size for the declared peak",
    )
    calibration_error_percent: Amount | None = optional(
        "Mean of |observed - predicted| / observed of the mean TTFT of rate windows in which the fleet was "
        "settled, weighted by requests.",
        unit="percent",
        absent="no window was comparable",
    )
    compared_requests: Requests | None = optional("Requests of the windows that were compared.", unit="requests")
    flaps: Times | None = optional(FLAPS + ".", unit="times")


class ScorecardDay(ScorecardFigures):
    """The figures of one day."""

    date: Date = described("The day.", unit="date in UTC")


class ScorecardStatus(ScorecardFigures):
    """The figures of the last seven days together: the present one and the six before."""

    error_budget_remaining_percent: SignedAmount | None = optional(
        "Part of the error budget of these days that is left: 100 where nothing was late, negative where more was late "
        "than the percentile allows. Rounded down.",
        unit="percent",
        absent="nothing was judged by a percentile",
    )
    since: Timestamp | None = optional("Start of what is counted.", unit="RFC 3339 time")
    last_update_time: Timestamp | None = optional("When the figures were written.", unit="RFC 3339 time")
    days: tuple[ScorecardDay, ...] = described(
        "The same of each day, newest first.",
        default=(),
        absent="nothing was counted yet",
        max_length=KEPT_DAYS,
        map_keys=["date"],
    )
