from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_lab.emulate.fleet import Fleet, GatewayPolicy, Pod, ReplicaSpec
from firsttoken_lab.emulate.traffic import Arrival, ArrivalSchedule, Lengths, Phase, PoissonTraffic
from firsttoken_operator.families import Metric
from firsttoken_sizing.simulation.fleet import Settings
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Limit, Percentile, Routing, Sla
from tests.fixtures.hypothesis_scale import examples

MODEL = StepModel(0.0057, 2e-5, 9.2e-8, 1.45e-5, 0.0, max_batch=64)
SPEC = ReplicaSpec(MODEL, "m", settings=Settings(kv_cache_tokens=400_000))
SLA = Sla(time_to_first_token=Limit(300, Percentile.P95))


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def pods(*names, **changes):
    return [replace(Pod("ns", name, f"uid-{name}", ready=True), **changes) for name in names]


def a_fleet(traffic, gateway=GatewayPolicy(), spec=SPEC):  # noqa: B008
    clock = Clock()
    return Fleet(spec, traffic, SLA, gateway, clock), clock


def every(seconds, count, output_tokens=200):
    return ArrivalSchedule([Arrival(seconds * number, 2000, output_tokens) for number in range(count)], seconds * count)


def run_until(fleet, clock, end, step=0.25):
    while clock.now < end:
        clock.now = min(end, clock.now + step)
        fleet.advance()


@settings(max_examples=examples(40))
@given(
    changes=st.lists(
        st.tuples(st.floats(0.1, 3), st.sets(st.sampled_from("abcd")), st.sets(st.sampled_from("abcd"))), max_size=8
    ),
    routing=st.sampled_from(list(Routing)),
    drain=st.sampled_from([0.0, 0.5, 30.0]),
)
def test_every_request_ends_exactly_once_whatever_the_pods_do(changes, routing, drain):
    traffic = PoissonTraffic([Phase(0, 20)], 20, Lengths(2000, 50, 0.5), seed=5)
    fleet, clock = a_fleet(traffic, GatewayPolicy(routing, timeout_seconds=2, drain_seconds=drain))
    fleet.start()
    for wait, present, terminating in changes:
        clock.now += wait
        fleet.follow([replace(pod, terminating=pod.name in terminating) for pod in pods(*sorted(present))])
        held = sum(r.engine.in_flight for r in [*fleet.replicas.values(), *fleet._leaving]) + fleet.queued
        assert fleet.truth.in_flight == held
    clock.now = 25.0
    fleet.advance()
    fleet.finish()
    records = fleet.truth.records

    assert len(records) == len(traffic._arrivals)
    assert all(record.ok is not None for record in records)
    assert fleet.truth.ended == len(records)
    assert fleet.truth.failed == sum(not record.ok for record in records)
    for record in records:
        if record.ok:
            assert 0 < record.ttft_seconds <= record.e2e_seconds
            assert record.pod
        else:
            assert record.error


def test_a_request_alone_takes_exactly_what_the_step_model_says():
    fleet, clock = a_fleet(ArrivalSchedule([Arrival(1.0, 2000, 200)], 10))
    fleet.follow(pods("a"))
    fleet.start()
    run_until(fleet, clock, 9)
    record = fleet.truth.records[0]
    steps = 199
    decode = steps * MODEL.decode_seconds(1, 2001) + MODEL.per_context_token_seconds * steps * (steps - 1) / 2

    assert record.ttft_seconds == pytest.approx(MODEL.base_seconds + MODEL.prefill_seconds(2000))
    assert record.e2e_seconds - record.ttft_seconds == pytest.approx(decode)
    assert fleet.stats()["attainmentPercent"] == 100


def test_looking_often_or_seldom_gives_the_same_truth():
    exports = []
    for step in (0.01, 3.0):
        traffic = PoissonTraffic([Phase(0, 15)], 30, Lengths(2000, 100), seed=2)
        fleet, clock = a_fleet(traffic, GatewayPolicy(Routing.LEAST_LOADED))
        fleet.follow(pods("a", "b"))
        fleet.start()
        run_until(fleet, clock, 30, step)
        fleet.finish()
        exports.append("".join(fleet.export()))
    assert exports[0] == exports[1]


def test_requests_without_a_ready_replica_wait_at_the_gateway_and_their_wait_counts():
    fleet, clock = a_fleet(every(1.0, 3))
    fleet.start()
    run_until(fleet, clock, 5)
    assert (fleet.queued, fleet.ready) == (3, 0)

    fleet.follow(pods("a"))
    run_until(fleet, clock, 20)

    assert fleet.truth.failed == 0
    assert [record.ttft_seconds > 5 - record.arrival_seconds for record in fleet.truth.records] == [True] * 3


def test_a_request_that_waits_longer_than_the_timeout_fails():
    fleet, clock = a_fleet(every(1.0, 3), GatewayPolicy(timeout_seconds=2))
    fleet.start()
    run_until(fleet, clock, 3.5)

    assert [record.error for record in fleet.truth.records] == ["no ready replica", "no ready replica", ""]


