"""Fleet snapshot, frozen: everything that one tick sees. `observe` makes it and `decide` reads it.

Times are seconds of one monotonic clock; durations in a policy are already divided by the time scale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from firsttoken_operator.domain.ending import Ending
from firsttoken_operator.domain.gpu_pools import PoolSnapshot
from firsttoken_operator.domain.metrics import Metrics
from firsttoken_operator.domain.pods import Hindrances
from firsttoken_operator.domain.reasons import Reason
from firsttoken_operator.domain.rollout import RolloutTerms
from firsttoken_operator.domain.target_kinds import DEPLOYMENT, TargetKind
from firsttoken_operator.domain.times import UNKNOWN_TIME_TO_READY_SECONDS, UNKNOWN_TIME_TO_WAKE_SECONDS
from firsttoken_operator.runtimes.settings import SizedSettings, Started
from firsttoken_sizing.performance.table import CapacityTable
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import Sla


class ScalingMode(StrEnum):
    """Mode of a resource: whether decisions are written."""

    ACTIVE = "Active"
    ADVISORY = "Advisory"
    PAUSED = "Paused"


class ScaleDown(StrEnum):
    """Rule of when GPUs are given back."""

    ALWAYS = "Always"
    WHEN_POOL_SHORT = "WhenPoolShort"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """`spec.scaling` with its defaults resolved (`scale_down` by the pool's location) and its times scaled."""

    mode: ScalingMode
    min_replicas: int
    max_replicas: int | None
    burst_headroom_percent: int
    scale_down: ScaleDown
    stabilization_seconds: float
    scale_down_step_percent: int
    backlog_drain_seconds: float
    metrics_loss_grace_seconds: float
    standby: int = 0
    """Replicas kept started and asleep beside those that answer, while some do."""


@dataclass(frozen=True, slots=True)
class Sized:
    """Sizing of one resource as decisions read it: made on change only, read at every tick."""

    configuration: ConfigurationKey
    table: CapacityTable
    sla: Sla
    replicas_for_declared_peak: int
    replicas_for_declared_average: int | None
    most_replicas_for_declared_peak: int = 0
    """Replicas where one carries `careful_share`; 0: nothing is known of it."""
    careful_share: float = 1.0
    """Least that a start prepares for, as a share of what a replica was sized for; 1 where the band is not wide."""
    peak_requests_per_second: float | None = None
    """The declared peak; None: not known."""
    settings: SizedSettings | None = None
    """Settings of the engine that it holds for; None: not known."""


@dataclass(frozen=True, slots=True)
class Unsized:
    """No sizing to decide by, and why: nothing is scaled."""

    reason: Reason
    message: str
    withheld: Sized | None = None
    """One that was made and does not fit the pods that run."""


@dataclass(frozen=True, slots=True)
class Opening:
    """One time for which a schedule declares a peak, seconds since the epoch."""

    opens_seconds: float
    closes_seconds: float
    requests_per_second: float


@dataclass(frozen=True, slots=True)
class Target:
    """The scaled object and the pods in its live owner chain.

    `replicas` is `spec.replicas` of the target, less those on standby: what answers, or is to. Pods: `ready`,
    `starting` (created, or told to wake up, and not yet answering) and `stuck` (for too long, as `decide` judges) add
    up to the live ones that are not on standby; `terminating` still hold their GPUs, and `draining` of them may still
    answer: their grace period is not over.
    `unschedulable`, `failing` (image pull, crash loop) and `unplaced` (no node has them yet) are parts of
    `starting + stuck`.
    """

    uid: str
    kind: TargetKind
    name: str
    replicas: int
    ready: int
    starting: int = 0
    stuck: int = 0
    terminating: int = 0
    draining: int = 0
    unschedulable: int = 0
    failing: int = 0
    unplaced: int = 0
    rollout: bool = False
    gpus_per_replica: int = 1
    occupied_gpus: int | None = None
    """GPUs of its pods, ending ones included; a live pod counts as the template says where that is more, since one with
    as many is to take its place. None: not told, each pod has those of the template."""
    written: int = 0
    """Replicas that we wrote and the watch does not show yet; 0: there is no such write."""
    taken: int = 0
    """Replicas that another writer took away since the last tick."""
    refused: str = ""
    """Refusal of the API server to make a further pod (a quota, a policy), in its words; empty: it makes them."""
    waits_seconds: tuple[float, ...] = ()
    """Seconds that each pod which is not Ready has been starting for, by the clock of the API server."""
    lost_seconds: tuple[float, ...] = ()
    """Seconds since each pod that was Ready and is not any more has lost it, by the same clock."""
    p99_start_seconds: float | None = None
    """99th percentile of its own starts; None: none was seen yet."""
    startup_timeout_seconds: float | None = None
    """Time that a replica may take before the kubelet restarts it; None: it is not declared."""
    ending: Ending | None = None
    """Times of a pod that ends; None: they are not known."""
    resource_version: str = ""
    """Version of the object that this is; empty: not known."""
    started: Started | None = None
    """Settings that its pods are started with; None: they cannot be read."""
    hindrances: Hindrances = field(default_factory=Hindrances)
    standby: int = 0
    """Live pods that are kept from traffic, to sleep: they hold what others of their template do."""
    asleep: int = 0
    """Those of them that are known to sleep, and may be woken; one of which nothing is known is none of them."""

    @property
    def held(self) -> int:
        """Replicas that there are, that were asked for, or that our last write asks for, whichever is most."""
        return max(self.asked, self.pods)

    @property
    def pods(self) -> int:
        """Live pods."""
        return self.ready + self.starting + self.stuck

    @property
    def asked(self) -> int:
        """Replicas that were asked for, by whomever, or that our last write asks for."""
        return max(self.replicas, self.written)

    @property
    def leaving(self) -> int:
        """Live pods that are not asked for any more: some of them may be ending already, as the watch will show.

        During a rollout they are those that surge.
        """
        return 0 if self.rollout else max(0, self.pods - self.asked)

    @property
    def unmade(self) -> int:
        """Replicas whose pods are refused."""
        return max(0, self.replicas - self.pods) if self.refused else 0


@dataclass(frozen=True, slots=True)
class TargetMissing:
    """Absence of anything to scale, and why.

    `made_gpus`: GPUs of a Deployment that we made and the watch does not show yet.
    """

    reason: Reason
    message: str
    made_gpus: int = 0


@dataclass(frozen=True, slots=True)
class FailedWrite:
    """A write that was denied, failed, or waits for GPUs, and what was said to it."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims on the replicas of a target: facts, of which `decide` judges whose they are.

    `target_name`: what the resource names, whether or not it is there; empty: its spec is not readable, or the kind is
    not one that is scaled.
    `is_rendered`: it is to be made from `spec.runtime`. `owner`: its controller. `autoscaler`: the
    HorizontalPodAutoscaler on it; empty: there is none.
    """

    target_name: str = ""
    is_rendered: bool = False
    owner: Owner | None = None
    autoscaler: str = ""
    writer: str = ""
    """Field manager that wrote the replicas last, beside us; empty: there is none, or it is not known."""
    kind: TargetKind = DEPLOYMENT
    """Kind of the target."""
    barred: str = ""
    """Reason that its replicas are not ours to write, as the target says itself; empty: there is none."""
    scalable: frozenset[str] = frozenset({DEPLOYMENT.kind})
    """Kinds that are scaled in this cluster."""


@dataclass(frozen=True, slots=True)
class ResourceSnapshot:
    """One InferenceDeployment at one tick."""

    uid: str
    namespace: str
    name: str
    generation: int
    policy: ScalingPolicy
    sized: Sized | Unsized
    target: Target | TargetMissing
    metrics: Metrics
    pool: str | None = None
    in_default_pool: bool = False
    """True where it names no pool, and `pool` is the default one of its tenant, or was when that could be read last."""
    hosts: frozenset[str] = frozenset()
    """Pools on whose nodes its pods run; of one that names none, before any has a node, that on whose they would."""
    may_stray_to: frozenset[str] = frozenset()
    """Other pools than the one that it names, on whose nodes its pods may come to run: none of them has a node yet."""
    guest_of: str | None = None
    """Pool whose free GPUs its growth takes where it names none: judged of the hosts."""
    priority: int = 0
    created: str = ""
    claims: Claims = field(default_factory=Claims)
    is_shaken: bool = False
    """True where a large part of its pods, or of the nodes of its pool, was lost at once: judged of both."""
    conflict: str = ""
    """Other owner of the replicas, as judged of the claims and of foreign writes. Empty: none."""
    time_to_ready_seconds: float = UNKNOWN_TIME_TO_READY_SECONDS
    """90th percentile of this target's own starts, of the kind that the next one will most likely be (a new node, a new
    image, or warm), or what stands in for it where none was seen."""
    time_to_wake_seconds: float = UNKNOWN_TIME_TO_WAKE_SECONDS
    """90th percentile of the wake-ups of its own pods, or what stands in for it where none was seen."""
    scheduled_requests_per_second: float | None = None
    """Largest peak that the declared schedule has from now until a new pod would be ready; None: no window is open."""
    has_schedule: bool = False
    """True where windows are declared at all."""
    openings: tuple[Opening, ...] = ()
    """Those of the next seven days, by when they open."""
    sized_generation: int | None = None
    """Generation of the spec that `sized` is about, where what it depends on has changed since; None: this one."""
    unrendered: FailedWrite | None = None
    """Failure because of which the Deployment that runs is not what `spec.runtime` says."""
    rollout: RolloutTerms = field(default_factory=RolloutTerms)
    pending_rollout: str | None = None
    """Change of the pods that is not released yet, in words; empty: there is none; None: not known, not rendered."""

    @property
    def next_replica_seconds(self) -> float:
        """Time until one more replica answers: a pod that sleeps is woken first."""
        target = self.target
        wakes = isinstance(target, Target) and target.asleep
        return min(self.time_to_wake_seconds, self.time_to_ready_seconds) if wakes else self.time_to_ready_seconds

    @property
    def strays(self) -> frozenset[str]:
        """Other pools than the one that it names, on whose nodes its pods run."""
        return frozenset() if self.pool is None else self.hosts - {self.pool}


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """Everything that one tick decides on."""

    now_seconds: float
    tick_seconds: float
    resources: tuple[ResourceSnapshot, ...]
    pools: dict[str, PoolSnapshot] = field(default_factory=dict)
    epoch_seconds: float | None = None
    """Wall clock, for hours and days of the week only; None: they are not known."""
    scale_down_limit_window_seconds: float = 600.0
    """Window of the rate limit that resources without a pool share."""
