"""Ownership of the replicas of a target: judged from the claims on it, and from who wrote them.

One owner at a time: a foreign write (`kubectl scale`) is adopted, two or an autoscaler are a conflict until it has been
quiet. Of two resources that name the same target the older one keeps it.

A writer that sets the replicas back after each of our writes is not fought: while such conflicts follow one another,
one more foreign write is one, and each is waited out for twice as long as the last.

Worked, for a controller that sets the replicas back a minute after each of our writes, and a quiet time of 300 s:

| minute | what happens | quiet for |
|---|---|---|
| 0 | we write | |
| 1 | set back, adopted, and we write again | |
| 2 | set back: a conflict | 300 s |
| 7 | we write | |
| 8 | set back: a conflict | 600 s |
| 18 | we write | |
| 19 | set back: a conflict | 1200 s |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from firsttoken_operator.domain import FleetSnapshot, Owner, ResourceSnapshot, ScalingMode, Target
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig


@dataclass(frozen=True, slots=True)
class Ownership:
    """Knowledge of one target. Empty: nothing yet, so whatever is there is adopted without a word."""

    target_uid: str = ""
    replicas: int | None = None
    """The replicas that are accounted for."""
    written: int | None = None
    """The replicas of our last write, while the watch has not shown them."""
    written_seconds: float = 0.0
    confirmed: bool = False
    """True once the server said that it took them. Otherwise they may come or not: both are our own doing."""
    foreign_seconds: tuple[float, ...] = ()
    """Times at which the last foreign writes were noticed, as many as make a conflict."""
    conflict: str = ""
    conflicts: int = 0
    """Conflicts with a foreign writer that followed one another."""


@dataclass(frozen=True, slots=True)
class ForeignWrite:
    """Another writer changed the replicas."""

    from_replicas: int
    to_replicas: int

    @property
    def announcement(self) -> str:
        """Sentence of its Event."""
        return f"another writer changed the replicas from {self.from_replicas} to {self.to_replicas}; adopted"


@dataclass(frozen=True, slots=True)
class Owned:
    """A snapshot of which the resources say who else owns their replicas, and what the next tick is to be told.

    `ownerships` and `foreign` (the foreign writes that this tick saw) are by uid of the resource.
    """

    snapshot: FleetSnapshot
    ownerships: Mapping[str, Ownership]
    foreign: Mapping[str, ForeignWrite]


def judge_owners(
    snapshot: FleetSnapshot,
    known: Mapping[str, Ownership],
    foreign_window_seconds: float,
    config: EstimatorConfig = DEFAULT,
) -> Owned:
    """Judge whose the replicas of every resource are. `known`: what is known from before, by uid."""
    older = _older_claims(snapshot.resources)
    resources, ownerships, foreign = [], {}, {}
    for resource in snapshot.resources:
        claimed, target = older.get(resource.uid, ""), resource.target
        rival = _rival(resource, claimed)
        if not isinstance(target, Target) or resource.policy.mode is not ScalingMode.ACTIVE or claimed:
            # Who scales while we do not is no rival. Afterwards the replicas that are there are adopted.
            # NB: an older claim is ours to judge: once it is gone, there is no other writer to wait for.
            resources.append(replace(resource, conflict=rival))
            continue
        state, write = judge_target(
            known.get(resource.uid, Ownership()), target.uid, target.replicas, rival, snapshot.now_seconds,
            foreign_window_seconds, resource.policy.stabilization_seconds, resource.claims.writer, config,
        )  # fmt: skip
        ownerships[resource.uid] = state
        if write is not None:
            foreign[resource.uid] = write
        taken = max(0, write.from_replicas - write.to_replicas) if write else 0
        seen = replace(target, written=state.written or 0, taken=taken)
        resources.append(replace(resource, conflict=state.conflict, target=seen))
    return Owned(replace(snapshot, resources=tuple(resources)), MappingProxyType(ownerships), MappingProxyType(foreign))


def judge_target(
    state: Ownership,
    target_uid: str,
    replicas: int,
    rival: str,
    now_seconds: float,
    foreign_window_seconds: float,
    quiet_seconds: float,
    writer: str = "",
    config: EstimatorConfig = DEFAULT,
) -> tuple[Ownership, ForeignWrite | None]:
    """Take note of the replicas that the watch shows at a tick.

    `rival` says who else has a claim on the target, such as an HPA (empty: none), `writer` which field manager wrote
    the replicas beside us. Foreign writes count together within their window, and a conflict ends when it has been
    quiet for `quiet_seconds`, or longer where it is not the first. Returns the new state, whose `conflict` is empty
    when writing is allowed, and the foreign write where there was one.
    """
    if state.target_uid != target_uid:
        state = Ownership(target_uid=target_uid, replicas=replicas)
    law = config.decision
    state, foreign = _account(state, replicas, now_seconds, law.own_write_unseen_seconds)
    if foreign is not None:
        kept = state.foreign_seconds[1 - law.foreign_writes_for_conflict :]
        state = replace(state, foreign_seconds=(*kept, now_seconds))
    if rival:
        # Its last possible write is now: the quiet window starts when it is gone.
        return replace(state, foreign_seconds=(now_seconds,), conflict=rival), foreign
    return _judge(state, writer, now_seconds, foreign_window_seconds, quiet_seconds, config), foreign


def wrote(state: Ownership, to_replicas: int, now_seconds: float, *, confirmed: bool = True) -> Ownership:
    """Take note of our own write, so that the watch event that follows is not taken for a foreign one.

    Not confirmed: it is about to be sent, and may be applied although its answer is lost.
    """
    return replace(state, written=to_replicas, written_seconds=now_seconds, confirmed=confirmed)


def adopting(known: Mapping[str, Ownership]) -> dict[str, Ownership]:
    """The same, of which whatever is there next is adopted without a word: another operator of ours writes."""
    return {uid: replace(state, replicas=None, written=None) for uid, state in known.items()}


def _account(
    state: Ownership, replicas: int, now_seconds: float, unseen_seconds: float
) -> tuple[Ownership, ForeignWrite | None]:
    """`unseen_seconds`: for how long after our own write the replicas from before it are no other writer's."""
    settled = replace(state, replicas=replicas, written=None)
    if state.replicas is None or replicas == state.written:
        return settled, None
    if replicas == state.replicas:
        if state.written is None or now_seconds - state.written_seconds <= unseen_seconds:
            return state, None
        if not state.confirmed:
            return settled, None
    taken = state.written if state.written is not None and state.confirmed else state.replicas
    return settled, ForeignWrite(taken, replicas)


