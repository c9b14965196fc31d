"""Two operators on one API server, each behind a proxy of its own: one writes at a time, whatever becomes of the other.

A thread changes a resource all the time, so that the operator that may write does so at every tick.
"""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from firsttoken_operator.run.election import LEASE_SECONDS, RENEW_DEADLINE_SECONDS
from firsttoken_operator.run.reflector import LIVED_SECONDS
from tests.faults.actions import Hang, Reset
from tests.faults.proxy import Entry, FaultProxy
from tests.faults.skew import TWENTY_MINUTES, wrong_clock
from tests.faults.stage import through
from tests.helm.chart import NAMESPACE
from tests.operator.act.objects import infd, workload
from tests.operator.run.process import Process, create, get, installed, replicas
from tools.cluster import Cluster, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

EVERY = pytest.mark.every_fault
AFTER_KILL_SECONDS = 30.0
AFTER_TERM_SECONDS = 5.0
NAMES_WHAT_WAS_READ = re.compile(rb'"(uid|resourceVersion)": ?"[^"]+"|"path": ?"/metadata/uid"')
GRACE_SECONDS = 30.0
"""Time that a pod is given to end, by default and by the chart."""


class Operator:
    """One of two operators: its proxy and its process."""

    def __init__(self, folder: Path, account: Path, proxy: FaultProxy, *arguments: str) -> None:
        self.folder, self.proxy, self.arguments = folder, proxy, arguments
        self.kubeconfig = through(proxy, account, folder / "kubeconfig")
        self.environment: dict[str, str] = {}
        self.began_seconds = 0.0
        self.process = self.start()

    def start(self) -> Process:
        """Start it, or start it again."""
        self.began_seconds = time.monotonic()
        self.process = Process(self.folder, self.kubeconfig, *self.arguments, **self.environment)
        return self.process

    def leads(self) -> bool:
        """Tell whether its metrics say that it leads."""
        return "firsttoken_leader 1.0" in self.process.get("metrics")[1]

    def tried(self) -> list[Entry]:
        """Writes of this process that came out of it, but for those of the Lease."""
        entries = [e for e in self.proxy.log if e.is_write and "/leases" not in e.path]
        return [e for e in entries if e.began_seconds >= self.began_seconds]

    def writes(self, since_seconds: float = 0.0) -> list[Entry]:
        """Those that the API server had, after this time of the monotonic clock."""
        return [e for e in self.tried() if e.forwarded and e.began_seconds >= since_seconds]


class Pair:
    """Both of them, and the resource that gives them something to write."""

    def __init__(self, cluster: Cluster, *operators: Operator) -> None:
        self.cluster, self.operators = cluster, operators

    def settle(self) -> tuple[Operator, Operator]:
        """Both ready, their watches well, and one leading: that one first."""
        for operator in self.operators:
            if operator.process.child.poll() is not None:
                operator.start()
        wait_until(lambda: all(each.process.ready() for each in self.operators), 90, "both ready")
        # NB: or the outage that follows is one with that of the test before, and too long a one.
        wait_until(
            lambda: all(each.proxy.all_watches_live(LIVED_SECONDS) for each in self.operators), 90, "watches that live"
        )
        wait_until(lambda: sum(each.leads() for each in self.operators) == 1, 60, "one leads")
        leader, other = sorted(self.operators, key=lambda each: not each.leads())
        begin = time.monotonic()
        wait_until(lambda: leader.writes(begin), 30, "it writes")
        # NB: what happened before is no part of the test that follows.
        for each in self.operators:
            each.began_seconds = begin
        return leader, other

    def change(self, **scaling: Any) -> None:
        """Change the resource, past the proxies."""
        change = json.dumps({"spec": {"scaling": scaling}})
        self.cluster.kubectl("patch", "infd", "busy", "--type=merge", "-p", change)

    def holder(self) -> str:
        """Name of the holder, as the Lease has it."""
        lease = self.cluster.kubectl("get", "lease", "firsttoken", "-n", NAMESPACE, "-o", "json").stdout
        return str(json.loads(lease)["spec"].get("holderIdentity", ""))

    def assert_scales(self, leader: Operator) -> None:
        """The resource follows its minimum, written by the one that leads, and by no process that would be a rival."""
        minimum = replicas(self.cluster, "busy") + 1
        self.change(minReplicas=minimum)
        wait_until(lambda: replicas(self.cluster, "busy") == minimum, 20, "scaled")
        scaled = [e for e in leader.writes() if e.path.endswith("/scale")]
        assert json.loads(scaled[-1].body)["spec"]["replicas"] == minimum
        assert "ForeignWrite" not in self.cluster.kubectl("describe", "infd", "busy").stdout
        assert get(self.cluster, "infd", "busy")["status"]["lastDecisionReason"] != "Conflict"


def first_write(operator: Operator, since_seconds: float, within_seconds: float) -> Entry:
    """The first write after this time; fails where it does not come in time."""
    wait_until(lambda: operator.writes(since_seconds), within_seconds + 20, "the other one writes")
    first = operator.writes(since_seconds)[0]
    assert first.began_seconds - since_seconds <= within_seconds
    print(f"failover in {first.began_seconds - since_seconds:.1f} s")
    return first


