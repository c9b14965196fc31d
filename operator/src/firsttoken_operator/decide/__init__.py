"""The decision: pure, the same for operator, replay and tests. No clock, no randomness, no I/O.

`decide` = `propose` (one resource by itself) -> `arbitrate` (one pool, one transaction) -> `explain`. Before it
`judge_facts` says what follows from the facts of each resource, and `judge_owners` whose the replicas are; after it
`admit` says which deployments are rendered, `cost_changes` which pods end, and `judge` what the conditions say. Other
packages import from here only.
"""

from types import MappingProxyType

from firsttoken_operator.decide.admission import Admission, Waiting, admit
from firsttoken_operator.decide.arbitrate import arbitrate
from firsttoken_operator.decide.bounds import Bounds, declared_bounds, initial_replicas
from firsttoken_operator.decide.calendar import Shortage, at_load, shortages
from firsttoken_operator.decide.charges import charged_gpus, charged_together
from firsttoken_operator.decide.conditions import (
    ABOUT_SIZING,
    calibration_state,
    judge,
    judge_undecided,
    judge_untold,
)
from firsttoken_operator.decide.explain import explain
from firsttoken_operator.decide.facts import judge_facts, usual_scale_down
from firsttoken_operator.decide.ledger import Ledger
from firsttoken_operator.decide.ownership import ForeignWrite, Owned, Ownership, adopting, judge_owners, wrote
from firsttoken_operator.decide.pool_conditions import Peak, judge_pool, peaks
from firsttoken_operator.decide.propose import propose
from firsttoken_operator.decide.recommendation import recommended
from firsttoken_operator.decide.rollout import may_roll
from firsttoken_operator.decide.sentences import metrics_announcement
from firsttoken_operator.decide.victims import cost_changes
from firsttoken_operator.decide.zero import SLEEPING
from firsttoken_operator.domain import Decision, FleetSnapshot, Tick
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig, Memory

__all__ = [
    "ABOUT_SIZING",
    "SLEEPING",
    "Admission",
    "Bounds",
    "ForeignWrite",
    "Ledger",
    "Memory",
    "Owned",
    "Ownership",
    "Peak",
    "Shortage",
    "Waiting",
    "admit",
    "adopting",
    "at_load",
    "calibration_state",
    "charged_gpus",
    "charged_together",
    "cost_changes",
    "decide",
    "declared_bounds",
    "initial_replicas",
    "judge",
    "judge_facts",
    "judge_owners",
    "judge_pool",
    "judge_undecided",
    "judge_untold",
    "may_roll",
    "metrics_announcement",
    "peaks",
    "recommended",
    "shortages",
    "usual_scale_down",
    "wrote",
]


def decide(
    snapshot: FleetSnapshot, memory: Memory, config: EstimatorConfig = DEFAULT
) -> tuple[tuple[Decision, ...], Memory]:
    """Decide on every resource of the snapshot, in its order; the memory returned is the next tick's.

    One whose metrics are still awaited has no decision at this tick, and its memory stays as it is.
    """
    clock_seconds = memory.advance(snapshot.now_seconds, snapshot.tick_seconds, config.memory)
    epoch_seconds = clock_seconds if snapshot.epoch_seconds is None else snapshot.epoch_seconds
    is_first = memory.last_now_seconds is None
    elapsed_seconds = snapshot.tick_seconds if is_first else clock_seconds - memory.clock_seconds
    tick = Tick(clock_seconds, snapshot.tick_seconds, epoch_seconds, elapsed_seconds)
    proposals = [propose(r, memory.resources.get(r.uid), tick, config) for r in snapshot.resources]
    granted = arbitrate(proposals, snapshot, clock_seconds, config)
    seen = MappingProxyType({p.resource.uid: p.memory for p in granted})
    decided = (p for p in granted if not p.resource.metrics.awaited)
    return tuple(explain(p, tick, config) for p in decided), Memory(clock_seconds, snapshot.now_seconds, seen)
