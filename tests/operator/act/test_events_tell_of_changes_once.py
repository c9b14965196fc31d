"""Events: what happened and why, once; repeats are counted and rarely written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from firsttoken_operator.act.errors import Unavailable
from firsttoken_operator.act.events import event
from firsttoken_operator.act.kubernetes import ObjectRef
from firsttoken_operator.act.scale import ScaleResult, Write
from firsttoken_operator.act.status import Answer, Observed
from firsttoken_operator.decide import ForeignWrite
from firsttoken_operator.domain import Outcome, Reason, ResourceSnapshot
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.act.objects import decision
from tests.operator.act.writing import Teller
from tests.operator.decide.builders import SIZED, lost, metrics, resource, target

START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@dataclass
class Clock:
    """A wall clock that is moved by hand."""

    at: datetime = START

    def __call__(self) -> datetime:
        return self.at


def server(about: ResourceSnapshot) -> FakeCluster:
    ref = ObjectRef("firsttoken.dev/v1alpha1", "InferenceDeployment", about.namespace, about.name)
    return FakeCluster({ref: {"status": {}}})


def events(cluster: FakeCluster) -> list[tuple[str, str, int]]:
    found = [body for ref, body in cluster.objects.items() if ref.kind == "Event"]
    return [(body["type"], body["reason"], body["count"]) for body in found]


def status(cluster: FakeCluster) -> dict[str, object]:
    (found,) = [body for ref, body in cluster.objects.items() if ref.kind == "InferenceDeployment"]
    shown: dict[str, object] = found["status"]
    return shown


def steady(about: ResourceSnapshot, at: datetime = START) -> Observed:
    return Observed(about, decision(about, 5, 5), ScaleResult(Write.NONE), Answer(SIZED), at)


def blind(about: ResourceSnapshot, at: datetime = START) -> Observed:
    seen = replace(about, metrics=lost())
    held = decision(
        seen, 5, 5, outcome=Outcome.HELD, reason=Reason.MISSING, arrival_requests_per_second=None, prediction=None
    )
    return Observed(seen, held, ScaleResult(Write.NONE), Answer(SIZED), at)


@pytest.mark.parametrize("reason", Reason)
def test_what_is_not_as_the_user_wants_it_is_a_warning(reason: Reason) -> None:
    normal = {
        "Advisory", "MetricsRecovered", "Paused", "Rendered", "RolloutPending", "ScaledDown", "ScaledUp",
        "TargetAtZero", "Unknown", "WritesPaused",
    }  # fmt: skip
    told = event(resource(target(5), metrics(20.0)), reason, "", START)

    assert told["type"] == ("Normal" if told["reason"] in normal else "Warning")


async def test_a_failure_that_lasts_an_hour_is_one_event_with_few_writes() -> None:
    about = resource(target(5), metrics(20.0))
    cluster, clock = server(about), Clock()
    recorder = Teller(cluster, clock)
    for _ in range(240):
        await recorder.record(about, Reason.WRITE_FAILED, "403 forbidden")
        clock.at += timedelta(seconds=15)

    assert len(cluster.writes()) <= 10
    ((kind, reason, count),) = events(cluster)
    assert (kind, reason) == ("Warning", "WriteFailed")
    assert count > 200


async def test_an_event_is_one_printable_line_of_bounded_length() -> None:
    about = resource(target(5), metrics(20.0))
    cluster = server(about)
    await Teller(cluster, Clock()).record(about, Reason.CONFLICT, "a\n\x1b[31mb" + "x" * 5000)
    (body,) = [body for ref, body in cluster.objects.items() if ref.kind == "Event"]

    assert body["message"].isprintable()
    assert len(body["message"]) <= 1024
    assert body["involvedObject"]["uid"] == about.uid


async def test_an_event_that_cannot_be_written_stops_nothing() -> None:
    about = resource(target(5), metrics(20.0))
    cluster = server(about)
    cluster.error = Unavailable("503")

    await Teller(cluster, Clock()).record(about, Reason.SCALED_UP, "5 -> 9")


async def test_a_scaling_is_told_with_its_reason_and_predictions() -> None:
    about = resource(target(5), metrics(20.0))
    cluster = server(about)
    made = replace(steady(about), decision=decision(about, 5, 9), result=ScaleResult(Write.DONE, replicas=9))
    await Teller(cluster, Clock()).publish({}, made, None)
    (body,) = [body for ref, body in cluster.objects.items() if ref.kind == "Event"]

    assert body["reason"] == "ScaledUp"
    assert "5 -> 9 replicas (DemandAboveCapacity); arrival rate 20.0 requests/s; predicted TTFT P95" in body["message"]


async def test_losing_and_regaining_metrics_are_two_events_however_long_it_lasts() -> None:
    about = resource(target(5), metrics(20.0))
    cluster = server(about)
    publisher = Teller(cluster, Clock())
    await publisher.publish({}, steady(about), None)
    for tick in range(20):
        await publisher.publish(status(cluster), blind(about, START + timedelta(seconds=15 * tick)), None)
    await publisher.publish(status(cluster), steady(about, START + timedelta(minutes=10)), None)

    assert [reason for _, reason, _ in events(cluster)] == ["MetricsLost", "MetricsRecovered"]


@pytest.mark.slow
async def test_flapping_metrics_are_told_of_in_few_events() -> None:
    about = resource(target(5), metrics(20.0))
    cluster, clock = server(about), Clock()
    publisher = Teller(cluster, clock)
    await publisher.publish({}, steady(about), None)
    for tick in range(120):
        seen = (blind, steady)[tick % 2](about, clock.at)
        await publisher.publish(status(cluster), seen, None)
        clock.at += timedelta(seconds=15)

    assert [reason for _, reason, _ in events(cluster)] == ["MetricsLost", "MetricsRecovered"]
    assert len([name for name, kind in cluster.calls if kind == "Event"]) <= 8


async def test_failing_requests_are_another_event_than_lost_metrics() -> None:
    about = resource(target(5), metrics(20.0))
    cluster = server(about)
    publisher = Teller(cluster, Clock())
    await publisher.publish({}, steady(about), None)
    for tick, share in enumerate((2.0, 3.1, 2.4)):
        failing = replace(about, metrics=metrics(20.0, health=Reason.ERRORS_PRESENT, detail=f"{share} % fail"))
        await publisher.publish(status(cluster), steady(failing, START + timedelta(seconds=15 * tick)), None)
    await publisher.publish(status(cluster), blind(about, START + timedelta(minutes=1)), None)
    await publisher.publish(status(cluster), steady(about, START + timedelta(minutes=2)), None)

    assert [reason for _, reason, _ in events(cluster)] == ["ErrorsPresent", "MetricsLost", "MetricsRecovered"]


async def test_a_resource_that_cannot_be_decided_says_so_and_recovers() -> None:
    about = resource(target(5), metrics(20.0))
    cluster = server(about)
    publisher = Teller(cluster, Clock())
    await publisher.publish({}, steady(about), None)
    known = status(cluster)
    for tick in range(3):
        await publisher.publish_undecided(status(cluster), about, START + timedelta(seconds=15 * tick))
    shown = status(cluster)
    conditions = shown.pop("conditions")
    before = known.pop("conditions")
    assert isinstance(conditions, list)
    assert isinstance(before, list)

    assert (conditions[0]["type"], conditions[0]["status"]) == ("Ready", "False")
    assert (conditions[0]["reason"], conditions[1:], shown) == ("DecisionFailed", before[1:], known)
    assert events(cluster) == [("Warning", "DecisionFailed", 1)]

    await publisher.publish({**shown, "conditions": conditions}, steady(about, START + timedelta(minutes=1)), None)
    recovered = status(cluster)["conditions"]
    assert isinstance(recovered, list)
    assert (recovered[0]["status"], recovered[0]["reason"]) == ("True", "Ready")


async def test_a_resource_that_could_never_be_decided_says_so() -> None:
    about = resource(target(5), metrics(20.0))
    cluster = server(about)
    await Teller(cluster, Clock()).publish_undecided({}, about, START)
    (ready,) = status(cluster)["conditions"]  # type: ignore[misc]

    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "DecisionFailed")


async def test_a_restart_repeats_no_event() -> None:
    about = resource(target(5), metrics(20.0))
    cluster = server(about)
    await Teller(cluster, Clock()).publish({}, steady(about), None)
    await Teller(cluster, Clock()).publish(status(cluster), blind(about), None)
    restarted = Teller(cluster, Clock())
    await restarted.publish(status(cluster), blind(about, START + timedelta(minutes=1)), None)

    assert [reason for _, reason, _ in events(cluster)] == ["MetricsLost"]


async def test_a_watch_that_lags_behind_loses_no_recorded_scaling() -> None:
    about = resource(target(5), metrics(20.0))
    cluster = server(about)
    publisher = Teller(cluster, Clock())
    made = replace(steady(about), decision=decision(about, 5, 9), result=ScaleResult(Write.DONE, replicas=9))
    await publisher.publish({}, made, None)
    again = resource(target(9), metrics(20.0))
    further = Observed(again, decision(again, 9, 12), ScaleResult(Write.DONE, replicas=12), Answer(SIZED), START)
    await publisher.publish({}, further, None)

    recorded = status(cluster)["decisions"]
    assert isinstance(recorded, list)
    assert [entry["to"] for entry in recorded] == [12, 9]


async def test_a_status_that_is_refused_still_lets_the_scaling_be_told() -> None:
    about = resource(target(5), metrics(20.0))
    cluster = server(about)

    def refuse(name: str, ref: ObjectRef) -> None:
        if name == "replace_status":
            raise Unavailable("422")

    cluster.before = refuse
    made = replace(steady(about), decision=decision(about, 5, 9), result=ScaleResult(Write.DONE, replicas=9))
    await Teller(cluster, Clock()).publish({}, made, ForeignWrite(3, 5))

    assert [reason for _, reason, _ in events(cluster)] == ["ForeignWrite", "ScaledUp"]


async def test_a_flood_of_one_tenant_drops_no_event_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firsttoken_operator.act.events._REMEMBERED", 10)
    quiet, loud = (resource(target(5), metrics(5.0), uid=name, namespace=name) for name in ("quiet", "loud"))
    cluster = FakeCluster()
    teller = Teller(cluster)
    teller.recorder.record(quiet, Reason.CONFLICT, "another controller")
    for i in range(50):
        teller.recorder.record(loud, Reason.CONFLICT, f"from {i}")
    await teller.writes.settle()

    messages = [body["message"] for ref, body in cluster.objects.items() if ref.kind == "Event"]
    assert "another controller" in messages
    assert len(messages) == 10
    assert messages.count("from 49") == 1


async def test_nothing_is_kept_of_a_resource_that_is_gone() -> None:
    about = resource(target(5), metrics(20.0))
    teller = Teller(server(about), Clock())
    await teller.record(about, Reason.WRITE_FAILED, "403 forbidden")
    teller.publisher.forget({about.uid})
    kept = len(teller.recorder._series)
    teller.publisher.forget(set())

    assert (kept, teller.recorder._series) == (1, {})
