"""Three deployments in one pool through anything that happens to them: I1 to I3, I6, I7, I9, I12 and I14 at every tick.

Signals hold any number; pods are in any state; others write replicas; the process restarts; both clocks jump;
specifications change. Time is counted on the memory's logical clock, of which
`test_clocks_and_restarts_only_make_more_careful` shows that it never runs ahead.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from firsttoken_operator.decide import Memory, charged_together, decide, declared_bounds
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    Metrics,
    Outcome,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    ScalingPolicy,
    Sized,
    Target,
)
from firsttoken_operator.estimate import DEFAULT
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import (
    POLICY,
    SIZED,
    TICK_SECONDS,
    idle,
    late,
    lost,
    metrics,
    resource,
    target,
    worked_table,
)
from tests.operator.decide.strategies import TRUSTED, UNTRUSTED, any_metrics, pods, settled

LAW = DEFAULT.witnesses
POOL = PoolSnapshot("p", 120, 120, on_prem=False, scale_down_limit_percent=20, scale_down_limit_window_seconds=600)
WORKED = replace(SIZED, table=worked_table())
MEMBERS = 3
GPUS = (1, 2, 4)


@dataclass
class Member:
    """One deployment as its cluster has it, and since when its data could be trusted without a break."""

    uid: str
    gpus: int
    replicas: int
    policy: ScalingPolicy
    sized: Sized = WORKED
    scheduled: float | None = None
    pods: dict[str, Any] = field(default_factory=dict)
    generation: int = 0
    trusted_since: float | None = None

    @property
    def target(self) -> Target:
        uid = f"d-{self.uid}-{self.generation}"
        return target(self.replicas, uid=uid, gpus_per_replica=self.gpus, **self.pods)

    def seen(self, mtr: Metrics) -> ResourceSnapshot:
        return resource(
            self.target, mtr, uid=self.uid, name=self.uid, pool="p", policy=self.policy, sized=self.sized,
            scheduled_requests_per_second=self.scheduled, has_schedule=self.scheduled is not None,
        )  # fmt: skip


def plausible() -> st.SearchStrategy[Metrics]:
    """Signals that a sound fleet shows, so that scale-downs happen at all."""
    plain = st.builds(
        lambda rate, share: metrics(rate, ttft=late(share)), st.floats(0, 300), st.sampled_from([0, 0.04])
    )
    return st.one_of(plain, plain, st.floats(0, 30).map(metrics), st.just(idle()), st.just(lost()))


signals = st.lists(st.one_of(plausible(), plausible(), any_metrics()), min_size=MEMBERS, max_size=MEMBERS)
policies = st.builds(
    lambda low, most, mode, when, window, step: replace(
        POLICY, min_replicas=low, max_replicas=most, mode=mode, scale_down=when, stabilization_seconds=window,
        scale_down_step_percent=step,
    ),
    st.integers(0, 5), st.sampled_from([None, None, 6, 30]),
    st.sampled_from([ScalingMode.ACTIVE, ScalingMode.ACTIVE, ScalingMode.ADVISORY, ScalingMode.PAUSED]),
    st.sampled_from(ScaleDown), st.sampled_from([90.0, 300.0]), st.sampled_from([10, 25, 100]),
)  # fmt: skip
members = st.integers(0, MEMBERS - 1)


class AnyLife(RuleBasedStateMachine):
    """Events in the life of three deployments of one pool."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory()
        self.now = 1000.0
        self.epoch = 1.7e9
        self.given_back: list[tuple[float, str, int]] = []
        """Decreases that were decided: when on the logical clock, of which target, GPUs."""
        self.members: list[Member] = []

    @initialize(sizes=st.lists(st.integers(0, 40), min_size=MEMBERS, max_size=MEMBERS), policy=policies)
    def created(self, sizes: list[int], policy: ScalingPolicy) -> None:
        self.members = [Member(str(i), GPUS[i], size, policy) for i, size in enumerate(sizes)]

    @rule(mtr=signals, states=st.lists(st.one_of(settled, settled, pods), min_size=MEMBERS, max_size=MEMBERS))
    def one_tick(self, mtr: list[Metrics], states: list[dict[str, Any]]) -> None:
        for member, state in zip(self.members, states, strict=True):
            member.pods = state
        self.tick(mtr)

    @rule(mtr=signals, ticks=st.integers(5, 25), applied=st.booleans())
    def a_while(self, mtr: list[Metrics], ticks: int, applied: bool) -> None:
        for member in self.members:
            member.pods = {}
        for _ in range(ticks):
            self.tick(mtr, applied)

    @rule(which=members, policy=policies, declared=st.integers(1, 60))
    def another_specification(self, which: int, policy: ScalingPolicy, declared: int) -> None:
        self.members[which].policy = policy
        self.members[which].sized = replace(WORKED, replicas_for_declared_peak=declared)

    @rule(which=members, rate=st.one_of(st.none(), st.floats(0, 400)))
    def a_declared_window(self, which: int, rate: float | None) -> None:
        self.members[which].scheduled = rate

    @rule(which=members, replicas=st.integers(0, 60))
    def a_foreign_write(self, which: int, replicas: int) -> None:
        member, last = self.members[which], self.memory.clock_seconds
        # What is taken back before a tick has seen it gone was never given.
        undone = max(0, replicas - member.replicas) * member.gpus
        self.given_back = [
            (at, uid, max(0, gpus - undone) if (at, uid) == (last, member.target.uid) else gpus)
            for at, uid, gpus in self.given_back
        ]
        member.replicas = replicas

    @rule(which=members)
    def another_target_of_the_same_name(self, which: int) -> None:
        # The GPUs of the one that was deleted are gone whatever the rate limit says: what it gave back is not counted
        # on.
        gone = self.members[which].target.uid
        self.given_back = [each for each in self.given_back if each[1] != gone]
        self.members[which].generation += 1
        self.members[which].trusted_since = None

    @rule()
    def a_restart(self) -> None:
        self.memory = Memory()
        # What was given back before is restored from the status: tests/operator/run has that.
        self.given_back = []
        for member in self.members:
            member.trusted_since = None

    @rule(seconds=st.one_of(st.floats(-1e6, 1e6), st.sampled_from([-15.0, 3600.0, -1e9, 1e9])))
    def the_clock_jumps(self, seconds: float) -> None:
        self.now += seconds

    @rule(seconds=st.one_of(st.floats(-1e6, 1e6), st.sampled_from([-15.0, 3600.0, -1e12, 1e12])))
    def the_wall_clock_jumps(self, seconds: float) -> None:
        self.epoch += seconds

    def tick(self, mtr: list[Metrics], applied: bool = True) -> None:
        resources = tuple(member.seen(each) for member, each in zip(self.members, mtr, strict=True))
        snapshot = FleetSnapshot(self.now, TICK_SECONDS, resources, {"p": POOL}, self.epoch)
        decisions, after = decide(snapshot, self.memory)
        self._checked_order(snapshot, decisions)
        for member, each, decision in zip(self.members, mtr, decisions, strict=True):
            self._checked_alone(member, each, decision, after.clock_seconds)
        self._checked_budget(resources, decisions)
        self._checked_memory(after)
        if applied:
            self._checked_rate_limit(decisions, after.clock_seconds)
            for member, decision in zip(self.members, decisions, strict=True):
                if member.policy.mode is ScalingMode.ACTIVE:
                    member.replicas = decision.to_replicas
        self.memory = after
        self.now += TICK_SECONDS
        self.epoch += TICK_SECONDS

    def _checked_alone(self, member: Member, mtr: Metrics, decision: Decision, clock: float) -> None:
        before, to, policy = member.replicas, decision.to_replicas, member.policy
        limits = declared_bounds(policy, member.sized, member.scheduled)
        paused = policy.mode is ScalingMode.PAUSED
        trusted = mtr.health in TRUSTED and not paused
        member.trusted_since = (clock if member.trusted_since is None else member.trusted_since) if trusted else None
        assert isinstance(decision.outcome, Outcome)
        assert isinstance(decision.reason, Reason)
        assert decision.message
        assert decision.from_replicas == before
        if paused:
            assert to == before
        if to > before:
            assert to <= max(limits.upper, 1)
            most = max(LAW.scale_up_replicas, before * LAW.scale_up_percent / 100)
            assert to - before <= most or mtr.health in UNTRUSTED
        if to < before:
            assert to >= min(limits.lower, limits.upper)
            assert before - to <= max(1, before * policy.scale_down_step_percent // 100)
        # What the user lowered is obeyed whatever the metrics say, down to it and no further.
        lowered = policy.max_replicas is not None and before > to >= policy.max_replicas
        if to < before and not lowered:
            assert mtr.health in TRUSTED
            assert member.trusted_since is not None
            assert clock - member.trusted_since >= policy.stabilization_seconds
            assert policy.scale_down is not ScaleDown.NEVER or to >= limits.upper

    def _checked_budget(self, resources: tuple[ResourceSnapshot, ...], decisions: tuple[Decision, ...]) -> None:
        assert POOL.budget_gpus is not None
        growth = sum(
            max(0, d.to_replicas - _live(r)) * d.gpus_per_replica
            for r, d in zip(resources, decisions, strict=True)
            if r.policy.mode is ScalingMode.ACTIVE and d.to_replicas > d.from_replicas
        )
        free = POOL.budget_gpus - charged_together(r.target for r in resources)
        assert growth <= max(0, free)

    def _checked_rate_limit(self, decisions: tuple[Decision, ...], clock: float) -> None:
        """Check that what we gave back in any window of the pool is within its limit, or one replica."""
        assert POOL.budget_gpus is not None
        for member, decision in zip(self.members, decisions, strict=True):
            if decision.to_replicas < member.replicas and member.policy.mode is ScalingMode.ACTIVE:
                gpus = (member.replicas - decision.to_replicas) * member.gpus
                self.given_back.append((clock, member.target.uid, gpus))
        window = [gpus for at, _, gpus in self.given_back if clock - POOL.scale_down_limit_window_seconds < at]
        allowed = POOL.budget_gpus * POOL.scale_down_limit_percent // 100
        assert sum(window) <= max(allowed, max(GPUS))

    def _checked_order(self, snapshot: FleetSnapshot, decisions: tuple[Decision, ...]) -> None:
        order = random.Random(len(self.given_back)).sample(range(MEMBERS), MEMBERS)
        shuffled = replace(snapshot, resources=tuple(snapshot.resources[i] for i in order))
        assert decide(shuffled, self.memory)[0] == tuple(decisions[i] for i in order)

    def _checked_memory(self, memory: Memory) -> None:
        """No number that is not finite stays behind: it would never leave an average again."""
        assert all(math.isfinite(number) for number in _numbers(memory))


def _live(seen: ResourceSnapshot) -> int:
    """Count what is charged already for a target: growing back to it costs nothing."""
    tgt = seen.target
    assert isinstance(tgt, Target)
    return max(tgt.replicas, tgt.ready + tgt.starting + tgt.stuck)


def _numbers(value: Any) -> Iterator[float]:
    """Every float in a value made of dataclasses, mappings and tuples."""
    if is_dataclass(value):
        for item in fields(value):
            yield from _numbers(getattr(value, item.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, float):
        yield value


def test_nothing_that_happens_to_a_fleet_breaks_an_invariant() -> None:
    run_state_machine_as_test(AnyLife, settings=settings(max_examples=examples(20), stateful_step_count=20))