def assert_in_turn(last: Operator, then: Operator) -> None:
    """Every write of the one ended before the first of the other began."""
    ended = [e.ended_seconds or time.monotonic() for e in last.writes()]
    assert ended
    assert max(ended) <= then.writes()[0].began_seconds


@pytest.fixture(scope="module")
def pair(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with ExitStack() as stack:
        cluster, account = stack.enter_context(installed())
        create(
            cluster, workload(1, "busy"), infd("busy", targetRef={"name": "busy"}, scaling={"minReplicas": 1}),
        )  # fmt: skip
        operators = []
        for _ in range(2):
            proxy = stack.enter_context(FaultProxy(cluster.api_url, cluster.ca))
            folder = tmp_path_factory.mktemp("operator")
            arguments = ("--leader-elect", "--lease-namespace", NAMESPACE)
            operators.append(Operator(folder, account, proxy, *arguments))
        pair, ended = Pair(cluster, *operators), threading.Event()

        def keep_busy() -> None:
            seconds = 300
            while not ended.wait(0.5):
                seconds = 601 - seconds
                pair.change(scaleDownStabilizationSeconds=seconds)

        busy = threading.Thread(target=keep_busy, name="busy")
        busy.start()
        try:
            yield pair
        finally:
            ended.set()
            busy.join(30)
            for operator in operators:
                operator.process.kill()


def test_the_one_that_stands_by_is_ready_and_says_who_leads(pair: Pair) -> None:
    leader, other = pair.settle()
    other_ticks = other.process.ticks()
    wait_until(lambda: other.process.ticks() > other_ticks + 2, 30, "it ticks")

    assert leader.process.get("readyz") == (200, "leading\n")
    assert other.process.get("readyz") == (200, f"standing by; {pair.holder()} leads\n")
    assert other.process.get("healthz") == (200, "ok\n")
    assert 'firsttoken_desired_replicas{name="busy"' in leader.process.get("metrics")[1]
    assert "firsttoken_desired_replicas{" not in other.process.get("metrics")[1]
    assert not other.tried()
    pair.assert_scales(leader)


def test_one_that_is_asked_to_end_is_followed_at_once(pair: Pair) -> None:
    leader, other = pair.settle()
    pair.assert_scales(leader)
    asked = time.monotonic()
    leader.process.child.send_signal(signal.SIGTERM)
    first_write(other, asked, AFTER_TERM_SECONDS)
    assert leader.process.child.wait(25) == 0

    assert_in_turn(leader, other)
    pair.assert_scales(other)


@EVERY
def test_one_that_is_asked_to_end_while_a_write_hangs_gives_the_lease_back(pair: Pair) -> None:
    leader, other = pair.settle()
    with leader.proxy.injecting(Hang(), method="PATCH", path="/(scale|status)$") as hung:
        pair.change(minReplicas=replicas(pair.cluster, "busy") + 1)
        wait_until(lambda: hung.entries, 20, "a write that hangs")
        asked = time.monotonic()
        leader.process.child.send_signal(signal.SIGTERM)
        assert leader.process.child.wait(GRACE_SECONDS) == 0
        ended = time.monotonic()
        first_write(other, asked, ended - asked + AFTER_TERM_SECONDS)

    assert not any(entry.forwarded for entry in hung.entries)
    assert_in_turn(leader, other)
    pair.assert_scales(other)


def test_one_that_is_killed_is_followed_when_its_lease_is_over(pair: Pair) -> None:
    leader, other = pair.settle()
    pair.assert_scales(leader)
    killed = time.monotonic()
    leader.process.kill()
    first_write(other, killed, AFTER_KILL_SECONDS)

    assert_in_turn(leader, other)
    pair.assert_scales(other)


def test_one_that_is_cut_off_writes_no_more_before_the_other_one_does(pair: Pair) -> None:
    leader, other = pair.settle()
    with leader.proxy.injecting(Hang()):
        cut_off = time.monotonic()
        leader.proxy.cut_watches()
        first = first_write(other, cut_off, AFTER_KILL_SECONDS)
        assert leader.process.child.poll() is None, "it lives on until it knows that another one leads"
        assert not leader.leads()
        assert leader.process.get("healthz")[0] == 200
        pair.assert_scales(other)
    last = max(e.began_seconds for e in leader.tried())
    assert last - cut_off <= RENEW_DEADLINE_SECONDS + 0.5
    assert last < first.began_seconds
    assert_in_turn(leader, other)
    assert leader.process.child.wait(30) == 1
    assert "leads now" in leader.process.log.read_text()
    leader.start()
    wait_until(leader.process.ready, 60, "it stands by")
    assert not leader.leads()


@EVERY
@pytest.mark.parametrize("seconds", [30.0, 180.0])
def test_one_that_was_stopped_writes_nothing_when_it_goes_on(pair: Pair, seconds: float) -> None:
    leader, other = pair.settle()
    stopped = time.monotonic()
    leader.process.child.send_signal(signal.SIGSTOP)
    first_write(other, stopped, AFTER_KILL_SECONDS)
    time.sleep(seconds - (time.monotonic() - stopped))
    number = len(leader.tried())
    leader.process.child.send_signal(signal.SIGCONT)

    assert leader.process.child.wait(30) == 1
    assert len(leader.tried()) == number
    assert_in_turn(leader, other)
    pair.assert_scales(other)


@EVERY
@pytest.mark.parametrize("action", [Reset(), Hang()], ids=str)
def test_an_outage_of_a_minute_ends_neither_and_changes_no_leader(pair: Pair, action: Any) -> None:
    leader, other = pair.settle()
    holder = pair.holder()
    with leader.proxy.injecting(action), other.proxy.injecting(action):
        begin = time.monotonic()
        for each in (leader, other):
            each.proxy.cut_watches()
        time.sleep(60.0)
        assert not leader.leads()
        assert max((e.began_seconds for e in leader.tried()), default=begin) <= begin + RENEW_DEADLINE_SECONDS + 0.5
    wait_until(leader.leads, 20, "it leads again")

    assert pair.holder() == holder
    assert not other.tried()
    assert [each.process.child.poll() for each in (leader, other)] == [None, None]
    pair.assert_scales(leader)


@EVERY
def test_a_lease_that_cannot_be_renewed_for_a_while_stops_all_writes_in_time(pair: Pair) -> None:
    leader, other = pair.settle()
    with leader.proxy.injecting(Reset(), path="/leases"), other.proxy.injecting(Reset(), path="/leases"):
        begin = time.monotonic()
        wait_until(lambda: not leader.leads(), RENEW_DEADLINE_SECONDS + 5, "it stops")
        time.sleep(LEASE_SECONDS)
        assert max(e.began_seconds for e in leader.tried()) <= begin + RENEW_DEADLINE_SECONDS + 0.5
        assert not other.tried()
    wait_until(lambda: leader.writes(time.monotonic() - 2.0), 20, "it writes again")

    assert leader.leads()
    assert not other.tried()


@EVERY
def test_clocks_that_are_40_minutes_apart_make_no_second_leader(pair: Pair) -> None:
    try:
        for each, seconds in zip(pair.settle(), (TWENTY_MINUTES, -TWENTY_MINUTES), strict=True):
            each.process.kill()
            each.environment = wrong_clock(each.folder, seconds).environment
            each.start()
        leader, other = pair.settle()
        for each in (leader, other):
            clock = float((each.folder / "clock").read_text())
            (said,) = re.findall(r"^firsttoken_clock_ahead_seconds (\S+)", each.process.get("metrics")[1], re.MULTILINE)
            assert float(said) == pytest.approx(-clock, abs=5.0)
        pair.assert_scales(leader)
        time.sleep(LEASE_SECONDS + 5.0)
        assert leader.leads()
        assert not other.tried()
        killed = time.monotonic()
        leader.process.kill()
        first_write(other, killed, AFTER_KILL_SECONDS)

        assert_in_turn(leader, other)
        pair.assert_scales(other)
    finally:
        for each in pair.operators:
            each.process.kill()
            each.environment = {}


def test_one_of_the_version_before_knows_no_lease_and_is_no_rival_for_long(pair: Pair) -> None:
    """Upgrade from a version without a Lease: docs/install.md says to end it first; this is why."""
    leader, other = pair.settle()
    other.process.kill()
    other.arguments = ()
    try:
        other.start()
        wait_until(other.process.ready, 60, "the older one decides")
        wait_until(lambda: other.writes(), 30, "and writes, lease or not")
        minimum = replicas(pair.cluster, "busy") + 1
        pair.change(minReplicas=minimum)
        wait_until(lambda: replicas(pair.cluster, "busy") == minimum, 20, "scaled")
        scaled = [e for each in (leader, other) for e in each.writes() if e.path.endswith("/scale")]
        wanted = {json.loads(e.body)["spec"]["replicas"] for e in scaled if e.status == 200}
        assert wanted <= {minimum}, "both decide the same, and neither undoes what the other did"
        assert other.process.end() == 0
    finally:
        other.process.kill()
        other.arguments = leader.arguments
        other.start()
    assert leader.leads()
    begin = time.monotonic()
    wait_until(lambda: leader.writes(begin), 20, "the newer one goes on")


def test_every_change_of_an_object_names_the_one_that_was_read(pair: Pair) -> None:
    """Last, because it looks at all that the tests before it have written."""
    pair.settle()
    changes = [e for each in pair.operators for e in each.proxy.log if e.method in ("PATCH", "PUT")]
    assert {"scale", "status", "firsttoken"} <= {e.path.rpartition("/")[2] for e in changes}
    for entry in changes:
        assert NAMES_WHAT_WAS_READ.search(entry.body), f"{entry.method} {entry.path}: {entry.body[:200]!r}"
    assert {e.method for each in pair.operators for e in each.proxy.log if e.is_write} <= {"PATCH", "PUT", "POST"}
