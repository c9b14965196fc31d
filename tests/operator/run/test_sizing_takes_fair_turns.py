"""Turns to be sized: namespaces by what they cost, in each the first that came, and none twice at once."""

from __future__ import annotations

from collections import Counter

from firsttoken_operator.run.turns import Turns


def served(turns: Turns[str], times: int, seconds: dict[str, float]) -> list[str]:
    """The jobs of the next turns; each costs what its namespace costs."""
    found = []
    for _ in range(times):
        turn = turns.take()
        if turn is None:
            break
        namespace, job = turn
        turns.charge(namespace, seconds[namespace])
        found.append(job)
    return found


def filled(**jobs: int) -> Turns[str]:
    """So many jobs of each namespace, all of the first one before all of the next."""
    turns = Turns[str]()
    for namespace, count in jobs.items():
        for number in range(count):
            turns.put(namespace, f"{namespace}-{number}", f"{namespace}-{number}")
    return turns


def test_one_namespace_is_served_in_order_of_arrival() -> None:
    assert served(filled(a=3), 9, {"a": 1.0}) == ["a-0", "a-1", "a-2"]


def test_a_few_of_one_namespace_do_not_wait_for_the_thousand_of_another() -> None:
    order = served(filled(many=1000, few=3), 1003, {"many": 1.0, "few": 1.0})

    assert max(order.index(f"few-{number}") for number in range(3)) <= 6
    assert len(order) == 1003


def test_what_a_namespace_gets_is_time_and_not_turns() -> None:
    order = served(filled(slow=100, quick=100), 60, {"slow": 1.0, "quick": 0.1})
    turns = Counter(job.partition("-")[0] for job in order)

    assert turns["quick"] / turns["slow"] > 8


def test_one_that_is_changed_while_it_waits_keeps_its_place_and_waits_once() -> None:
    turns = filled(a=3)
    for edit in range(5):
        turns.put("a", "a-0", f"edit {edit}")
        turns.put("a", "a-2", f"a-2, edit {edit}")

    assert served(turns, 9, {"a": 1.0}) == ["edit 4", "a-1", "a-2, edit 4"]


def test_one_that_is_changed_after_every_turn_waits_behind_the_others() -> None:
    turns, order = filled(a=4), []
    for edit in range(6):
        order += served(turns, 1, {"a": 1.0})
        turns.put("a", "a-0", f"edit {edit}")

    assert order[:4] == ["a-0", "a-1", "a-2", "a-3"]


def test_a_namespace_that_cost_much_is_behind_until_the_others_have_had_as_much() -> None:
    turns = filled(costly=1, other=50)
    assert served(turns, 1, {"costly": 30.0}) == ["costly-0"]
    turns.put("costly", "costly-0", "again")
    order = served(turns, 51, {"costly": 30.0, "other": 1.0})

    assert order.index("again") >= 30


def test_rest_earns_no_credit() -> None:
    turns = filled(busy=100)
    served(turns, 50, {"busy": 1.0})
    for number in range(50):
        turns.put("rested", f"rested-{number}", "rested")
    order = served(turns, 20, {"busy": 1.0, "rested": 1.0})

    assert 9 <= order.count("rested") <= 11


def test_what_is_gone_waits_no_more() -> None:
    turns = filled(a=2, b=1)
    turns.keep({"a-1"})

    assert served(turns, 9, {"a": 1.0}) == ["a-1"]
    assert turns.take() is None
