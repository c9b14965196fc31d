from __future__ import annotations

import numpy as np
import pytest

from firsttoken_lab.emulate.traffic import Lengths, Phase, PoissonTraffic, trace_traffic
from firsttoken_sizing.errors import InvalidInput

LENGTHS = Lengths(2000, 200)


def test_the_rate_follows_the_phases():
    traffic = PoissonTraffic([Phase(0, 80), Phase(120, 200), Phase(180, 80)], 300, LENGTHS, seed=1)
    times = np.array([arrival.seconds for arrival in traffic.take(300)])
    counts = np.histogram(times, bins=[0, 120, 180, 300])[0]

    assert counts == pytest.approx([9600, 12000, 9600], rel=0.05)
    assert [traffic.rate(t) for t in (0, 119.9, 120, 180, 299, 300)] == [80, 80, 200, 80, 80, 0]
    assert np.diff(times).min() >= 0


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another():
    def schedule(seed):
        return PoissonTraffic([Phase(0, 5)], 60, Lengths(2000, 200, 1.0), seed).take(60)

    assert schedule(1) == schedule(1)
    assert schedule(1) != schedule(2)


def test_gaps_between_arrivals_are_exponential():
    times = [arrival.seconds for arrival in PoissonTraffic([Phase(0, 50)], 400, LENGTHS, seed=3).take(400)]
    gaps = np.diff(times)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)


def test_arrivals_are_taken_once_and_in_order():
    traffic = PoissonTraffic([Phase(0, 20)], 10, LENGTHS, seed=1)
    parts = [traffic.take(until) for until in (1.0, 1.0, 5.0, 10.0)]
    assert parts[1] == []
    assert [arrival for part in parts for arrival in part] == PoissonTraffic([Phase(0, 20)], 10, LENGTHS, seed=1).take(
        10
    )


def test_lengths_vary_around_their_means():
    rng = np.random.default_rng(1)
    alike = Lengths(2000, 200).draw(rng, 3)
    drawn = np.array(Lengths(2000, 200, variation=1.0).draw(rng, 40_000))

    assert alike == [(2000, 200)] * 3
    assert drawn.mean(axis=0) == pytest.approx([2000, 200], rel=0.03)
    assert drawn.std(axis=0) == pytest.approx([2000, 200], rel=0.1)
    assert drawn.min() >= 1


def test_a_changed_rate_holds_from_now_to_the_end_and_leaves_the_past_alone():
    traffic = PoissonTraffic([Phase(0, 50), Phase(80, 500)], 100, LENGTHS, seed=1)
    past = traffic.take(40)
    traffic.change_rate(40, 10)
    future = traffic.take(100)

    assert all(arrival.seconds > 40 for arrival in future)
    assert len(past) == pytest.approx(2000, rel=0.1)
    assert len(future) == pytest.approx(600, rel=0.2)
    assert traffic.rate(90) == 10


def test_a_trace_is_replayed_as_it_is(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n0,100,10\n1.5,200,20\n2,300,30\n")
    traffic = trace_traffic(trace)

    assert traffic.end_seconds == 2
    assert traffic.rate(2) == pytest.approx(2 / 2)  # those after the beginning of the window
    taken = traffic.take(100)
    assert [(a.seconds, a.input_tokens, a.output_tokens) for a in taken] == [(0, 100, 10), (1.5, 200, 20), (2, 300, 30)]
    assert trace_traffic(trace, end_seconds=1.7).take(100) == taken[:2]


def test_a_file_that_is_no_trace_is_refused_by_the_name_of_its_argument(tmp_path):
    (tmp_path / "series.csv").write_text("t,rps\n0,5\n")

    with pytest.raises(InvalidInput, match=r"^--trace: .*series\.csv has no column arrival_s"):
        trace_traffic(tmp_path / "series.csv")
