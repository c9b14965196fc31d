"""The image that users get, installed by the chart that users get, scales real pods on a real node.

One life of a release, in the order of the tests: what one leaves, the next one finds.
"""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.helm.chart import NAMESPACE
from tests.node.stage import (
    FIRST_VERSION,
    FLEET,
    NAME,
    NEXT_VERSION,
    RELEASE,
    TICK_SECONDS,
    Stage,
    example,
    rendered_example,
)
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

LEASE_SECONDS = 30
"""Time that docs/install.md promises of a leader that was lost."""
SLACK_SECONDS = 30
"""Time that a busy machine may add."""
FOR_TRAFFIC = {"DemandAboveCapacity", "DemandExpected", "Backlog", "TTFTAboveSLA"}
"""Reasons that stand on what was measured."""


def test_the_chart_starts_two_operators_without_rights_on_the_machine(stage: Stage) -> None:
    stage.install(FIRST_VERSION)
    stage.waits_for("one of them leads", lambda: stage.leader in stage.operators())
    inside = ["-n", NAMESPACE, "exec", f"deployment/{RELEASE}", "--", "python", "-c"]
    status = stage.node.kubectl(*inside, "print(open('/proc/1/status').read())").stdout
    said = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    written = stage.node.kubectl(*inside, "open('/tmp/x', 'w')", check=False)

    assert len(stage.operators()) == 2
    assert said["Uid"].split() == ["65532"] * 4
    assert int(said["CapEff"], 16) == int(said["CapBnd"], 16) == 0
    assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")
    assert "Read-only file system" in written.stderr


def test_the_release_tests_itself(stage: Stage) -> None:
    done = stage.node.helm("test", RELEASE, "--namespace", NAMESPACE, "--logs", "--timeout", "120s")

    assert "Phase:          Succeeded" in done.stdout
    assert "configuration" in done.stdout


def test_traffic_through_the_service_adds_pods(stage: Stage) -> None:
    stage.apply(*example())
    stage.waits_for("sized", lambda: stage.condition("Ready").startswith("True"))
    stage.waits_for("a third pod serves", lambda: stage.ready >= 3, 240)
    decided = {decision["reason"] for decision in stage.get("infd", NAME)["status"]["decisions"]}

    assert "ScaledUp" in stage.events()
    assert decided & FOR_TRAFFIC
    assert_measured_throughout(stage)


def test_a_killed_leader_is_followed_by_the_other_one(stage: Stage) -> None:
    lost = stage.leader
    before = stage.asked
    stage.signal(lost, signal.SIGKILL)
    stage.waits_for("the other one leads", lambda: stage.leader not in ("", lost), LEASE_SECONDS + SLACK_SECONDS)
    raise_minimum(stage, before + 1)
    stage.waits_for("it writes", lambda: stage.asked > before, TICK_SECONDS * 3 + SLACK_SECONDS)
    stage.waits_for("the killed one stands by again", lambda: stage.restarts(lost) == 1 and all_ready(stage))

    assert stage.asked >= before + 1


def test_a_frozen_leader_is_followed_and_restarted(stage: Stage) -> None:
    frozen = stage.leader
    before = stage.restarts(frozen)
    stage.signal(frozen, signal.SIGSTOP)
    stage.waits_for("the other one leads", lambda: stage.leader not in ("", frozen), LEASE_SECONDS + SLACK_SECONDS)
    stage.waits_for("its probe restarts it", lambda: stage.restarts(frozen) > before, 180)
    stage.waits_for("it stands by again", lambda: all_ready(stage))


