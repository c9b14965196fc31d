"""The bookkeeping of who wrote the replicas: adopted once, a conflict when repeated, free again when quiet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.decide.ownership import (
    ForeignWrite,
    Ownership,
    adopting,
    judge_target,
    wrote,
)
from firsttoken_operator.estimate import DEFAULT

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
