"""Declared peaks and windows of a whole pool over the next seven days."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import Shortage, at_load, shortages
from firsttoken_operator.domain import Opening, PoolSnapshot, Reason, ResourceSnapshot, Sized, Unsized
from tests.operator.decide.builders import POLICY, SIZED, lost, resource
from tests.operator.decide.test_a_pool_says_what_its_peaks_need import ABSENT, POOL
from tests.operator.decide.test_gpus_are_shared_fairly import servers

HOUR, WEEK = 3600.0, 7 * 86_400.0
NOW = 1_000 * HOUR


def member(name: str, peak: int, *openings: tuple[float, float, int], **changes: object) -> ResourceSnapshot:
    """One of `peak` replicas, with windows as (from, until, replicas), hours from now."""
    declared = tuple(Opening(NOW + a * HOUR, NOW + b * HOUR, 5.0 * replicas) for a, b, replicas in openings)
    base = resource(
        ABSENT, lost(), uid=name, name=name, pool="h100", openings=declared,
        sized=replace(SIZED, replicas_for_declared_peak=peak),
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def found(*members: ResourceSnapshot, pool: PoolSnapshot = POOL) -> list[tuple[float, float, int, int]]:
    """Shortages as (from, until, needed, short), hours from now."""
    return [
        ((s.begins_seconds - NOW) / HOUR, (s.ends_seconds - NOW) / HOUR, s.need_gpus, s.short_gpus)
        for s in shortages(pool, members, NOW, WEEK)
    ]


def test_windows_that_overlap_are_added_up_and_those_that_do_not_are_not() -> None:
    day, night = member("day", 10, (9, 17, 50)), member("night", 10, (22, 26, 50))

    assert found(day, night) == []
    assert found(day, night, member("lunch", 1, (12, 14, 20))) == [(12, 14, 80, 16)]


def test_one_shortage_lasts_while_windows_follow_one_another_and_says_the_most() -> None:
    assert found(member("a", 10, (1, 3, 60)), member("b", 10, (2, 4, 70))) == [(1, 4, 130, 66)]


def test_a_window_that_is_open_counts_from_now_and_one_beyond_the_week_not_at_all() -> None:
    assert found(member("a", 10, (-2, 1, 70), (200, 210, 90))) == [(0, 1, 70, 6)]


def test_peaks_without_windows_are_short_all_the_time() -> None:
    assert found(member("a", 40), member("b", 40)) == [(0, 168, 80, 16)]


@pytest.mark.parametrize(
    ("pool", "about"),
    [
        (replace(POOL, budget_gpus=None, is_elastic=True), member("a", 900)),
        (replace(POOL, budget_gpus=None), member("a", 900)),
        (POOL, member("a", 10, (1, 2, 90), policy=replace(POLICY, max_replicas=64))),
    ],
    ids=["nodes come without end", "unknown", "its own maximum"],
)
def test_nothing_is_short(pool: PoolSnapshot, about: ResourceSnapshot) -> None:
    assert found(about, pool=pool) == []


def test_what_others_hold_and_servers_count() -> None:
    assert found(member("a", 60), pool=replace(POOL, charged_elsewhere={"lab": 8})) == [(0, 168, 60, 4)]
    assert found(member("a", 60), pool=replace(POOL, servers=servers(*[8] * 7))) == [(0, 168, 60, 4)]


def test_a_shortage_says_its_times_in_seconds() -> None:
    assert shortages(POOL, (member("a", 65),), NOW, WEEK) == (Shortage(NOW, NOW + WEEK, 65, 1),)


def test_a_pool_without_a_deployment_that_has_a_size_is_never_short() -> None:
    assert found() == []
    assert found(member("a", 90, sized=Unsized(Reason.INVALID_SPEC, "no size"))) == []


@pytest.mark.parametrize(
    ("requests_per_second", "replicas"), [(0.0, 0), (12.0, 3), (50.0, 10), (49.9, 10), (51.0, 11), (None, 10)]
)
def test_a_load_in_place_of_the_declared_peak_has_a_size_of_its_own(
    requests_per_second: float | None, replicas: int
) -> None:
    # One replica carries 5; of the declared peak and no more the size is the declared one.
    declared = member("a", 10)
    declared = replace(declared, sized=replace(SIZED, replicas_for_declared_peak=10, peak_requests_per_second=50.0))
    sized = at_load(declared, requests_per_second).sized

    assert isinstance(sized, Sized)
    assert sized.replicas_for_declared_peak == replicas
    assert sized.peak_requests_per_second == (50.0 if requests_per_second is None else requests_per_second)
