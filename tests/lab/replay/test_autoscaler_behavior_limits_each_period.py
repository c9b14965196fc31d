"""`spec.behavior`, which every policy that ends in an HPA goes through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firsttoken_lab.replay.policies.behavior import KUBERNETES_DOWN, KUBERNETES_UP, Behavior, Rule


def test_without_a_behavior_it_doubles_or_adds_four_every_sync() -> None:
    behavior = Behavior(KUBERNETES_UP, KUBERNETES_DOWN, 1, 100)
    replicas, trajectory = 1, []
    for sync in range(1, 6):
        replicas = behavior.limited(15.0 * sync, replicas, 70)
        trajectory.append(replicas)

    assert trajectory == [5, 10, 20, 40, 70]


def test_without_a_behavior_it_goes_down_at_once_when_five_minutes_agree() -> None:
    behavior = Behavior(KUBERNETES_UP, KUBERNETES_DOWN, 1, 100)
    replicas, trajectory = 9, []
    for sync in range(1, 42):
        # One look of the tenth minute that wants more keeps what is there for five minutes.
        replicas = behavior.limited(15.0 * sync, replicas, 5 if sync == 20 else 2)
        trajectory.append(replicas)

    assert trajectory[19] == 9  # 300 s: the 9 of 15 s is in the window
    assert trajectory[20:39] == [5] * 19
    assert trajectory[39] == 2


def test_between_two_windows_that_disagree_nothing_happens() -> None:
    behavior = Behavior(Rule(4, 100, 15.0, 60.0), Rule(None, 100, 15.0, 60.0), 1, 100)

    asked = [behavior.limited(15.0 * sync, 4, wanted) for sync, wanted in enumerate((2, 8, 2, 8, 2, 8), 1)]

    assert asked == [4] * 6


def test_what_a_period_took_away_it_does_not_take_twice() -> None:
    behavior = Behavior(KUBERNETES_UP, Rule(1, None, 60.0, 0.0), 1, 100)
    replicas, trajectory = 5, []
    for sync in range(1, 10):
        replicas = behavior.limited(15.0 * sync, replicas, 1)
        trajectory.append(replicas)

    assert trajectory == [4, 4, 4, 4, 3, 3, 3, 3, 2]


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=60),
    st.integers(1, 5),
    st.integers(5, 20),
    st.sampled_from([(KUBERNETES_UP, KUBERNETES_DOWN), (Rule(4, 100, 60.0, 30.0), Rule(1, None, 120.0, 180.0))]),
)
def test_it_stays_within_bounds_and_never_moves_against_every_recommendation(
    wanted: list[int], minimum: int, maximum: int, rules: tuple[Rule, Rule]
) -> None:
    behavior, replicas = Behavior(*rules, minimum, maximum), minimum
    for sync, want in enumerate(wanted, 1):
        before, replicas = replicas, behavior.limited(15.0 * sync, replicas, want)

        assert minimum <= replicas <= maximum
        assert replicas <= before or want > before
        assert replicas >= before or want < before
