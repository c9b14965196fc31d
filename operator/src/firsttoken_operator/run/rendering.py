"""Renders the resources with `spec.runtime` that are admitted at a tick, and remembers what was rendered.

Objects are applied when what they should look like changed, when the Deployment is missing, and once after a start; and
what is no longer as it was applied (a list of their metadata at each tick tells), or can only be made now, is put back.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from firsttoken_operator.act.errors import ClusterError
from firsttoken_operator.act.manifests import manifests, revision_of
from firsttoken_operator.act.pods import GPUS_PER_SERVER, Rendering
from firsttoken_operator.act.render import FAILURES, Renderer, RenderResult, States
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.decide import Admission, Waiting, admit, may_roll
from firsttoken_operator.domain import (
    POOL_LIMITS,
    Decision,
    FailedWrite,
    FleetSnapshot,
    Reason,
    ResourceSnapshot,
    Target,
    TargetMissing,
)
from firsttoken_operator.observe.store import Store
from firsttoken_sizing.catalog import resolve_gpu
from firsttoken_sizing.errors import InvalidInput

logger = logging.getLogger(__name__)

LASTING = (*FAILURES, Reason.INVALID_SPEC)
"""Outcomes that are told once, for as long as they last."""
RENDERINGS_A_TICK = 30
"""Renderings at most: a leader that takes over renders everything anew, and the tick waits for it."""
STATES_SECONDS = 5.0
"""Time that the lists of what is rendered may take, for which the tick waits, too."""


@dataclass(frozen=True, slots=True)
class _Applied:
    wanted: str
    states: States
    may_roll: bool = False
    """Pods might have been replaced; what waits all the same waits for something else."""

    def is_as_found(self, now: States) -> bool:
        """Tell whether the objects, as far as they are known now, are as they were."""
        return all(self.states.get(ref) == state for ref, state in now.items())


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Wanted form of an admitted resource: its rendering, and the manifests as one text."""

    admitted: Admission
    rendering: Rendering
    text: str
    may_roll: bool

    @property
    def uid(self) -> str:
        return self.admitted.resource.uid


@dataclass(frozen=True, slots=True)
class _Due:
    wanted: _Wanted
    is_known: bool


