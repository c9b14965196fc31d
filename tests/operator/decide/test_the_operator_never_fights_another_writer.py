"""The bookkeeping of who wrote the replicas: adopted once, a conflict when repeated, free again when quiet."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.decide import ownership
from firsttoken_operator.decide.ownership import (
    ForeignWrite,
    Ownership,
    adopting,
    judge_owners,
    judge_target,
    wrote,
)
from firsttoken_operator.domain import Claims, FleetSnapshot, ResourceSnapshot
from firsttoken_operator.estimate import DEFAULT
from tests.operator.decide.builders import metrics, resource, target

FOREIGN_SECONDS, QUIET_SECONDS = 600, 300
UNSEEN_SECONDS = DEFAULT.decision.own_write_unseen_seconds


def look(
    state: Ownership, replicas: int, at: float, rival: str = "", uid: str = "d-1"
) -> tuple[Ownership, ForeignWrite | None]:
    return judge_target(state, uid, replicas, rival, at, FOREIGN_SECONDS, QUIET_SECONDS)


def test_what_is_there_at_first_sight_is_adopted_without_a_word() -> None:
    state, foreign = look(Ownership(), 7, 0)

    assert (state.replicas, state.conflict, foreign) == (7, "", None)


def test_what_another_operator_of_ours_wrote_is_adopted_without_a_word_and_a_conflict_is_remembered() -> None:
    state, _ = look(Ownership(), 5, 0)
    for seconds, replicas in ((15, 8), (30, 6), (45, 9)):
        state, foreign = look(adopting({"r": state})["r"], replicas, seconds)
        assert (foreign, state.conflict, state.replicas) == (None, "", replicas)
    state, _ = look(adopting({"r": state})["r"], 9, 60, rival="HPA")
    state, _ = look(adopting({"r": state})["r"], 9, 60 + QUIET_SECONDS - 1)
    assert state.conflict == "HPA"
    state, _ = look(adopting({"r": state})["r"], 9, 60 + QUIET_SECONDS)
    assert state.conflict == ""


def test_our_own_write_is_no_foreign_one() -> None:
    state, _ = look(Ownership(), 5, 0)
    state, foreign = look(wrote(state, 9, 0), 9, 15)

    assert (state.conflict, foreign) == ("", None)


def test_a_watch_that_lags_behind_our_write_is_no_foreign_write() -> None:
    state, _ = look(Ownership(), 5, 0)
    state = wrote(state, 9, 0)
    for seconds in (15, 30, 45, 60, UNSEEN_SECONDS):
        state, foreign = look(state, 5, seconds)
        assert foreign is None
    state, foreign = look(state, 9, UNSEEN_SECONDS + 15)

    assert (foreign, state.conflict) == (None, "")


def test_writes_whose_answers_were_lost_are_our_own_whether_applied_or_not() -> None:
    state, _ = look(Ownership(), 4, 0)
    for seconds, to, shown in ((15, 8, 8), (30, 12, 12), (45, 16, 12)):
        state, foreign = look(wrote(state, to, seconds, confirmed=False), shown, seconds + 5)
        assert (foreign, state.conflict) == (None, "")


def test_a_write_that_was_never_applied_is_forgotten_in_the_end() -> None:
    state, _ = look(Ownership(), 5, 0)
    state, lost = look(wrote(state, 9, 0, confirmed=False), 5, UNSEEN_SECONDS + 1)
    state, foreign = look(state, 9, UNSEEN_SECONDS + 15)

    assert (lost, foreign) == (None, ForeignWrite(5, 9))


def test_a_value_that_comes_back_after_ours_was_seen_is_foreign() -> None:
    state, _ = look(Ownership(), 5, 0)
    state, _ = look(wrote(state, 9, 0), 9, 15)
    _, foreign = look(state, 5, 30)

    assert foreign == ForeignWrite(9, 5)


def test_an_old_value_that_stays_is_foreign_in_the_end() -> None:
    state, _ = look(Ownership(), 5, 0)
    state = wrote(state, 9, 0)
    state, early = look(state, 5, UNSEEN_SECONDS)
    state, late = look(state, 5, UNSEEN_SECONDS + 1)

    assert (early, late) == (None, ForeignWrite(9, 5))


def test_one_foreign_write_is_adopted_and_no_conflict() -> None:
    state, _ = look(Ownership(), 5, 0)
    state, foreign = look(state, 8, 15)

    assert (foreign, state.conflict, state.replicas) == (ForeignWrite(5, 8), "", 8)


def test_two_foreign_writes_within_ten_minutes_are_a_conflict_until_it_was_quiet_for_a_window() -> None:
    state, _ = look(Ownership(), 5, 0)
    state, _ = look(state, 8, 100)
    state, _ = look(state, 5, 650)
    assert state.conflict
    state, _ = look(state, 5, 650 + 299)
    assert state.conflict
    state, _ = look(state, 5, 650 + 300)
    assert not state.conflict


def test_two_foreign_writes_far_apart_are_no_conflict() -> None:
    state, _ = look(Ownership(), 5, 0)
    state, _ = look(state, 8, 100)
    state, _ = look(state, 5, 701)

    assert not state.conflict


def test_a_writer_that_goes_on_keeps_the_conflict_alive() -> None:
    state, _ = look(Ownership(), 5, 0)
    for minute in range(1, 60):
        state, _ = look(state, 5 + minute % 2, 60.0 * minute)

    assert state.conflict
    assert len(state.foreign_seconds) == 2


def test_an_autoscaler_is_a_conflict_at_once_and_for_a_window_after_it_is_gone() -> None:
    state, _ = look(Ownership(), 5, 0, rival="HorizontalPodAutoscaler web")
    assert state.conflict == "HorizontalPodAutoscaler web"
    state, _ = look(state, 5, 299)
    assert state.conflict
    state, _ = look(state, 5, 300)
    assert not state.conflict


def test_a_recreated_target_starts_anew() -> None:
    state, _ = look(Ownership(), 5, 0)
    state, _ = look(state, 8, 10)
    state, foreign = look(state, 2, 20, uid="d-2")

    assert (foreign, state.conflict, state.foreign_seconds) == (None, "", ())


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1000)), max_size=30))
def test_without_other_writers_there_is_never_a_conflict(steps: list[tuple[int, float]]) -> None:
    now, replicas = 0.0, 5
    state, _ = look(Ownership(), replicas, now)
    for to, pause in steps:
        state = wrote(state, to, now)
        replicas, now = to, now + pause
        state, foreign = look(state, replicas, now)
        assert foreign is None
        assert not state.conflict


def set_back_each_time(hours: float) -> list[tuple[int, str]]:
    """Events while a controller sets 40 replicas back to 3 a minute after each write: (minute, what)."""
    state, replicas, due, at, happened = Ownership(), 3, math.inf, 0.0, []
    state, _ = look(state, replicas, 0)
    while at < hours * 3600:
        if at >= due:
            replicas, due = 3, math.inf
        before = state.conflict
        state, foreign = judge_target(state, "d-1", replicas, "", at, FOREIGN_SECONDS, QUIET_SECONDS, "argocd")
        if state.conflict and not before:
            happened.append((round(at / 60), "a conflict"))
        elif foreign is not None:
            happened.append((round(at / 60), "adopted"))
        if not state.conflict and replicas == 3:
            state = wrote(state, 40, at)
            happened.append((round(at / 60), "we write"))
            replicas, due = 40, at + 60
        at += 15.0
    return happened


def test_the_worked_table_is_what_happens() -> None:
    rows = [line.strip("|").split("|") for line in (ownership.__doc__ or "").splitlines() if line.startswith("|")]
    said = {}
    for minute, what, quiet in rows[2:]:
        said[int(minute)] = [word for word in ("adopted", "a conflict", "we write") if word in what], quiet.strip()
    found: dict[int, list[str]] = {}
    for minute, what in set_back_each_time(19.5 / 60):
        found.setdefault(minute, []).append(what)

    assert {minute: sorted(words) for minute, (words, _) in said.items()} == {m: sorted(w) for m, w in found.items()}
    assert [quiet for _, quiet in said.values() if quiet] == ["300 s", "600 s", "1200 s"]


def test_a_controller_that_sets_replicas_back_is_tried_a_few_times_a_day() -> None:
    writes = [minute for minute, what in set_back_each_time(72) if what == "we write"]

    assert len([minute for minute in writes if minute < 360]) <= 9
    assert len([minute for minute in writes if minute >= 24 * 60]) <= 10


def test_a_conflict_names_the_other_writer() -> None:
    state = Ownership()
    for at, replicas in ((0, 5), (15, 8), (30, 5)):
        state, _ = judge_target(state, "d-1", replicas, "", at, FOREIGN_SECONDS, QUIET_SECONDS, "argocd-controller")

    assert state.conflict.startswith("another writer (argocd-controller) keeps changing the replicas")


def test_a_day_without_a_foreign_write_begins_anew() -> None:
    state, _ = look(Ownership(), 5, 0)
    state, _ = look(state, 8, 15)
    state, _ = look(state, 5, 30)
    assert state.conflicts == 1
    for at in (400, 86_500):
        state, _ = look(state, 5, at)
    state, foreign = look(state, 8, 86_560)

    assert (foreign, state.conflict, state.conflicts) == (ForeignWrite(5, 8), "", 0)


OLD = resource(target(3), metrics(5), uid="old", name="rag", created="2026-01-01", claims=Claims("nim"))
NEW = replace(OLD, uid="new", created="2026-01-02")


def conflicts(*resources: ResourceSnapshot) -> dict[str, str]:
    judged = judge_owners(FleetSnapshot(0, 15, resources), {}, FOREIGN_SECONDS)
    return {each.uid: each.conflict for each in judged.snapshot.resources}


def test_a_resource_that_was_created_anew_owns_its_target_before_the_watch_tells_of_the_deletion() -> None:
    found = conflicts(OLD, NEW)

    assert found["new"] == ""
    assert found["old"]


def test_where_an_older_claim_is_gone_no_quiet_time_is_waited_for() -> None:
    other = replace(NEW, name="another")
    first = judge_owners(FleetSnapshot(0, 15, (OLD, other)), {}, FOREIGN_SECONDS)
    second = judge_owners(FleetSnapshot(15, 15, (other,)), first.ownerships, FOREIGN_SECONDS)

    assert first.snapshot.resources[1].conflict
    assert second.snapshot.resources[0].conflict == ""
