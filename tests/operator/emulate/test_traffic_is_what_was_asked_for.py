from __future__ import annotations

import gzip

import numpy as np
import pytest

from firsttoken_operator.emulate.traffic import Lengths, Phase, PoissonTraffic, UnreadableTrace, read_trace

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
    text = "arrival_s,input_tokens,output_tokens\n0.5,100,10\n2,200,20\n2.5,300,30\n"
    (tmp_path / "trace.csv").write_text(text)
    with gzip.open(tmp_path / "trace.csv.gz", "wt") as file:
        file.write(text)
    plain, packed = read_trace(tmp_path / "trace.csv"), read_trace(tmp_path / "trace.csv.gz")

    assert plain.end_seconds == 2.5
    taken = plain.take(100)
    assert [(a.seconds, a.input_tokens, a.output_tokens) for a in taken] == [
        (0.5, 100, 10),
        (2, 200, 20),
        (2.5, 300, 30),
    ]
    assert packed.take(100) == taken
    assert plain.rate(2.5) == pytest.approx(3 / 2.5)
    assert read_trace(tmp_path / "trace.csv", end_seconds=2.2).take(100) == taken[:2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("t,rps\n0,5\n", "trace.csv:2: .*write numbers into arrival_s, input_tokens, output_tokens"),
        ("arrival_s,input_tokens,output_tokens\n1,x,2\n", "trace.csv:2: .*write numbers into"),
        ("arrival_s,input_tokens,output_tokens\n5,1,1\n4,1,1\n", "trace.csv:3: is earlier .*; sort by arrival_s"),
        ("arrival_s,input_tokens,output_tokens\n5,0,1\n", "trace.csv:2: has a value out of range"),
        ("arrival_s,input_tokens,output_tokens\nnan,1,1\n", "trace.csv:2: has a value out of range"),
        ("arrival_s,input_tokens,output_tokens\n", "trace.csv: has no requests"),
    ],
    ids=["a series", "not a number", "unsorted", "empty prompt", "not a time", "empty"],
)
def test_an_unusable_trace_is_refused_with_its_line_and_the_fix(tmp_path, text, problem):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(UnreadableTrace, match=problem):
        read_trace(tmp_path / "trace.csv")


def test_a_trace_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UnreadableTrace, match=r"missing\.csv: cannot be read"):
        read_trace(tmp_path / "missing.csv")
