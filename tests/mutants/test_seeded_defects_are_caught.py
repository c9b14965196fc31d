"""The suite is tested, too: each of the defects that cause outages in comparable systems must fail a test of ours.

A defect is one replacement in a copy of the operator's source; the named tests run against the copy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "operator" / "src"
PACKAGE = "firsttoken_operator"
RUN, OBSERVE = "tests/operator/run", "tests/operator/observe"
TESTS_FAILED = 1
"""pytest's exit status for failing tests; 2 to 5 would mean that they did not run."""


@dataclass(frozen=True, slots=True)
class Defect:
    """`old` becomes `new` in `file` of the package; `tests` must notice."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


DEFECTS = {
    "a renewal counts from its answer": Defect(
        "run/election.py",
        "        election.took(await self._write(election.lease), sent)\n",
        "        election.took(await self._write(election.lease), self._now())\n",
        (f"{RUN}/test_two_operators_never_both_lead.py::test_two_never_both_lead_and_one_leads_again_when_it_is_over",),
    ),
    "what the leader writes is foreign to the one that stands by": Defect(
        "run/loop.py",
        "        known = self._ownerships if self._led else adopting(self._ownerships)\n",
        "        known = self._ownerships\n",
        (
            f"{RUN}/test_one_that_stands_by_is_warm.py::"
            "test_what_the_leader_wrote_is_no_foreign_write_also_when_it_shows_after_the_takeover",
        ),
    ),
    "unknown is read as 0": Defect(
        "estimate/demand.py",
        "    if not isinstance(arrivals, Value):\n        return None\n",
        "    if not isinstance(arrivals, Value):\n        return Demand(0.0, 0.0, 0.0)\n",
        (
            "tests/operator/decide/test_missing_data_never_scales_down.py::"
            "test_arrivals_that_are_missing_are_not_zero_even_when_the_rest_is_healthy",
        ),
    ),
    "a restart does not hold": Defect(
        "decide/down.py",
        "    window_not_watched,\n",
        "",
        ("tests/operator/decide/test_scale_down_is_strict.py::test_one_doubtful_sample_starts_the_window_again",),
    ),
    "completions are taken for arrivals": Defect(
        "observe/sums.py",
        "    return _added(_first_tokens(pod), _slope(pod, Signal.WAITING_SLOPE), failed)\n",
        "    return _ended(pod)\n",
        (
            f"{OBSERVE}/test_arrivals_are_demand_not_completions.py::"
            "test_a_growing_queue_is_demand_that_first_tokens_hide",
        ),
    ),
    "starting pods are not credited": Defect(
        "decide/propose.py",
        "    wanted = max(needed + _replaced(base.case, needed), limits.lower)\n",
        "    wanted = max(needed + _replaced(base.case, needed) + target.starting, limits.lower)\n",
        ("tests/operator/decide/test_scale_up_is_fast.py::test_pods_that_are_starting_are_credited",),
    ),
    "a backlog is not drained": Defect(
        "estimate/target_load.py",
        "    backlog = demand.backlog_per_second * demand.request_cost\n",
        "    backlog = 0.0\n",
        ("tests/operator/decide/test_scale_up_is_fast.py::test_a_backlog_is_drained_in_the_time_that_was_asked_for",),
    ),
    "replicas that are not full count as proof of room": Defect(
        "estimate/tail_capacity.py",
        "    return min(max((sample.utilization - start) / (full - start), 0.0), 1.0)\n",
        "    return 1.0\n",
        (
            "tests/operator/estimate/test_late_first_tokens_correct_the_capacity.py::"
            "test_replicas_far_from_their_capacity_do_not_say_that_they_carry_more",
        ),
    ),
    "an idle fleet is one whose rate is 0, also where it is replayed": Defect(
        "observe/measure.py",
        "    idle = not findings and _proven_idle(seen)\n",
        "    idle = False\n",
        (
            "tests/lab/replay/test_samples_are_what_prometheus_would_know.py::"
            "test_no_traffic_is_idle_and_not_a_rate_of_zero",
        ),
    ),
    "the write carries no resourceVersion": Defect(
        "act/kubernetes.py",
        '{"uid": uid, "resourceVersion": resource_version}',
        '{"uid": uid}',
        (
            "tests/operator/act/test_a_write_needs_what_it_saw.py::"
            "test_a_stale_resource_version_or_another_uid_is_a_conflict",
        ),
    ),
    "a write is not announced before it is sent": Defect(
        "act/scale.py",
        "            before_write(decision)\n",
        "",
        (
            "tests/operator/act/test_replicas_are_written_only_as_decided.py::"
            "test_the_intent_is_told_before_a_write_is_sent_and_only_then",
        ),
    ),
    "a mode that is not known writes": Defect(
        "act/preconditions.py",
        "else ScalingMode.PAUSED",
        "else ScalingMode.ACTIVE",
        (
            "tests/operator/act/test_replicas_are_written_only_as_decided.py::"
            "test_nothing_is_written_when_the_world_has_changed",
        ),
    ),
    "the switch stops nothing": Defect(
        "act/connection.py",
        'if self.withheld and method != "GET":',
        "if False:",
        (f"{RUN}/test_one_switch_stops_all_writes.py::test_no_write_leaves_the_process_while_it_is_set",),
    ),
    "a condition passes on what a tenant wrote": Defect(
        "act/conditions.py",
        "printable(judgement.message)",
        "judgement.message[:_LONGEST_MESSAGE]",
        (
            "tests/operator/act/test_the_status_changes_only_when_it_must.py::"
            "test_what_a_tenant_or_a_server_wrote_is_one_printable_line_of_bounded_length",
        ),
    ),
    "the claim of another writer is ignored": Defect(
        "decide/ownership.py",
        "    if rival:\n",
        "    if False:\n",
        (
            "tests/operator/decide/test_the_operator_never_fights_another_writer.py::"
            "test_an_autoscaler_is_a_conflict_at_once_and_for_a_window_after_it_is_gone",
        ),
    ),
    "a fleet goes down in one step": Defect(
        "decide/propose.py",
        "current * case.resource.policy.scale_down_step_percent // 100",
        "current",
        (
            "tests/operator/decide/test_scale_down_is_strict.py::"
            "test_nothing_is_given_back_before_the_whole_window_was_low",
        ),
    ),
    "the chart's advisory is ignored": Defect(
        "run/loop.py",
        "may_write = not (self._settings.advisory or parts.writer.withheld)",
        "may_write = not parts.writer.withheld",
        (
            f"{RUN}/test_a_dry_run_is_advice.py::"
            "test_a_dry_run_beside_an_autoscaler_has_no_conflict_and_writes_no_replicas",
        ),
    ),
    "what was written is not remembered as our own": Defect(
        "run/loop.py",
        "        self._ownerships[uid] = wrote(known, replicas, self._clock(), confirmed=confirmed)\n",
        "        self._ownerships[uid] = known\n",
        (f"{RUN}/test_what_the_loop_wrote_is_its_own.py::test_a_write_that_the_watch_shows_later_is_no_foreign_one",),
    ),
    "an intent is not remembered": Defect(
        "run/loop.py",
        "execute(decision, resource, self._note_attempt)",
        "execute(decision, resource, lambda _: None)",
        (f"{RUN}/test_what_the_loop_wrote_is_its_own.py::test_a_write_that_the_watch_shows_later_is_no_foreign_one",),
    ),
    "who owns the replicas is judged and not heeded": Defect(
        "run/loop.py",
        "        snapshot, self._ownerships = owned.snapshot, dict(owned.ownerships)\n",
        "        self._ownerships = dict(owned.ownerships)\n",
        (
            f"{RUN}/test_a_dry_run_is_advice.py::"
            "test_a_dry_run_beside_an_autoscaler_has_no_conflict_and_writes_no_replicas",
        ),
    ),
    "what fails as one resource is carried out ends the tick": Defect(
        "run/loop.py",
        '        except Exception:\n            logger.exception("carrying out',
        '        except StopIteration:\n            logger.exception("carrying out',
        (
            f"{RUN}/test_writes_have_a_budget.py::"
            "test_what_fails_as_one_is_carried_out_keeps_no_other_from_being_written",
        ),
    ),
    "a call has a deadline for each read and none for all of it": Defect(
        "act/connection.py",
        "aiohttp.ClientTimeout(total=seconds, ceil_threshold=math.inf)",
        "aiohttp.ClientTimeout(sock_connect=seconds, sock_read=seconds)",
        (f"{RUN}/test_writes_have_a_budget.py::test_an_answer_that_drips_is_given_up_as_one_that_hangs",),
    ),
    "one resource's exception ends the tick": Defect(
        "run/isolation.py",
        "    with suppress(Exception):\n        return Decided(*decide(snapshot",
        "    with suppress():\n        return Decided(*decide(snapshot",
        (
            f"{RUN}/test_one_failing_resource_stops_no_other.py::"
            "test_the_others_are_decided_and_the_failing_one_is_named",
        ),
    ),
    "the GPUs of a resource that cannot be decided are free": Defect(
        "run/isolation.py",
        "elsewhere.get(namespace, 0) + gpus",
        "elsewhere.get(namespace, 0)",
        (
            f"{RUN}/test_one_failing_resource_stops_no_other.py::"
            "test_the_gpus_of_the_failing_one_are_not_given_to_others",
        ),
    ),
    "what one tenant's pods expose stops all": Defect(
        "run/measuring.py",
        "            except Exception:\n",
        "            except StopIteration:\n",
        (
            f"{RUN}/test_measuring_one_resource_stops_no_other.py::"
            "test_a_resource_whose_metrics_cannot_be_read_is_missing_alone",
        ),
    ),
    "a switch that says something else stops nothing": Defect(
        "run/switch.py",
        "        if said == ACTIVE:\n",
        "        if said != PAUSED:\n",
        (f"{RUN}/test_one_switch_stops_all_writes.py::test_it_stops_writes_unless_it_clearly_does_not",),
    ),
    "a source that hangs is asked at every tick": Defect(
        "run/reading.py",
        "            self._ticks_to_skip = min(2 ** (self._late_in_a_row - 1), MOST_TICKS_BETWEEN) - 1\n",
        "            self._ticks_to_skip = 0\n",
        (f"{RUN}/test_a_source_that_hangs_holds_up_no_other.py::test_what_happens_when_it_hangs_and_comes_back",),
    ),
    "a source that hangs is waited for at every tick": Defect(
        "run/reading.py",
        "        return None if self._late_in_a_row else self._task\n",
        "        return self._task\n",
        (
            f"{RUN}/test_a_source_that_hangs_holds_up_no_other.py::"
            "test_a_tick_with_one_that_hangs_takes_less_than_its_deadline",
        ),
    ),
    "what a late source measures is missing at once": Defect(
        "run/reading.py",
        "        return NoReading.AWAITED if self._is_awaited else NoReading.MISSING\n",
        "        return NoReading.MISSING\n",
        (
            f"{RUN}/test_a_source_that_hangs_holds_up_no_other.py::"
            "test_what_it_measures_is_awaited_for_a_tick_and_missing_from_then_on",
        ),
    ),
    "a resource that drops out of the loop is healthy": Defect(
        "run/health.py",
        "if ticks > DECISION_TICKS_ALLOWED]",
        "if False]",
        (
            f"{RUN}/test_health_tells_what_metrics_show.py::"
            "test_a_resource_that_dropped_out_of_a_living_loop_is_unhealthy",
        ),
    ),
    "an event from the past is news": Defect(
        "run/sync.py",
        "event_type is not None and version < held.get(uid, 0)",
        "False",
        (
            f"{RUN}/test_the_caches_are_complete_before_the_first_decision.py::"
            "test_an_event_that_is_older_than_what_is_known_is_no_news",
        ),
    ),
    "an HPA of another namespace counts": Defect(
        "observe/store.py",
        'uids = self._autoscaler_uids.get(f"{kind}/{namespace}/{name}", ())',
        'uids = [uid for key, uids in self._autoscaler_uids.items() if key.endswith(f"/{name}") for uid in uids]',
        (f"{OBSERVE}/test_the_snapshot_shows_the_fleet.py::test_the_replicas_are_not_ours_when_they_belong_to",),
    ),
    "a resource that is being deleted is scaled": Defect(
        "observe/snapshot.py",
        "        if not stored.deleting\n",
        "",
        (f"{OBSERVE}/test_the_snapshot_shows_the_fleet.py::test_a_resource_that_is_being_deleted_is_left_alone",),
    ),
    "the client has no deadline": Defect(
        "observe/prometheus.py",
        "asyncio.wait_for(future, deadline - now)",
        "asyncio.wait_for(future, 4 * (deadline - now))",
        (
            f"{OBSERVE}/test_a_faulty_source_is_missing_never_zero.py::"
            "test_a_fault_has_its_own_reason_within_the_deadline",
        ),
    ),
    "a wish to wait is not obeyed": Defect(
        "observe/prometheus.py",
        "        if now < self._silent_until:\n",
        "        if False:\n",
        (f"{OBSERVE}/test_a_faulty_source_is_missing_never_zero.py::test_retry_after_is_obeyed_without_asking_again",),
    ),
    "a message shows the credentials of a URL": Defect(
        "observe/prometheus.py",
        "parts.netloc.rpartition('@')[2]",
        "parts.netloc",
        (
            f"{OBSERVE}/test_a_faulty_source_is_missing_never_zero.py::"
            "test_a_message_names_the_source_and_its_url_and_no_credentials",
        ),
    ),
    "redirects are followed": Defect(
        "observe/session.py",
        "allow_redirects=False",
        "allow_redirects=True",
        (
            f"{OBSERVE}/test_a_faulty_source_is_missing_never_zero.py::"
            "test_a_fault_has_its_own_reason_within_the_deadline",
        ),
    ),
    "pods without series are not missed": Defect(
        "observe/diagnosis.py",
        "    elif lost or stale:\n",
        "    elif False:\n",
        (f"{OBSERVE}/test_unknown_is_never_zero.py::test_a_pod_without_current_samples_makes_the_rest_a_lower_bound",),
    ),
    "samples are current however old they are": Defect(
        "observe/freshness.py",
        "        return law.stale_after_scrapes * self.scrape_interval_seconds + law.margin_seconds\n",
        "        return 1e9\n",
        (f"{OBSERVE}/test_unknown_is_never_zero.py::test_samples_that_are_not_current_are_stale_and_not_read",),
    ),
    "a namespace with too many series is read": Defect(
        "observe/containment.py",
        "        return [] if self._kept <= MOST_BYTES else self._give_way()\n",
        "        return []\n",
        (f"{OBSERVE}/test_an_answer_is_read_as_a_stream.py::test_of_a_namespace_with_too_many_series_nothing_is_kept",),
    ),
}


class Forks:
    """The process that runs tests against the copy at `source`."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self._log = source / "log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.forked"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def run(self, tests: tuple[str, ...]) -> tuple[int, str]:
        """Exit status and output of these tests."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"source": str(self.source), "tests": tests, "log": str(self._log)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        status = self._process.stdout.readline()
        return int(status), self._log.read_text()

    def end(self) -> None:
        """Let it go."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """A copy of the source, bytecode included, that shadows the installed package."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(SOURCE / PACKAGE, folder / PACKAGE)
    made = Forks(folder)
    yield made
    made.end()


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_a_seeded_defect_fails_a_test(name: str, forks: Forks) -> None:
    defect = DEFECTS[name]
    file = forks.source / PACKAGE / defect.file
    text = file.read_text()
    assert text.count(defect.old) == 1, "the defect no longer fits the code: update this table"
    compiled = Path(cache_from_source(str(file)))
    compiled.unlink(missing_ok=True)
    file.write_text(text.replace(defect.old, defect.new))
    try:
        status, output = forks.run(defect.tests)
    finally:
        file.write_text(text)

    assert status == TESTS_FAILED, f"no test noticed that {name}:\n{output}"


@pytest.mark.slow
def test_the_copy_without_a_defect_passes_the_same_tests(forks: Forks) -> None:
    status, output = forks.run(tuple(dict.fromkeys(test for defect in DEFECTS.values() for test in defect.tests)))

    assert status == 0, output


def test_there_are_enough_defects_and_of_every_part() -> None:
    in_the_shell = [defect for defect in DEFECTS.values() if defect.file.startswith(("run/", "observe/"))]

    assert len(DEFECTS) >= 25
    assert len(in_the_shell) >= 10