class Rendered:
    """Objects that this process has rendered, by uid of the resource.

    `spans_servers`: replicas may take several servers, as groups of a LeaderWorkerSet. `pre_pulls`: images may be kept
    on nodes.
    """

    def __init__(
        self,
        renderer: Renderer,
        *,
        monitor_labels: Mapping[str, str],
        scrape_interval_seconds: float,
        spans_servers: bool = False,
        pre_pulls: bool = False,
    ) -> None:
        self._renderer = renderer
        self._spans_servers = spans_servers
        self._pre_pulls = pre_pulls
        self._monitor_labels = dict(monitor_labels)
        self._scrape_interval_seconds = scrape_interval_seconds
        self._applied: dict[str, _Applied] = {}
        self._held: dict[str, _Applied] = {}
        """Renderings whose rollout waits, with the objects as they are meanwhile."""
        self._problems: dict[str, RenderResult] = {}
        self._tried: dict[str, int] = {}
        """Tick of the last attempt."""
        self._made_gpus: dict[str, int] = {}
        """GPUs of workloads that the watch does not show yet."""
        self._tick = 0

    def explain(self, resource: ResourceSnapshot) -> ResourceSnapshot:
        """The resource, with the reason why its Deployment is not there or not up to date where rendering met one."""
        problem, target = self._problems.get(resource.uid), resource.target
        if isinstance(target, TargetMissing):
            target = replace(target, made_gpus=self._made_gpus.get(resource.uid, 0))
            if problem is not None:
                target = replace(target, reason=problem.reason, message=problem.message)
            return replace(resource, target=target)
        self._made_gpus.pop(resource.uid, None)
        if problem is not None and problem.reason is Reason.ROLLOUT_PENDING:
            return replace(resource, pending_rollout=problem.message)
        if resource.uid in self._applied:
            resource = replace(resource, pending_rollout="")
        if problem is None:
            return resource
        if problem.reason in LASTING or problem.reason in POOL_LIMITS:
            return replace(resource, unrendered=FailedWrite(problem.reason, problem.message))
        return resource

    async def reconcile(
        self, snapshot: FleetSnapshot, store: Store, decisions: Iterable[Decision]
    ) -> dict[str, RenderResult]:
        """Render what is due and admitted; what is new of it by uid. A failure that goes on is no news."""
        due: list[_Wanted] = []
        results: dict[str, RenderResult] = {}
        for admitted in admit(snapshot, decisions):
            stored = store.resources.get(admitted.resource.uid)
            if stored is None or stored.parsed is None:
                continue  # Deleted, or made unreadable, since the snapshot was taken.
            uid = admitted.resource.uid
            if isinstance(admitted, Waiting):
                if admitted.is_news:
                    results[uid] = RenderResult(admitted.reason, admitted.message)
                continue
            try:
                due.append(self._wanted(admitted, stored.parsed, snapshot, store))
            except InvalidInput as error:
                results[uid] = RenderResult(Reason.INVALID_SPEC, str(error))
        for wanted, result in zip(due, await self._reconcile_all(due), strict=True):
            admitted = wanted.admitted
            if admitted.is_new and result is not None and result.created:
                gpus = admitted.replicas * admitted.sized.configuration.gpus_per_replica
                self._made_gpus[admitted.resource.uid] = gpus
            if result is None:
                self._problems.pop(admitted.resource.uid, None)
            else:
                results[admitted.resource.uid] = result
        news: dict[str, RenderResult] = {}
        for uid, result in results.items():
            before = self._problems.pop(uid, None)
            if result.reason is not Reason.RENDERED:
                self._problems[uid] = result
            if result.reason is Reason.ROLLOUT_PENDING:
                continue  # The condition tells of it, once.
            if before is None or before.reason is not result.reason or result.reason not in LASTING:
                news[uid] = result
        for known in (self._applied, self._held, self._problems, self._tried, self._made_gpus):
            for uid in known.keys() - store.resources.keys():
                known.pop(uid)
        return news

    def _wanted(
        self, admitted: Admission, parsed: InferenceDeployment, snapshot: FleetSnapshot, store: Store
    ) -> _Wanted:
        """Work out the manifests. Raises `InvalidInput` for what the server cannot run."""
        configuration, pool = admitted.sized.configuration, snapshot.pools.get(admitted.resource.pool or "")
        runtime, target = parsed.spec.runtime, admitted.resource.target
        known = (p.parsed for p in store.pools.values() if p.parsed is not None and p.name == admitted.resource.pool)
        declared = next(known, None)
        rendering = Rendering(
            parsed,
            configuration,
            (runtime.node_selector if runtime else {}) or (pool.node_selector if pool else {}),
            self._monitor_labels,
            self._scrape_interval_seconds,
            gpu_products=resolve_gpu(configuration.gpu).node_labels,
            p99_start_seconds=target.p99_start_seconds if isinstance(target, Target) else None,
            gpus_per_server=declared.spec.gpus_per_server if declared else GPUS_PER_SERVER,
            pool_tolerations=declared.spec.tolerations if declared else (),
            spans_servers=self._spans_servers,
            pool_selector=pool.node_selector if pool else {},
            pre_pulls=self._pre_pulls,
        )
        made = manifests(rendering)
        released = may_roll(admitted.resource, revision_of(made[-1]))
        return _Wanted(admitted, rendering, json.dumps(made, sort_keys=True), released)

    async def _reconcile_all(self, due: list[_Wanted]) -> list[RenderResult | None]:
        known = [wanted.rendering for wanted in due if wanted.uid in self._applied or wanted.uid in self._held]
        states: Mapping[str, States] = {}
        try:
            async with asyncio.timeout(STATES_SECONDS):
                states = await self._renderer.states(known) if known else {}
        except (ClusterError, TimeoutError) as error:
            logger.warning("cannot list the rendered objects: %r", error)
        waiting = [one for wanted in due if (one := self._due(wanted, states.get(wanted.uid, {})))]
        # Those first that were tried longest ago: one that fails at each tick keeps none of the others from a turn.
        waiting.sort(key=lambda one: self._tried.get(one.wanted.uid, 0))
        now = waiting[:RENDERINGS_A_TICK]
        self._tick += 1
        self._tried |= {one.wanted.uid: self._tick for one in now}
        rendered = await asyncio.gather(*(self._render(one) for one in now))
        found = {uid: self._problems.get(uid) for uid in (*self._held, *(one.wanted.uid for one in waiting))}
        found |= {one.wanted.uid: result for one, result in zip(now, rendered, strict=True)}
        return [found.get(wanted.uid) for wanted in due]

    def _due(self, wanted: _Wanted, now: States) -> _Due | None:
        """Work out what is to be rendered. `now`: the objects as they are, as far as that is known."""
        held = self._held.get(wanted.uid)
        if held is not None:
            # Asked again once it is released, or anything is not as it was found.
            is_released = wanted.may_roll and not held.may_roll
            is_same = held.wanted == wanted.text and held.is_as_found(now) and not is_released
            return None if is_same and not wanted.admitted.is_new else _Due(wanted, is_known=False)
        before = self._applied.get(wanted.uid)
        is_known = before is not None and before.wanted == wanted.text and not wanted.admitted.is_new
        if before is not None and is_known and before.is_as_found(now):
            return None
        return _Due(wanted, is_known)

    async def _render(self, due: _Due) -> RenderResult | None:
        """Render, and tell what became of it; None: all is as it should be."""
        wanted = due.wanted
        result = await self._renderer.render(
            wanted.rendering, wanted.admitted.replicas, is_known=due.is_known, may_roll=wanted.may_roll
        )
        if result is None:
            return self._problems.get(wanted.uid)  # Not tried: what was true stays so.
        self._held.pop(wanted.uid, None)
        if result.reason is Reason.ROLLOUT_PENDING:
            self._held[wanted.uid] = _Applied(wanted.text, result.states, wanted.may_roll)
        if result.reason is not Reason.RENDERED:
            return result
        self._applied[wanted.uid] = _Applied(wanted.text, result.states)
        if not result.written:
            return None
        logger.info("rendered %s: %s", wanted.rendering.resource.key, result.message)
        return result
