"""Who owns a target's replicas: pure bookkeeping that tells our own writes from anybody else's.

One owner at a time. A single foreign write (`kubectl scale`) is adopted: the next decision starts from it. Two within
ten minutes, or an autoscaler on the same target, are a conflict: nothing is written until it has been quiet for a
stabilization window. The clock is an argument and the state is a value; nothing here reads or writes anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FOREIGN_WRITES_FOR_CONFLICT = 2
UNSEEN_SECONDS = 90.0
"""For so long after our own write the watch may still show the replicas from before it: a watch whose connection is
half open delivers nothing until it times out. Not divided by the time scale."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """What is known about one target. Empty: nothing yet, so whatever is there is adopted without a word."""

    target_uid: str = ""
    replicas: int | None = None
    """The replicas that are accounted for."""
    written: int | None = None
    """The replicas of our last write, while the watch has not shown them."""
    written_seconds: float = 0.0
    confirmed: bool = False
    """Whether the server said that it took them. Otherwise they may come or not: both are our own doing."""
    foreign_seconds: tuple[float, ...] = ()
    """When the last foreign writes were noticed, as many as make a conflict."""
    conflict: str = ""


@dataclass(frozen=True, slots=True)
class ForeignWrite:
    """Somebody else changed the replicas."""

    from_replicas: int
    to_replicas: int


@dataclass(frozen=True, slots=True)
class Windows:
    """Both in seconds, already divided by the time scale."""

    foreign_seconds: float
    quiet_seconds: float


def observe(
    state: Ownership, target_uid: str, replicas: int, rival: str, now_seconds: float, windows: Windows
) -> tuple[Ownership, ForeignWrite | None]:
    """Take note of the replicas that the watch shows at a tick.

    `rival` says who else has a claim on the target, such as an HPA (empty: nobody). Returns the new state, whose
    `conflict` is empty when writing is allowed, and the foreign write where there was one.
    """
    if state.target_uid != target_uid:
        state = Ownership(target_uid=target_uid, replicas=replicas)
    state, foreign = _account(state, replicas, now_seconds)
    if foreign is not None:
        kept = state.foreign_seconds[1 - FOREIGN_WRITES_FOR_CONFLICT :]
        state = replace(state, foreign_seconds=(*kept, now_seconds))
    return _judge(state, rival, now_seconds, windows), foreign


def intends(state: Ownership, to_replicas: int, now_seconds: float) -> Ownership:
    """Take note of a write that is about to be sent: it may be applied although its answer is lost."""
    return replace(state, written=to_replicas, written_seconds=now_seconds, confirmed=False)


def wrote(state: Ownership, to_replicas: int, now_seconds: float) -> Ownership:
    """Take note of our own write, so that the watch event that follows is not taken for somebody else's."""
    return replace(state, written=to_replicas, written_seconds=now_seconds, confirmed=True)


def _account(state: Ownership, replicas: int, now_seconds: float) -> tuple[Ownership, ForeignWrite | None]:
    settled = replace(state, replicas=replicas, written=None)
    if state.replicas is None or replicas == state.written:
        return settled, None
    if replicas == state.replicas:
        if state.written is None or now_seconds - state.written_seconds <= UNSEEN_SECONDS:
            return state, None
        if not state.confirmed:
            return settled, None
    taken = state.written if state.written is not None and state.confirmed else state.replicas
    return settled, ForeignWrite(taken, replicas)


def _judge(state: Ownership, rival: str, now_seconds: float, windows: Windows) -> Ownership:
    if rival:
        # Its last possible write is now: the quiet window starts when it is gone.
        return replace(state, foreign_seconds=(now_seconds,), conflict=rival)
    if state.conflict:
        quiet = now_seconds - state.foreign_seconds[-1] >= windows.quiet_seconds
        return replace(state, foreign_seconds=(), conflict="") if quiet else state
    recent = tuple(at for at in state.foreign_seconds if now_seconds - at <= windows.foreign_seconds)
    if len(recent) >= FOREIGN_WRITES_FOR_CONFLICT:
        text = "another writer keeps changing the replicas; stop it or set scaling.mode: Advisory"
        return replace(state, foreign_seconds=recent, conflict=text)
    return replace(state, foreign_seconds=recent)