def test_an_upgrade_and_a_rollback_under_load_take_no_pod(stage: Stage) -> None:
    before, sent = stage.asked, stage.requests()
    with stage.watching(lambda: stage.asked) as asked:
        stage.install(NEXT_VERSION, logLevel="DEBUG")
        upgraded = set(stage.operators())
        stage.node.helm("rollback", RELEASE, "1", "--namespace", NAMESPACE)
        stage.wait_installed()
        wait_until(lambda: len(stage.operators()) == 2, 60, "two pods of the first revision")
        stage.waits_for("one of them leads", lambda: stage.leader in stage.operators())
        time.sleep(3 * TICK_SECONDS)
    answered = stage.requests()

    assert min(asked) >= before
    assert answered["answered"] > sent["answered"]
    assert answered["failed"] == sent["failed"]
    assert not upgraded & set(stage.operators())
    revisions = json.loads(stage.node.helm("history", RELEASE, "--namespace", NAMESPACE, "-o", "json").stdout)
    assert [revision["status"] for revision in revisions] == ["superseded", "superseded", "deployed"]
    versions = [revision["chart"].rpartition("-")[2] for revision in revisions]
    assert versions == [FIRST_VERSION, NEXT_VERSION, FIRST_VERSION]


@pytest.mark.timeout(600)
def test_pods_go_when_the_traffic_does_and_no_request_is_lost(stage: Stage) -> None:
    raise_minimum(stage, 2)
    stage.requests_per_second(2)
    with stage.watching(stage.ending) as seen:
        stage.waits_for("two pods are left", lambda: stage.asked == 2 == stage.ready, 540)
        stage.waits_for("no pod is ending", lambda: not stage.ending(), 60)
    ended = {name: cost for look in seen for name, cost in look.items()}
    sent = stage.requests()

    assert "ScaledDown" in stage.events()
    assert ended
    assert all(cost.startswith("-") for cost in ended.values()), ended
    assert sent["answered"] > 0
    assert sent["failed"] == 0, sent
    assert_measured_throughout(stage)


@pytest.mark.timeout(600)
def test_a_rendered_runtime_runs_and_is_measured(stage: Stage) -> None:
    secret = {"metadata": {"name": "ngc-api-secret", "namespace": FLEET, "labels": {"firsttoken.dev/render": "true"}}}
    stage.apply({"apiVersion": "v1", "kind": "Secret", "stringData": {"NGC_API_KEY": "none"}, **secret})
    stage.apply(rendered_example())
    stage.waits_for("its two pods are ready", lambda: ready_pods(stage, "assistant") == 2, 300)
    stage.waits_for("it is measured", lambda: stage.condition("MetricsHealthy", "assistant").startswith("True"), 180)
    (pod, *_) = stage.list("pod", FLEET, "app.kubernetes.io/instance=assistant")
    (container,) = pod["spec"]["containers"]

    assert stage.condition("Ready", "assistant").startswith("True")
    assert pod["spec"]["securityContext"]["runAsUser"] == 1000
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert stage.get("service", "assistant")["spec"]["ports"][0]["port"] == 8000


def test_uninstalling_leaves_the_fleets(stage: Stage) -> None:
    stage.node.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
    before = stage.asked
    stage.waits_for("its pods are gone", lambda: not stage.operators())
    stage.waits_for("what it ordered last serves", lambda: stage.ready == before)

    assert stage.asked == before >= 2
    assert stage.get("infd", NAME)["spec"]["targetRef"]["name"] == NAME
    # What docs/uninstall.md says is left.
    assert stage.get("lease", RELEASE, NAMESPACE)


def assert_measured_throughout(stage: Stage) -> None:
    """The metrics are healthy and were never lost, whatever one scrape of a busy pod did."""
    stage.waits_for("metrics are healthy", lambda: stage.condition("MetricsHealthy").startswith("True"), 60)
    assert "MetricsLost" not in stage.events()


def raise_minimum(stage: Stage, replicas: int) -> None:
    patch = json.dumps({"spec": {"scaling": {"minReplicas": replicas}}})
    stage.node.kubectl("-n", FLEET, "patch", "infd", NAME, "--type=merge", "-p", patch)


def ready_pods(stage: Stage, name: str) -> int:
    return int(stage.get("deployment", name).get("status", {}).get("readyReplicas", 0))


def all_ready(stage: Stage) -> bool:
    statuses = [pod["status"].get("containerStatuses", []) for pod in stage.operators().values()]
    return len(statuses) == 2 and all(status["ready"] for container in statuses for status in container)
