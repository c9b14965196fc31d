"""The conditions of an InferenceDeployment as they are written. Pure; what they say is judged by `decide`.

A condition changes its transition time only with its status, and its message only when the words change: a number that
moves inside a sentence (an age, a count of pods) is no reason to write to the API server every tick.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache

from firsttoken_operator.api.conditions import Condition, ConditionStatus
from firsttoken_operator.decide import ABOUT_SIZING, judge
from firsttoken_operator.domain import ConditionType, Decision, FailedWrite, Judgement, Reason, ResourceSnapshot, Target

_LONGEST_MESSAGE = 1024
_NUMBERS_ARE_NEWS = (ConditionType.SIZING_READY, ConditionType.SETTINGS_MATCH)
_PLACES = {kind.value: place for place, kind in enumerate(ConditionType)}
_NUMBER = re.compile(r"\d+(\.\d+)?")


def timestamp(at: datetime) -> str:
    """RFC 3339 in UTC, whole seconds, as Kubernetes writes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def instant(text: str | None) -> datetime | None:
    """A time that was written before; None where it was edited into something else."""
    try:
        at = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return at if at is not None and at.tzinfo is not None else None


def printable(text: str) -> str:
    """One line without control characters: part of the text may be what a tenant or a server wrote."""
    # NB: nearly every text is, and is made for every condition at every tick.
    line = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    return line[:_LONGEST_MESSAGE]


def conditions(
    previous: Iterable[Condition],
    resource: ResourceSnapshot,
    decision: Decision,
    unscaled: FailedWrite | None,
    now: datetime,
    kept: frozenset[ConditionType] = frozenset(),
) -> tuple[Condition, ...]:
    """All conditions, `Ready` first; `previous` keeps the times and messages of what did not change, and all `kept`."""
    before = {condition.type: condition for condition in previous}
    newest, sized = resource.generation, resource.sized_generation
    judged = tuple(
        before[j.kind]
        if j.kind in kept and j.kind in before
        else condition(before.get(j.kind), j, newest if sized is None or j.kind not in ABOUT_SIZING else sized, now)
        for j in judge(resource, decision, unscaled)
    )
    told = {condition.type for condition in judged}
    if not (kept_on := [before[kind] for kind in _as_it_was(resource) if kind in before and kind not in told]):
        return judged
    # In one order, whatever is known by now: another order would be another status, and a write that tells nothing.
    return tuple(sorted((*judged, *kept_on), key=lambda each: _PLACES[each.type]))


def _as_it_was(resource: ResourceSnapshot) -> Iterator[ConditionType]:
    """Conditions that say what they said: not known yet, after a restart, or of pods that are being replaced."""
    if resource.claims.is_rendered and resource.pending_rollout is None:
        yield ConditionType.ROLLOUT_PENDING
    if isinstance(resource.target, Target) and resource.target.rollout:
        yield ConditionType.SETTINGS_MATCH


def undecided(
    previous: Iterable[Condition], judgement: Judgement, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The conditions of a resource on which the decision failed: the one that says so, the others as last known."""
    before = {condition.type: condition for condition in previous}
    ready = condition(before.pop(judgement.kind.value, None), judgement, generation, now)
    return (ready, *before.values())


def condition(before: Condition | None, judgement: Judgement, generation: int, now: datetime) -> Condition:
    """One condition; `before` keeps its time while the status is the same, its message while the words are.

    NB: of another generation, of a size, of a setting or of what a spec has wrong, a number is news: none of them moves
    by itself, and what is wrong may have been told of the spec before.
    """
    holds, message = judgement.holds, printable(judgement.message)
    status = ConditionStatus.UNKNOWN if holds is None else ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    same = before is not None and before.status is status
    if same and before is not None and before.reason == judgement.reason and _words(before.message) == _words(message):
        is_still = judgement.kind in _NUMBERS_ARE_NEWS or judgement.reason is Reason.INVALID_SPEC
        is_news = before.observed_generation != generation or is_still
        message = message if is_news else before.message
        if message == before.message and before.observed_generation == generation:
            return before  # NB: as nearly every one at nearly every tick; making one takes longer than judging it.
    return Condition(
        type=judgement.kind.value,
        status=status,
        reason=judgement.reason.value,
        message=message,
        last_transition_time=before.last_transition_time if same and before is not None else timestamp(now),
        observed_generation=generation,
    )


@lru_cache(maxsize=4096)
def _words(message: str) -> str:
    return _NUMBER.sub("#", message)
