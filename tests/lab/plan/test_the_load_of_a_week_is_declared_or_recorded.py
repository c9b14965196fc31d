"""Load of a week: a made day with the declared average and peak, a trace, and the windows of a schedule above both."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_lab.plan.load import SLOTS, Traces, load_of, made_day, read_week
from firsttoken_lab.plan.members import Member
from firsttoken_operator.api.schedule import Window
from firsttoken_sizing.errors import InvalidInput
from tests.fixtures.hypothesis_scale import examples

A_DAY = 96


def member(peak: float | None, average: float | None = None, *windows: Window) -> Member:
    load = SimpleNamespace(peak_requests_per_second=peak, average_requests_per_second=average)
    sizing = SimpleNamespace(request=SimpleNamespace(workload=load))
    resource = SimpleNamespace(uid="shop/chat", name="chat")
    return Member(cast(Any, None), "h100", cast(Any, sizing), cast(Any, resource), windows)


def series(tmp_path: Path, *rows: tuple[float, float], name: str = "week.csv") -> Path:
    file = tmp_path / name
    file.write_text("t,rps\n" + "".join(f"{at},{rate}\n" for at, rate in rows), encoding="utf-8")
    return file


@given(st.floats(0.05, 0.99), st.floats(0.01, 1e4))
@settings(max_examples=examples(100))
def test_a_made_day_has_the_declared_average_and_peak(share: float, peak: float) -> None:
    week = made_day(share * peak, peak)

    assert week.shape == (SLOTS,)
    assert week.max() == pytest.approx(peak)
    assert week.mean() == pytest.approx(share * peak, rel=1e-3)
    assert np.array_equal(week[:A_DAY], week[A_DAY : 2 * A_DAY])
    assert int(week.argmax()) % A_DAY == 14 * 4


@pytest.mark.parametrize("average", [None, 5.0, 7.0])
def test_without_an_average_below_it_the_peak_is_all_there_is(average: float | None) -> None:
    rates = load_of(member(5.0, average), Traces(), 1.0)

    assert rates is not None
    assert set(rates) == {5.0}


def test_what_declares_no_rate_always_needs_its_size() -> None:
    assert load_of(member(None), Traces(common=np.ones(SLOTS)), 1.0) is None


def test_a_common_trace_gives_the_form_and_an_own_one_the_rates(tmp_path: Path) -> None:
    recorded = read_week(series(tmp_path, (0, 1), (43_200, 4), (86_400, 1)))
    grown = load_of(member(26.0, 10.0), Traces(common=recorded), 1.3)
    own = load_of(member(26.0, 10.0), Traces(own={"chat": recorded}), 1.3)
    by_its_full_name = load_of(member(None), Traces(own={"shop/chat": recorded}), 1.0)

    assert grown is not None
    assert own is not None
    assert by_its_full_name is not None
    assert (grown.max(), own.max(), by_its_full_name.max()) == (26.0, pytest.approx(5.2), 4.0)
    assert grown / grown.max() == pytest.approx(own / own.max())


def test_a_slot_has_the_rate_of_its_busiest_minute_and_a_short_trace_is_repeated(tmp_path: Path) -> None:
    week = read_week(series(tmp_path, (0, 1), (599, 1), (600, 9), (601, 1), (1799, 1)))

    assert list(week[:4]) == [9.0, 1.0, 9.0, 1.0]


def test_recorded_requests_are_counted_by_minutes(tmp_path: Path) -> None:
    file = tmp_path / "requests.csv"
    rows = "".join(f"{at},100,20\n" for at in (0, 1, 2, 3, 4, 5, 70, 900, 1799))
    file.write_text(f"arrival_s,input_tokens,output_tokens\n{rows}", encoding="utf-8")

    assert read_week(file)[:2] == pytest.approx([6 / 60, 1 / 60])


def test_an_open_window_is_the_least_that_comes() -> None:
    night = Window("UTC", frozenset(range(7)), 22 * 60, 30 * 60, 20.0)
    rates = load_of(member(8.0, 2.0, night), Traces(), 1.0)

    assert rates is not None
    assert (rates[0], rates[6 * 4 - 1], rates[22 * 4]) == (20.0, 20.0, 20.0)
    assert max(rates[6 * 4], rates[22 * 4 - 1]) < 8 == rates[14 * 4]


def test_a_trace_without_traffic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no request"):
        read_week(series(tmp_path, (0, 0), (60, 0)))
