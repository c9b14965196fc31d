"""Choice of the pods that a smaller fleet ends: those that start, then those with the fewest requests under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.decide import cost_changes
from firsttoken_operator.domain import Decision, Outcome, Reason, ReplicaPod

A = ReplicaPod("uid-a", "a", ready=True, created_seconds=0)
B = ReplicaPod("uid-b", "b", ready=True, created_seconds=0)
C = ReplicaPod("uid-c", "c", ready=True, created_seconds=0)
STARTING = ReplicaPod("uid-d", "d", ready=False, created_seconds=90)
UNDER_WAY = {"a": 5.0, "b": 0.0, "c": 9.0}


def decision(before: int, after: int) -> Decision:
    outcome = Outcome.DOWN if after < before else Outcome.STEADY
    return Decision(
        "r-1", "call-center", "chat", outcome, before, after, Reason.STEADY, "",
        gpus_per_replica=1, capacity_factor=1.0, metrics_health=Reason.PRESENT,
    )  # fmt: skip


def costs(
    before: int, after: int, pods: Sequence[ReplicaPod], under_way: Mapping[str, float] = UNDER_WAY
) -> dict[str, int | None]:
    return {change.pod.name: change.cost for change in cost_changes(decision(before, after), pods, under_way)}


def carried_out(pods: Sequence[ReplicaPod], written: Mapping[str, int | None]) -> list[ReplicaPod]:
    """The pods as the next tick sees them."""
    return [
        replace(pod, deletion_cost=written[pod.name], is_ours=written[pod.name] is not None)
        if pod.name in written
        else pod
        for pod in pods
    ]


def test_the_table_of_what_happens_when_is_what_happens() -> None:
    pods = (A, B, C, STARTING)
    written = costs(4, 2, pods)
    marked = carried_out(pods, written)

    assert written == {"d": -2, "b": -1}
    assert costs(2, 2, marked) == {}, "the ReplicaSet is about to end them"
    assert costs(2, 2, [A, C]) == {}
    assert costs(4, 4, marked) == {"d": None, "b": None}, "the write was refused"
    assert costs(4, 2, marked) == {}, "written already"
    assert costs(4, 3, marked) == {"b": None, "d": -1}


def test_of_those_with_as_many_requests_the_youngest_ends() -> None:
    younger = replace(A, uid="uid-e", name="e", created_seconds=60)

    assert costs(2, 1, [A, younger], {"a": 3, "e": 3}) == {"e": -1}


def test_a_pod_that_tells_nothing_ends_after_those_that_do() -> None:
    assert costs(3, 1, [A, B, C], {"a": 7.0, "b": 5.0}) == {"b": -2, "a": -1}


def test_where_no_pod_tells_of_its_requests_kubernetes_chooses() -> None:
    assert costs(3, 2, [A, B, STARTING], {}) == {}


def test_costs_of_another_are_a_choice_that_stands() -> None:
    chosen = replace(A, deletion_cost=100)

    assert costs(3, 2, [chosen, B, C]) == {}
    assert costs(3, 2, [chosen, replace(B, deletion_cost=-1, is_ours=True), C]) == {"b": None}


def test_the_last_replica_goes_like_any_other() -> None:
    assert costs(1, 0, [A], {"a": 0.0}) == {"a": -1}


def test_pods_of_a_surge_are_no_reason_to_mark_any() -> None:
    assert costs(2, 2, [A, B, STARTING]) == {}


def on(node: str, pods: int, *, age: float, others: int = 0) -> list[ReplicaPod]:
    """Ready pods on a node of this age."""
    return [
        ReplicaPod(f"{node}-{at}", f"{node}-{at}", True, 0.0, node=node, node_created_seconds=-age, others_there=others)
        for at in range(pods)
    ]


BASE = on("base", 8, age=900)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([*BASE, *on("new", 3, age=60), *on("newer", 2, age=30)], {"newer": 2, "new": 3}),
        ([*BASE, *on("new", 8, age=60)], {"new": 5}),
        ([*BASE, *on("new", 3, age=60, others=1), *on("newer", 2, age=30)], {"newer": 2, "new": 3}),
        ([*BASE, *on("new", 4, age=60), *on("newer", 4, age=30)], {"newer": 4, "new": 1}),
        ([*BASE, *on("shared", 1, age=30, others=7), *on("new", 6, age=60)], {"new": 5}),
    ],
)
@pytest.mark.parametrize("under_way", [{}, {"new-0": 9.0, "newer-1": 9.0, "base-0": 0.0}], ids=["unknown", "known"])
def test_where_empty_nodes_go_by_themselves_whole_nodes_are_emptied(
    pods: list[ReplicaPod], expected: dict[str, int], under_way: dict[str, float]
) -> None:
    found = cost_changes(decision(len(pods), len(pods) - 5), pods, under_way, empties_nodes=True)

    assert Counter(change.pod.node for change in found) == expected


def test_pods_that_start_go_before_any_node_is_emptied_and_those_that_stay_keep_their_node() -> None:
    starting = [replace(STARTING, uid=f"s-{at}", name=f"s-{at}", node="new") for at in range(2)]
    pods = [*BASE, *on("new", 1, age=60), *starting]

    def ended(after: int) -> Counter[str]:
        return Counter(c.pod.node for c in cost_changes(decision(len(pods), after), pods, {}, empties_nodes=True))

    assert ended(10) == {"new": 1}
    assert ended(8) == {"new": 3}
    assert ended(7) == {"new": 3, "base": 1}


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[ReplicaPod], dict[str, float], int]:
    number = draw(st.integers(0, 12))
    ready = draw(st.lists(st.booleans(), min_size=number, max_size=number))
    ages = draw(st.lists(st.sampled_from([0.0, 30.0, 60.0]), min_size=number, max_size=number))
    mine = draw(st.lists(st.sampled_from([None, -1, -2]), min_size=number, max_size=number))
    pods = [
        ReplicaPod(f"uid-{at}", f"pod-{at}", ready[at], ages[at], mine[at], mine[at] is not None)
        for at in range(number)
    ]
    told = draw(st.sets(st.sampled_from(pods))) if pods else set()
    return pods, {pod.name: float(draw(st.integers(0, 5))) for pod in told}, draw(st.integers(0, number))


@given(fleets())
def test_as_many_are_marked_as_go_and_none_with_more_to_do_than_one_that_stays(
    fleet: tuple[list[ReplicaPod], dict[str, float], int],
) -> None:
    pods, under_way, after = fleet
    after_write = carried_out(pods, costs(len(pods), after, pods, under_way))
    marked = [pod for pod in after_write if pod.deletion_cost is not None]
    staying = [pod for pod in after_write if pod.deletion_cost is None]

    assert len(marked) in (0, len(pods) - after)
    assert len({pod.deletion_cost for pod in marked}) == len(marked)
    assert all(pod.deletion_cost is not None and pod.deletion_cost < 0 for pod in marked)
    for gone in marked:
        for kept in staying:
            assert not gone.ready or kept.ready
            if gone.ready and gone.name in under_way:
                assert under_way[gone.name] <= under_way.get(kept.name, 5.0)
