"""Peaks that a schedule declares for a second: local wall-clock windows, across midnight, weeks and clock changes."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.api.documents import parse_documents
from firsttoken_operator.api.errors import InvalidDocument
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.schedule import coming_openings, schedule_of, scheduled_peak
from tests.operator.api.bad_objects import DEPLOYMENT, GOOD, changed

HOUR = 3600
BERLIN = "Europe/Berlin"
OFFICE = {"days": ["Mon", "Tue", "Wed", "Thu", "Fri"], "start": "09:00", "end": "17:00", "peakRequestsPerSecond": 300}
NIGHT = {"days": ["Fri"], "start": "22:00", "end": "02:00", "peakRequestsPerSecond": "12.5"}


def declared(*windows: dict[str, object]) -> InferenceDeployment:
    return InferenceDeployment.model_validate(changed(GOOD[DEPLOYMENT], {"spec.traffic.schedule": list(windows)}))


def seconds(text: str, zone: str = "UTC") -> float:
    """The second at which clocks of the zone show the time; of two such the first."""
    return datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(zone)).timestamp()


def peak(window: dict[str, object], text: str, zone: str = "UTC", horizon: float = 0.0) -> float | None:
    return scheduled_peak(schedule_of(declared(window)), seconds(text, zone), horizon)


def test_without_a_schedule_no_window_is_open() -> None:
    assert scheduled_peak(schedule_of(declared()), 0.0, 1e6) is None


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-11-20T08:59:59", None),  # a Friday
        ("2026-11-20T09:00:00", 300.0),
        ("2026-11-20T16:59:59", 300.0),
        ("2026-11-20T17:00:00", None),
        ("2026-11-21T12:00:00", None),
    ],
)
def test_a_window_is_open_from_its_start_until_before_its_end_on_its_days(time: str, expected: float | None) -> None:
    assert peak(OFFICE, time) == expected


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-11-20T21:59:59", None),
        ("2026-11-20T22:00:00", 12.5),
        ("2026-11-21T01:59:59", 12.5),  # Saturday, of the window that began on Friday
        ("2026-11-21T02:00:00", None),
        ("2026-11-20T01:00:00", None),  # no window began on Thursday
        ("2026-11-21T23:00:00", None),
    ],
)
def test_an_end_before_the_start_is_on_the_next_day(time: str, expected: float | None) -> None:
    assert peak(NIGHT, time) == expected


def test_a_window_without_days_is_open_every_day() -> None:
    noon = {"start": "12:00", "end": "13:00", "peakRequestsPerSecond": 5}

    assert {peak(noon, f"2026-11-{day}T12:30:00") for day in range(16, 23)} == {5.0}


def test_00_00_to_24_00_is_the_whole_day() -> None:
    saturday = {"days": ["Sat"], "start": "00:00", "end": "24:00", "peakRequestsPerSecond": 5}
    week = [
        scheduled_peak(schedule_of(declared(saturday)), seconds("2026-11-16T00:00:00") + HOUR * h) for h in range(168)
    ]

    assert week == [None] * 120 + [5.0] * 24 + [None] * 24


def test_the_clock_is_that_of_the_time_zone() -> None:
    window = OFFICE | {"timeZone": "America/New_York"}

    assert peak(window, "2026-11-20T13:59:59") is None
    assert peak(window, "2026-11-20T14:00:00") == 300


def test_the_date_is_that_of_the_time_zone() -> None:
    monday_morning = {"days": ["Mon"], "start": "08:00", "end": "09:00", "peakRequestsPerSecond": 5}

    assert peak(monday_morning | {"timeZone": "Pacific/Kiritimati"}, "2026-11-22T18:30:00") == 5  # a Sunday in UTC
    assert peak(monday_morning | {"timeZone": "Pacific/Pago_Pago"}, "2026-11-23T19:30:00") == 5


@pytest.mark.parametrize(
    ("horizon", "expected"), [(0, None), (5 * 60 - 1, None), (5 * 60, 300.0), (3 * 24 * HOUR, 300.0)]
)
def test_a_window_counts_as_soon_as_it_opens_within_the_horizon(horizon: float, expected: float | None) -> None:
    assert peak(OFFICE, "2026-11-20T08:55:00", horizon=horizon) == expected


def test_of_the_windows_that_open_within_the_horizon_the_largest_counts() -> None:
    small = {"start": "08:00", "end": "20:00", "peakRequestsPerSecond": 100}
    short = {"start": "12:00", "end": "12:10", "peakRequestsPerSecond": "250m"}
    windows = schedule_of(declared(short, OFFICE, small))

    found = [scheduled_peak(windows, seconds(f"2026-11-20T{hour:02}:30:00"), 60.0) for hour in (7, 8, 9, 17, 20)]

    assert found == [None, 100.0, 300.0, 100.0, None]


def test_a_window_keeps_its_wall_clock_time_when_summer_time_begins() -> None:
    morning = {"timeZone": BERLIN, "start": "08:00", "end": "09:00", "peakRequestsPerSecond": 5}

    # 29 March 2026: 02:00 becomes 03:00. 08:00 is 07:00 UTC on the day before, 06:00 UTC from that day on.
    assert peak(morning, "2026-03-28T06:59:59") is None
    assert peak(morning, "2026-03-28T07:00:00") == 5
    assert peak(morning, "2026-03-29T05:59:59") is None
    assert peak(morning, "2026-03-29T06:00:00") == 5
    assert peak(morning, "2026-03-29T07:00:00") is None


def test_a_window_keeps_its_wall_clock_time_when_summer_time_ends() -> None:
    morning = {"timeZone": BERLIN, "start": "08:00", "end": "09:00", "peakRequestsPerSecond": 5}

    # 25 October 2026: 03:00 becomes 02:00. 08:00 is 06:00 UTC on the day before, 07:00 UTC from that day on.
    assert peak(morning, "2026-10-24T06:00:00") == 5
    assert peak(morning, "2026-10-25T06:59:59") is None
    assert peak(morning, "2026-10-25T07:00:00") == 5


def open_seconds(window: dict[str, object], first: str, hours: int) -> list[str]:
    """UTC times, on a grid of five minutes, at which the window opens and closes."""
    windows, begin = schedule_of(declared(window)), seconds(first)
    changes, was_open = [], False
    for step in range(hours * 12):
        is_open = scheduled_peak(windows, begin + 300 * step) is not None
        if is_open != was_open:
            changes.append(datetime.fromtimestamp(begin + 300 * step, UTC).strftime("%H:%M"))
        was_open = is_open
    return changes


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param("01:00", "04:00", ["00:00", "02:00"], id="around the jump: one hour shorter"),
        pytest.param("02:30", "04:00", ["01:00", "02:00"], id="beginning inside it: from the jump on"),
        pytest.param("01:00", "02:30", ["00:00", "01:00"], id="ending inside it: until the jump"),
        pytest.param("02:10", "02:50", [], id="all inside: that time does not exist"),
    ],
)
def test_a_time_that_clocks_skip_is_the_moment_of_the_jump(start: str, end: str, expected: list[str]) -> None:
    window = {"timeZone": BERLIN, "days": ["Sun"], "start": start, "end": end, "peakRequestsPerSecond": 5}

    assert open_seconds(window, "2026-03-28T12:00:00", 36) == expected


def test_a_window_whose_time_does_not_exist_is_not_ahead_either() -> None:
    window = {"timeZone": BERLIN, "days": ["Sun"], "start": "02:10", "end": "02:50", "peakRequestsPerSecond": 5}

    assert peak(window, "2026-03-28T12:00:00", horizon=24 * HOUR) is None
    assert peak(window, "2026-03-21T12:00:00", horizon=24 * HOUR) == 5


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param("01:00", "04:00", ["23:00", "03:00"], id="around the change: one hour longer"),
        pytest.param("02:30", "04:00", ["00:30", "03:00"], id="beginning in the repeated hour: with its first time"),
        pytest.param("01:00", "02:30", ["23:00", "01:30"], id="ending in it: with its second time"),
        pytest.param("02:10", "02:50", ["00:10", "01:50"], id="all in it: both times and between"),
    ],
)
def test_a_time_that_clocks_show_twice_is_inside_both_times(start: str, end: str, expected: list[str]) -> None:
    window = {"timeZone": BERLIN, "days": ["Sun"], "start": start, "end": end, "peakRequestsPerSecond": 5}

    assert open_seconds(window, "2026-10-24T12:00:00", 36) == expected


def test_a_window_that_ends_on_the_day_of_a_change_ends_by_the_new_clock() -> None:
    night = {"timeZone": BERLIN, "days": ["Sat"], "start": "22:00", "end": "06:00", "peakRequestsPerSecond": 5}

    assert open_seconds(night, "2026-03-28T12:00:00", 24) == ["21:00", "04:00"]
    assert open_seconds(night, "2026-10-24T12:00:00", 24) == ["20:00", "05:00"]


TIMES = st.integers(0, 1439).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")
YEAR = (seconds("2026-01-01T00:00:00"), seconds("2027-01-01T00:00:00"))


@given(
    start=TIMES,
    end=TIMES,
    at=st.integers(*(int(second) for second in YEAR)),
    zone=st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]),
)
def test_a_clock_that_reads_a_time_inside_is_always_in_the_window(start: str, end: str, at: int, zone: str) -> None:
    if start == end:
        return
    reads = datetime.fromtimestamp(at, zoneinfo.ZoneInfo(zone)).strftime("%H:%M")
    inside = start <= reads < end if start < end else reads >= start or reads < end
    window = {"timeZone": zone, "start": start, "end": end, "peakRequestsPerSecond": 5}

    found = scheduled_peak(schedule_of(declared(window)), at)

    # Where clocks show an hour twice, a window may be open between its two times as well.
    if inside or not repeated_within_a_day(at, zone):
        assert found == (5.0 if inside else None)


def repeated_within_a_day(at: int, zone: str) -> bool:
    rules = zoneinfo.ZoneInfo(zone)
    offsets = [datetime.fromtimestamp(at + hour * HOUR, rules).utcoffset() or timedelta() for hour in (-24, 0, 24)]
    return any(later < earlier for earlier, later in pairwise(offsets))


@pytest.mark.parametrize(
    ("zone", "fix"),
    [
        ("Europe/Berlni", "did you mean Europe/Berlin?"),
        ("Neverland", "use a name of the IANA database such as Europe/Berlin, or UTC"),
        ("America", "use a name of the IANA database such as Europe/Berlin, or UTC"),
    ],
)
def test_a_time_zone_that_is_not_known_is_refused_with_its_field(zone: str, fix: str) -> None:
    document = changed(GOOD[DEPLOYMENT], {"spec.traffic.schedule": [OFFICE, NIGHT | {"timeZone": zone}]})

    with pytest.raises(InvalidDocument) as refusal:
        parse_documents(yaml.safe_dump(document), file="team.yaml")

    field = "team.yaml: InferenceDeployment/support-rag: spec.traffic.schedule[1].timeZone"
    assert str(refusal.value) == f"{field}: {zone} is not a known time zone; {fix}"


def test_a_machine_without_time_zones_still_knows_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", unknown)
    monkeypatch.setattr(zoneinfo, "available_timezones", lambda: set[str]())

    assert declared(OFFICE | {"timeZone": "UTC"}).spec.traffic.schedule[0].time_zone == "UTC"
    with pytest.raises(ValueError, match="install the Python package tzdata"):
        declared(OFFICE | {"timeZone": BERLIN})


def test_the_rules_of_time_zones_come_with_the_package() -> None:
    # Slim images have none of their own.
    zoneinfo.reset_tzpath(to=())
    try:
        zone = zoneinfo.ZoneInfo.no_cache(BERLIN)
    finally:
        zoneinfo.reset_tzpath()

    assert datetime(2026, 7, 1, tzinfo=zone).utcoffset() == timedelta(hours=2)


def test_times_of_the_day_need_no_quotes() -> None:
    # YAML 1.1 reads 10:00 as 600; kubectl does not.
    text = yaml.safe_dump(changed(GOOD[DEPLOYMENT], {"spec.traffic.schedule": [OFFICE | {"start": "10:00"}]}))
    unquoted = text.replace("'10:00'", "10:00").replace("'17:00'", "17:00")

    (deployment,) = parse_documents(unquoted).deployments

    assert unquoted != text
    assert deployment == declared(OFFICE | {"start": "10:00"})


def test_a_trace_is_read_with_the_second_of_its_start() -> None:
    monday = seconds("2026-11-16T00:00:00")
    windows = schedule_of(declared(OFFICE))

    found = [scheduled_peak(windows, monday + timedelta(days=day, hours=10).total_seconds()) for day in range(7)]

    assert found == [300.0] * 5 + [None] * 2


def test_the_openings_of_the_next_days_are_told_with_those_that_are_open() -> None:
    windows = schedule_of(declared(NIGHT | {"timeZone": BERLIN}))
    # Saturday 2026-07-04: in Berlin the window of Friday is open until 02:00, which is midnight in UTC.
    day = round(seconds("2026-07-03T00:00") / 86_400)
    found = coming_openings(windows, day)

    assert [(o.opens_seconds, o.closes_seconds) for o in found] == [
        (seconds(f"2026-07-{friday:02}T22:00", BERLIN), seconds(f"2026-07-{friday + 1:02}T02:00", BERLIN))
        for friday in (3, 10)
    ]
    assert coming_openings(windows, day + 1)[0].opens_seconds == seconds("2026-07-10T22:00", BERLIN)
    assert {o.requests_per_second for o in found} == {12.5}
