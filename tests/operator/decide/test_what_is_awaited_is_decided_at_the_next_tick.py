"""A source that is late for the first time: its resources keep what they have for one tick."""

from __future__ import annotations

from dataclasses import replace

from firsttoken_operator.decide import Memory, decide
from firsttoken_operator.domain import FleetSnapshot, Metrics, PoolSnapshot, Reason
from tests.operator.decide.builders import POLICY, TICK_SECONDS, idle, lost, metrics, resource, target

AWAITED = replace(lost(), awaited=True)
QUICK = replace(POLICY, min_replicas=1, stabilization_seconds=15)


class Two:
    """Two resources of one pool, the first of a source that may be late."""

    def __init__(self, first: int, second: int, pool: PoolSnapshot) -> None:
        self.sizes = [first, second]
        self.pool = pool
        self.memory, self.now = Memory(), 1000.0

    def tick(self, *seen: Metrics) -> dict[str, Reason]:
        """Reasons by name of the resource."""
        both = tuple(
            resource(
                target(size, uid=f"d-{i}"), mtr, uid=str(i), name=f"n{i}", policy=QUICK, pool="pool",
                time_to_ready_seconds=15.0,
            )
            for i, (size, mtr) in enumerate(zip(self.sizes, seen, strict=True))
        )  # fmt: skip
        snapshot = FleetSnapshot(self.now, TICK_SECONDS, both, {"pool": self.pool})
        decided, self.memory = decide(snapshot, self.memory)
        for decision in decided:
            self.sizes[int(decision.uid)] = decision.to_replicas
        self.now += TICK_SECONDS
        return {decision.name: decision.reason for decision in decided}


def pool(gpus: int) -> PoolSnapshot:
    return PoolSnapshot("pool", gpus, gpus, True, 20, 600.0)


def test_it_has_no_decision_and_is_remembered_as_it_was() -> None:
    two = Two(4, 4, pool(64))
    two.tick(metrics(15), metrics(15))
    known = two.memory.resources["0"]

    assert two.tick(AWAITED, metrics(60)).keys() == {"n1"}
    assert two.memory.resources["0"] == known
    assert two.sizes == [4, 8]
    assert two.tick(metrics(60), metrics(60)).keys() == {"n0", "n1"}
    assert two.sizes[0] > 4


def test_its_gpus_stay_charged() -> None:
    two = Two(4, 4, pool(8))
    two.tick(metrics(15), metrics(15))

    two.tick(AWAITED, metrics(60))

    assert two.sizes == [4, 4]


def test_what_it_gave_back_counts_in_the_rate_limit() -> None:
    """A fifth of 40 GPUs in ten minutes, whichever source answers."""
    two = Two(20, 20, pool(40))
    for _ in range(6):
        two.tick(metrics(99), metrics(99))
    for _ in range(10):
        two.tick(idle(), metrics(99))
    given = 20 - two.sizes[0]
    for _ in range(10):
        two.tick(AWAITED, idle())

    assert given == 8
    assert two.sizes[1] == 20


def test_one_that_was_never_decided_is_new_at_the_next_tick() -> None:
    two = Two(4, 4, pool(64))

    assert two.tick(AWAITED, AWAITED) == {}
    assert two.tick(metrics(15), metrics(15)).keys() == {"n0", "n1"}
