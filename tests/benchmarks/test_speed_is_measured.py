from __future__ import annotations

import io

import pytest
from rich.console import Console

import speed
from firsttoken_sizing.simulation.compiled import IS_COMPILED


def shown(lines: list[speed.Timing], peer: speed.Recommend | None) -> str:
    text = io.StringIO()
    Console(file=text, width=160).print(speed.table(lines, peer))
    return text.getvalue()


def test_the_simulator_simulates_100_000_requests_a_second_on_one_core() -> None:
    if not IS_COMPILED:
        pytest.skip("numba is not installed")

    assert speed.simulated_requests_per_second(100_000) >= 100_000


def test_a_look_up_of_the_table_takes_less_than_a_millisecond() -> None:
    assert speed.look_up_seconds() <= 1e-3


def test_the_help_imports_little() -> None:
    # NB: twice the goal of 0.3 s, because other tests run beside; benchmarks/speed.py holds the goal.
    assert 0.01 < speed.help_import_seconds() < 0.6


def test_a_line_holds_its_goal_in_its_own_direction() -> None:
    assert speed.Timing("a", 49, "ms", 50).reached
    assert not speed.Timing("a", 51, "ms", 50).reached
    assert speed.Timing("a", 100_001, "requests/s", 100_000, at_least=True).reached
    assert not speed.Timing("a", 99_999, "requests/s", 100_000, at_least=True).reached


def test_the_table_compares_with_the_peer_or_says_that_it_is_not_there() -> None:
    line = speed.Timing("size", 20.0, "ms", 50.0, ratio=1000.0)

    assert "1,000 x as long" in shown([line], speed.Recommend(25.0, 20.0, 410.0))
    assert "20.0 s once its data are loaded, 410 MiB" in shown([line], speed.Recommend(25.0, 20.0, 410.0))
    assert "is not installed" in shown([speed.Timing("size", 70.0, "ms", 50.0)], None)
    assert "NO" in shown([speed.Timing("size", 70.0, "ms", 50.0)], None)