def test_a_terminating_pod_takes_no_new_requests_finishes_its_own_and_serves_metrics_until_it_is_gone():
    fleet, clock = a_fleet(every(0.1, 100))
    fleet.follow(pods("a", "b"))
    fleet.start()
    run_until(fleet, clock, 2)
    fleet.follow(pods("a") + pods("b", terminating=True))
    before = sum(record.pod == "b" for record in fleet.truth.records)
    assert fleet.replicas[("ns", "b")].engine.in_flight > 0
    run_until(fleet, clock, 9)

    assert ("ns", "b") in fleet.replicas
    assert sum(record.pod == "b" for record in fleet.truth.records) == before
    assert all(record.ok for record in fleet.truth.records if record.pod == "b")
    fleet.follow(pods("a"))
    assert ("ns", "b") not in fleet.replicas
    assert fleet.truth.failed == 0


@pytest.mark.parametrize(("drain_seconds", "lost"), [(0.0, True), (30.0, False)])
def test_what_a_vanished_pod_still_held_fails_unless_its_grace_period_covers_it(drain_seconds, lost):
    fleet, clock = a_fleet(every(0.1, 20), GatewayPolicy(drain_seconds=drain_seconds))
    fleet.follow(pods("a"))
    fleet.start()
    run_until(fleet, clock, 1)
    fleet.follow(pods("b"))
    run_until(fleet, clock, 20)

    assert {record.error for record in fleet.truth.records if record.pod == "a"} >= ({"pod gone"} if lost else {""})
    assert (fleet.truth.failed > 0) is lost


def test_a_pod_that_comes_back_under_its_name_starts_with_empty_metrics():
    fleet, clock = a_fleet(every(0.1, 20))
    fleet.follow(pods("a"))
    fleet.start()
    run_until(fleet, clock, 2)
    first = fleet.replicas[("ns", "a")].metrics
    fleet.follow(pods("a", uid="another"))

    assert sum(first.histograms[Metric.TTFT].counts) > 0
    assert sum(fleet.replicas[("ns", "a")].metrics.histograms[Metric.TTFT].counts) == 0


def test_a_pod_that_is_not_ready_yet_has_no_metrics_and_one_that_lost_readiness_keeps_them():
    fleet, _ = a_fleet(every(1, 1))
    fleet.follow(pods("a", ready=False))
    assert not fleet.replicas
    fleet.follow(pods("a"))
    fleet.follow(pods("a", ready=False))
    assert list(fleet.replicas) == [("ns", "a")]
    assert fleet.ready == 0


@pytest.mark.slow
def test_least_loaded_routing_beats_random_routing_on_the_tail():
    worst = {}
    for routing in (Routing.RANDOM, Routing.LEAST_LOADED):
        traffic = PoissonTraffic([Phase(0, 100)], 60, Lengths(2000, 200), seed=4)
        fleet, clock = a_fleet(traffic, GatewayPolicy(routing))
        fleet.follow(pods(*"abcdefghij"))
        fleet.start()
        run_until(fleet, clock, 60)
        fleet.finish()
        worst[routing] = sorted(r.ttft_seconds for r in fleet.truth.records)[-len(fleet.truth.records) // 100]
    assert worst[Routing.LEAST_LOADED] < 0.8 * worst[Routing.RANDOM]


def test_round_robin_gives_each_replica_its_turn():
    fleet, clock = a_fleet(every(0.1, 30), GatewayPolicy(Routing.ROUND_ROBIN))
    fleet.follow(pods("a", "b", "c"))
    fleet.start()
    run_until(fleet, clock, 3)
    fleet.finish()
    counts = [sum(record.pod == name for record in fleet.truth.records) for name in "abc"]
    assert counts == [10, 10, 10]


def test_a_request_beyond_the_kv_cache_fails_at_its_replica():
    fleet, clock = a_fleet(every(1.0, 1), spec=replace(SPEC, settings=Settings(kv_cache_tokens=1000)))
    fleet.follow(pods("a"))
    fleet.start()
    run_until(fleet, clock, 2)
    assert "exceed the KV cache" in fleet.truth.records[0].error
    assert b'request_failure_total{model_name="m"} 1.0' in fleet.replicas[("ns", "a")].metrics.page()


def test_lateness_is_how_long_after_its_virtual_time_an_event_was_computed():
    fleet, clock = a_fleet(ArrivalSchedule([Arrival(1.0, 2000, 1)], 10))
    fleet.follow(pods("a"))
    fleet.start()
    clock.now = 3.0
    fleet.advance()

    assert fleet.lateness.percentile(100) == pytest.approx(2.0), "the arrival at 1.0 was seen at 3.0"
    assert not fleet.lateness.acceptable


def test_the_export_counts_arrivals_from_the_start_of_the_traffic():
    fleet, clock = a_fleet(every(1.0, 2))
    fleet.follow(pods("a"))
    clock.now = 50.0
    fleet.start()
    run_until(fleet, clock, 60)
    lines = [json.loads(line) for line in fleet.export()]

    assert [line["arrival_seconds"] for line in lines] == [0, 1]
    assert set(lines[0]) == {
        *("arrival_seconds", "pod", "ttft_seconds", "e2e_seconds"),
        *("input_tokens", "output_tokens", "ok", "error"),
    }
