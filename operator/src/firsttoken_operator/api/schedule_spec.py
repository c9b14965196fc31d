"""`spec.traffic.schedule`: peaks that are known beforehand, by local time of the day and day of the week.

What a window may contain and how it is refused; what it means at a given second is in `schedule`.
"""

from __future__ import annotations

import zoneinfo
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from firsttoken_operator.api import forms
from firsttoken_operator.api.base import ApiModel, Rule, described, refusal
from firsttoken_operator.api.quantities import MAX_REQUESTS_PER_SECOND, RATE_FIX, Rate, above_zero

MAX_WINDOWS = 50


class Weekday(StrEnum):
    """A day of the week, Monday first."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


def _known_zone(name: str) -> str:
    """The name, where this machine knows the time zone. CEL has no such list, so the API server accepts any."""
    if name == "UTC":
        return name  # Needs no database, and is the default.
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise refusal(f"{name} is not a known time zone", _advice(name)) from None
    return name


def _advice(name: str) -> str:
    known = zoneinfo.available_timezones()
    if not known:
        return "install the Python package tzdata: this machine has no time zones but UTC"
    near = get_close_matches(name, sorted(known), n=1, cutoff=0.8)
    return f"did you mean {near[0]}?" if near else "use a name of the IANA database such as Europe/Berlin, or UTC"


ZoneName = Annotated[str, Field(max_length=64, pattern=forms.ZONE), AfterValidator(_known_zone)]


class ScheduleWindow(ApiModel):
    """A time of the day with a peak of its own."""

    RULES = (
        Rule(
            cel="self.start != self.end",
            problem="end is the same as start",
            fix="write another end (an earlier one is on the next day), or 00:00 and 24:00 for the whole day",
            holds=lambda w: w.start != w.end,
            field="end",
        ),
        Rule(
            cel="!has(self.days) || self.days.all(d, self.days.exists_one(e, e == d))",
            problem="days lists a day twice",
            fix="remove the duplicate",
            holds=lambda w: len(set(w.days)) == len(w.days),
            field="days",
        ),
        above_zero(
            "peak_requests_per_second", RATE_FIX, at_most=MAX_REQUESTS_PER_SECOND, required=True, of=" of a window"
        ),
    )

    time_zone: ZoneName = described(
        "Whose clock start and end are read from: a name of the IANA database such as Europe/Berlin.", default="UTC"
    )
    days: tuple[Weekday, ...] = described(
        "Days on which the window begins.", default=(), absent="every day", max_length=len(Weekday)
    )
    start: str = described(
        "When the window begins, HH:MM; the replicas for it are to be ready by then.",
        max_length=5,
        pattern=forms.HOUR,
    )
    end: str = described(
        "When it ends, HH:MM or 24:00; one that is before start is on the next day.",
        max_length=5,
        pattern=forms.HOUR_OR_MIDNIGHT,
    )
    peak_requests_per_second: Rate = described(
        'Declared peak while the window is open; quote decimals ("28.54"). Of several open windows the largest counts.',
        unit="requests per second",
    )
