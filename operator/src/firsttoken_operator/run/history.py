"""The past of every resource, read from its Prometheus after the start, so that a restart forgets no season.

In the background, in one thread of its own: no tick ever waits for it. Each resource is asked for once; a source that
fails is asked again an hour later. What was learned is put into the memory of the resource between two ticks.

NB: the past counts requests as they came, the live demand by what they cost. Hours and days are learned as ratios, and
the level follows the live demand from its first sample.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from firsttoken_operator.decide import Memory
from firsttoken_operator.domain import FleetSnapshot, ResourceSnapshot, Target, Timing, lead_seconds
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig, ForecastState, learn
from firsttoken_operator.observe.history_arrivals import DeploymentKey, PastReader
from firsttoken_operator.observe.prometheus import SourceConfig
from firsttoken_operator.observe.session import RequestFailed
from firsttoken_operator.observe.store import Store

logger = logging.getLogger(__name__)

SINCE_SECONDS = 14 * 86400.0
"""Two of every day of the week; also about what a Prometheus keeps by default (15 days)."""
STEP_SECONDS = 600.0
AGAIN_SECONDS = 3600.0
"""A source is asked at most so often, whether it failed or new resources came."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """One resource whose past is wanted, as it was when it was first seen with a target."""

    uid: str
    target_uid: str
    deployment: DeploymentKey
    horizon_seconds: float


@dataclass(slots=True)
class _Source:
    """One Prometheus: who waits for it, and when it may be asked."""

    about: str
    reader: PastReader
    due_seconds: float = 0.0
    waiting: dict[str, _Wish] = field(default_factory=dict)
    reading: asyncio.Future[list[tuple[_Wish, ForecastState]]] | None = None
    """Answer that is awaited; a state without samples: nothing is known of it."""
    problem: str = ""


class Histories:
    """Pasts of all resources. `clock` is monotonic seconds, `wall` seconds since the epoch."""

    def __init__(
        self,
        sources: Mapping[str, SourceConfig],
        timing: Timing,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        config: EstimatorConfig = DEFAULT,
    ) -> None:
        self._config = config
        self._sources = {name: _Source(config.about, PastReader(config), clock()) for name, config in sources.items()}
        self._since_seconds = SINCE_SECONDS / timing.scale
        self._step_seconds = max(STEP_SECONDS / timing.scale, timing.rate_window_seconds)
        self._again_seconds = AGAIN_SECONDS / timing.scale
        self._clock, self._wall = clock, wall
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._asked: set[str] = set()
        self._learned: dict[str, tuple[str, ForecastState]] = {}
        """Pasts by uid of the resource: the uid of its target, and what the target's past was."""

    @property
    def is_reading(self) -> bool:
        """True while a source is being asked, or its answer has not been taken yet."""
        return any(source.reading is not None for source in self._sources.values())

    def close(self) -> None:
        """Abandon what is under way."""
        for source in self._sources.values():
            source.reader.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def seeded(self, memory: Memory, snapshot: FleetSnapshot, store: Store) -> Memory:
        """The memory with what was learned since the last tick; asks for the past of the resources that are new.

        Never waits and never raises for a source. Call it on the event loop.
        """
        for source in self._sources.values():
            self._collect(source)
        resources = {resource.uid: resource for resource in snapshot.resources}
        self._forget(resources)
        seeds = {}
        for resource in snapshot.resources:
            known, target = memory.resources.get(resource.uid), resource.target
            if not isinstance(target, Target):
                continue
            if resource.uid not in self._asked:
                self._ask(resource, target, snapshot.tick_seconds, store)
            # NB: a memory of another target, or of none yet, is made anew by the decision: the past waits for it.
            if known is not None and known.target_uid == target.uid and resource.uid in self._learned:
                about, state = self._learned.pop(resource.uid)
                if about == target.uid:
                    seeds[resource.uid] = replace(known, forecast=state)
        for source in self._sources.values():
            self._start(source)
        return memory.seeded(seeds)

    def _ask(self, resource: ResourceSnapshot, target: Target, tick_seconds: float, store: Store) -> None:
        stored = store.resources.get(resource.uid)
        if stored is None or stored.parsed is None:
            return
        self._asked.add(resource.uid)
        source = self._sources.get(stored.parsed.spec.metrics.source)
        if source is None:
            return  # A source that is not configured is reported with the live metrics.
        source.waiting[resource.uid] = _Wish(
            uid=resource.uid,
            target_uid=target.uid,
            deployment=(resource.namespace, target.name + target.kind.pods_after),
            horizon_seconds=lead_seconds(resource.time_to_ready_seconds, tick_seconds),
        )

    def _start(self, source: _Source) -> None:
        now = self._clock()
        if not source.waiting or source.reading is not None or now < source.due_seconds:
            return
        source.due_seconds = now + self._again_seconds
        wishes = tuple(source.waiting.values())
        wanted = wishes, self._since_seconds, self._step_seconds, self._wall(), self._config
        source.reading = asyncio.get_running_loop().run_in_executor(self._executor, _read, source.reader, *wanted)

    def _collect(self, source: _Source) -> None:
        """Take what a reading that has ended has brought."""
        if source.reading is None or not source.reading.done():
            return
        reading, source.reading = source.reading, None
        try:
            answers = reading.result()
        except RequestFailed as failure:
            if str(failure) != source.problem:
                source.problem = str(failure)
                again = f"asked again in {self._again_seconds:.0f} s"
                logger.warning("no past from %s: %s; %s", source.about, failure, again)
            return
        except Exception:
            logger.exception("learning from the past of %s failed", source.about)
            return
        source.problem = ""
        known = [(wish, state) for wish, state in answers if state.samples and wish.uid in self._asked]
        logger.info("%s knows the past of %d of %d resources", source.about, len(known), len(answers))
        self._learned.update({wish.uid: (wish.target_uid, state) for wish, state in known})
        for wish, _ in answers:
            source.waiting.pop(wish.uid, None)

    def _forget(self, present: Mapping[str, ResourceSnapshot]) -> None:
        """Drop resources that are gone."""
        for uid in self._asked - present.keys():
            self._asked.discard(uid)
            self._learned.pop(uid, None)
            for source in self._sources.values():
                source.waiting.pop(uid, None)


def _read(
    reader: PastReader,
    wishes: tuple[_Wish, ...],
    since_seconds: float,
    step_seconds: float,
    now_seconds: float,
    config: EstimatorConfig,
) -> list[tuple[_Wish, ForecastState]]:
    """Run in the thread: everything that takes long. Raises `RequestFailed`."""
    pasts = reader.read(
        {wish.deployment for wish in wishes}, now_seconds, since_seconds=since_seconds, step_seconds=step_seconds
    )
    found = []
    for wish in wishes:
        past = pasts.get(wish.deployment)
        points = past.points() if past else ()
        found.append((wish, learn(points, wish.horizon_seconds, step_seconds, config.forecast)))
    return found
