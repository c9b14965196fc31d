"""Times that the pods of a Deployment take from being scheduled to being Ready, learned from its own pods.

Two readers. *Deadline*: how long a starting pod is credited as capacity; `decide` judges it by the slowest start.
*Horizon*: how long the next pod will most likely take; starts on a new node, with an image to pull, and with everything
in place are kept apart. After a restart both are learned again from the pods that exist.

Not known from the API: the runtime's cache of weights (a warm start that downloads its model is a slow warm start), and
a node that was new when the pod came and is gone when it is asked for (such a start counts by its image alone).
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from firsttoken_operator.observe.config import DEFAULT, StartsConfig
from firsttoken_operator.observe.node_waits import NodeWait
from firsttoken_operator.observe.nodes import NodeView
from firsttoken_operator.observe.projections import PodView


class StartKind(StrEnum):
    """Kind of a start: what had to be made ready first."""

    COLD_NODE = "ColdNode"
    """The node was made, or came up, after the pod was."""
    COLD_IMAGE = "ColdImage"
    """The node was there, the image was not."""
    WARM = "Warm"
    UNKNOWN = "Unknown"
    """The pod does not say when its containers began."""


@dataclass(frozen=True, slots=True)
class TimeToReady:
    """Percentiles in seconds of `pods` starts, by nearest rank."""

    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    pods: int


@dataclass(frozen=True, slots=True)
class Starts:
    """Knowledge of the starts of one Deployment.

    `overall` counts from scheduled to Ready. So does `by_kind`, except that a cold node's start begins when the pod was
    created: the pod waited for the node, and so will the next one.
    """

    overall: TimeToReady
    by_kind: Mapping[StartKind, TimeToReady]
    last: frozenset[StartKind]
    """Kinds among the last ones, which the next one will be of."""
    after_pull: TimeToReady | None = None
    """Starts that pulled their image, without the pull; None: there are none."""

    def next_p90_seconds(self, *, image_is_there: bool = False) -> float:
        """Time that nine of ten starts of the slowest of the last kinds need at most, seconds.

        `image_is_there`: on every node that the next one may come to. It takes as long then as warm ones did, or where
        there was none as those that pulled, without the pull.
        """
        return max(self._p90_seconds(kind, image_is_there=image_is_there) for kind in self.last)

    def _p90_seconds(self, kind: StartKind, *, image_is_there: bool) -> float:
        if image_is_there and kind is StartKind.COLD_IMAGE:
            warm = self.by_kind.get(StartKind.WARM) or self.after_pull
            assert warm is not None, "starts that pulled are there without their pulls, too"
            return warm.p90_seconds
        return self.by_kind[kind].p90_seconds


@dataclass(frozen=True, slots=True)
class _Start:
    ready_seconds: float
    """Since the epoch."""
    took_seconds: float
    """Scheduled -> Ready."""
    kind: StartKind
    asked_seconds: float
    """Wait of the controller that asked for the pod."""
    pulling_seconds: float = 0.0


NodeNamed = Callable[[str], NodeView | None]


class ReadinessHistory:
    """The last starts of each Deployment. `waited` is told of each node that a pod with GPUs waited for."""

    def __init__(self, waited: Callable[[NodeWait], None], config: StartsConfig = DEFAULT.starts) -> None:
        self._config = config
        self._starts: dict[str, deque[_Start]] = defaultdict(lambda: deque(maxlen=config.kept))
        self._unjudged: dict[str, list[PodView]] = defaultdict(list)
        self._known: dict[str, Starts] = {}
        self._waited = waited
        self._learned: dict[str, set[str]] = defaultdict(set)
        """Uids of the targets that have taken a pod into account, by that of the pod."""

    def learn(self, deployment_uid: str, pod: PodView) -> None:
        """Take a pod into account once, when it is first seen Ready."""
        # NB: after a restart of a container, or once a probe failed, the transition time is that of the last recovery.
        if pod.ready_seconds is None or pod.restarts or deployment_uid in self._learned.get(pod.uid, ()):
            return
        self._learned[pod.uid].add(deployment_uid)
        if _took_seconds(pod) <= self._config.longest_seconds:
            # NB: its node may not have been told yet. It is looked up when it is asked for, once the caches are filled.
            waiting = self._unjudged[deployment_uid]
            waiting.append(pod)
            del waiting[: -self._config.kept]

    def forget_pod(self, pod_uid: str) -> None:
        """A pod is gone; its start stays."""
        self._learned.pop(pod_uid, None)

    def forget_deployment(self, deployment_uid: str) -> None:
        """A Deployment is gone."""
        for kept in (self._starts, self._unjudged, self._known):
            kept.pop(deployment_uid, None)

    def of(self, deployment_uid: str, node_named: NodeNamed) -> Starts | None:
        """Sum up what is known of one Deployment; None: none of its pods was seen to start."""
        waiting = self._unjudged.pop(deployment_uid, None)
        if waiting:
            starts = self._starts[deployment_uid]
            for pod in waiting:
                node = node_named(pod.node)
                start = _start(pod, node, self._config)
                starts.append(start)
                if node is not None and start.kind is StartKind.COLD_NODE and pod.gpus:
                    self._waited(NodeWait(node, pod.namespace, start.asked_seconds - start.took_seconds))
            self._known[deployment_uid] = _summary(starts, self._config.foretelling)
        return self._known.get(deployment_uid)


def kind_of(pod: PodView, node: NodeView | None, pull_seconds: float) -> StartKind:
    """Tell what had to be made ready for this pod; `node`: the one it runs on, None where it is not known any more.

    `pull_seconds`: see `StartsConfig`.
    """
    if node is not None and _came_for(pod, node):
        return StartKind.COLD_NODE
    if pod.pulling_seconds is None:
        return StartKind.UNKNOWN
    return StartKind.COLD_IMAGE if pod.pulling_seconds > pull_seconds else StartKind.WARM


def _came_for(pod: PodView, node: NodeView) -> bool:
    """Tell whether the node was registered, or became ready, between the pod's creation and its scheduling.

    A node that became ready later lost its readiness in between; one that did so earlier was there already.
    """
    if pod.scheduled_seconds is None:
        return False
    came = (node.created_seconds, node.ready_seconds)
    return any(at is not None and pod.created_seconds < at <= pod.scheduled_seconds for at in came)


def _took_seconds(pod: PodView) -> float:
    assert pod.ready_seconds is not None, "only pods that became Ready are samples"
    began = pod.created_seconds if pod.scheduled_seconds is None else pod.scheduled_seconds
    return max(0.0, pod.ready_seconds - began)


def _start(pod: PodView, node: NodeView | None, config: StartsConfig) -> _Start:
    assert pod.ready_seconds is not None, "only pods that became Ready are samples"
    kind, took = kind_of(pod, node, config.pull_seconds), _took_seconds(pod)
    since_created = pod.ready_seconds - pod.created_seconds
    # A pod that waited for more than an hour waited for room, one with gates for others: neither tells of nodes.
    waited = kind is StartKind.COLD_NODE and took <= since_created <= config.longest_seconds and not pod.was_gated
    return _Start(pod.ready_seconds, took, kind, since_created if waited else took, pod.pulling_seconds or 0.0)


def _summary(starts: Sequence[_Start], foretelling: int) -> Starts:
    by_kind = {
        kind: percentiles(start.asked_seconds for start in starts if start.kind is kind)
        for kind in sorted({start.kind for start in starts})
    }
    last = frozenset(start.kind for start in sorted(starts, key=lambda start: start.ready_seconds)[-foretelling:])
    pulled = [start for start in starts if start.kind is StartKind.COLD_IMAGE]
    after_pull = (
        percentiles(max(0.0, start.took_seconds - start.pulling_seconds) for start in pulled) if pulled else None
    )
    return Starts(percentiles(start.took_seconds for start in starts), MappingProxyType(by_kind), last, after_pull)


def percentiles(seconds: Iterable[float]) -> TimeToReady:
    """Compute the percentiles of the seconds that starts took: at least one."""
    ordered = sorted(seconds)
    return TimeToReady(
        _nearest_rank(ordered, 0.5), _nearest_rank(ordered, 0.9), _nearest_rank(ordered, 0.99), len(ordered)
    )


def _nearest_rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