def _judge(
    state: Ownership,
    writer: str,
    now_seconds: float,
    foreign_window_seconds: float,
    quiet_seconds: float,
    config: EstimatorConfig,
) -> Ownership:
    law = config.decision
    if state.conflict:
        # NB: no conflict is counted of an autoscaler that is gone.
        wait_seconds = min(quiet_seconds * 2 ** max(state.conflicts - 1, 0), law.most_quiet_seconds)
        quiet = now_seconds - state.foreign_seconds[-1] >= max(wait_seconds, quiet_seconds)
        kept = state.foreign_seconds[-1:] if state.conflicts else ()
        return replace(state, foreign_seconds=kept, conflict="") if quiet else state
    latest = state.foreign_seconds[-1] if state.foreign_seconds else -math.inf
    is_over = now_seconds - latest > law.conflict_memory_seconds
    conflicts = 0 if is_over else state.conflicts
    recent = tuple(at for at in state.foreign_seconds if now_seconds - at <= foreign_window_seconds)
    if len(recent) >= law.foreign_writes_for_conflict or (conflicts and latest == now_seconds):
        by = f" ({writer})" if writer else ""
        text = f"another writer{by} keeps changing the replicas; stop it or set scaling.mode: Advisory"
        return replace(state, conflict=text, conflicts=conflicts + 1)
    return replace(state, foreign_seconds=state.foreign_seconds if conflicts else recent, conflicts=conflicts)


def _older_claims(resources: Iterable[ResourceSnapshot]) -> dict[str, str]:
    """Map each resource whose target an older one names too to the name of that one, by uid.

    The oldest keeps the target (by creation time, then uid), whatever the order of the events was. Of two of one name
    only the newest is there: the deletion of the other was not told yet.
    """
    resources = sorted(resources, key=lambda r: (r.created, r.uid))
    present = {(r.namespace, r.name): r.uid for r in resources}
    oldest: dict[tuple[str, str, str], str] = {}
    older: dict[str, str] = {}
    for resource in sorted(resources, key=lambda r: present[r.namespace, r.name] != r.uid):
        key = (resource.namespace, resource.claims.kind.kind, resource.claims.target_name)
        if key in oldest:
            older[resource.uid] = oldest[key]
        elif resource.claims.target_name:
            oldest[key] = resource.name
    return older


def _rival(resource: ResourceSnapshot, older: str) -> str:
    """Name the first that has a better claim on the replicas; empty: none has. `older`: whose claim is older."""
    claims, is_advice = resource.claims, resource.policy.mode is ScalingMode.ADVISORY
    kind = claims.kind
    if older:
        return f"InferenceDeployment {older} scales {kind.kind} {claims.target_name} already; delete one"
    if is_advice and not claims.is_rendered:
        # Advice writes nothing to a target that it only refers to: its owner or autoscaler is no rival.
        return ""
    owner = claims.owner
    if owner is not None and not _may_control(resource, owner):
        if owner.kind in claims.scalable:
            return f"owned by {owner.kind} {owner.name}; point targetRef at it"
        return (
            f"owned by {owner.kind} {owner.name}, which is not scaled here; point targetRef at it where scale.kinds of "
            f"the chart allows it, or use scaling.mode: Advisory with the {owner.kind}'s own autoscaler"
        )
    if claims.barred:
        return claims.barred
    if claims.autoscaler and not is_advice:
        return (
            f"HorizontalPodAutoscaler {claims.autoscaler} scales this target; delete it or set scaling.mode: Advisory"
        )
    return ""


def _may_control(resource: ResourceSnapshot, owner: Owner) -> bool:
    """Tell whether the controller of a target leaves its replicas to us."""
    claims = resource.claims
    return (claims.is_rendered and owner.uid == resource.uid) or owner.kind in claims.kind.controllers
