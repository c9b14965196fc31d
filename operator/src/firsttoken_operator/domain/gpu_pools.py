"""GPUPools as one tick sees them: budget, servers, tenants, and what others take of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Exclusion(StrEnum):
    """Cause for which the GPUs of a node are none that a pod of the pool could get."""

    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    TAINTED = "Tainted"
    SHARED = "Shared"
    """Time slicing or MPS: several pods on one GPU, whose latencies depend on each other."""
    PARTITIONED = "Partitioned"
    """MIG: what counts as a GPU is a part of one."""
    OTHER_GPU = "OtherGPU"
    OTHER_POOL = "OtherPool"
    """The node is in another pool as well, and counts there."""
    NOT_REPORTED = "NotReported"
    """Neither a device plugin nor a driver tells of GPUs."""
    UNLABELLED = "Unlabelled"
    """No label says of which type its GPUs are, and no pool selects it: it may be of any."""

    @property
    def remedy(self) -> str:
        """Words on what makes its GPUs count; empty: nothing has to be done."""
        return _REMEDIES.get(self, "")


_REMEDIES = MappingProxyType(
    {
        Exclusion.CORDONED: "uncordon them",
        Exclusion.TAINTED: "declare the pool's tolerations",
        Exclusion.SHARED: "turn time slicing and MPS off there",
        Exclusion.PARTITIONED: "turn MIG off there",
        Exclusion.OTHER_GPU: "give the pool a nodeSelector without them",
        Exclusion.OTHER_POOL: "give each pool a nodeSelector",
        Exclusion.NOT_REPORTED: "look at their device plugin",
        Exclusion.UNLABELLED: "label them with their GPU, or give the pool a nodeSelector",
    }
)


@dataclass(frozen=True, slots=True)
class Server:
    """One node that takes pods: its GPUs, and those that pods there hold, whosever they are."""

    name: str
    gpus: int
    used_gpus: int = 0

    @property
    def free_gpus(self) -> int:
        """GPUs that a new pod could get."""
        return max(0, self.gpus - self.used_gpus)


@dataclass(frozen=True, slots=True)
class Excluded:
    """Nodes of a pool that do not count, and the GPUs that they report."""

    cause: Exclusion
    nodes: int
    gpus: int

    @property
    def words(self) -> str:
        """Say how many GPUs do not count, why, and what makes them count."""
        remedy = f": {self.cause.remedy}" if self.cause.remedy else ""
        return f"{self.gpus} GPUs on {self.nodes} nodes do not count ({self.cause}{remedy})"


@dataclass(frozen=True, slots=True)
class Tenant:
    """Namespaces that share a part of a pool. None: no limit."""

    name: str
    quota_gpus: int | None = None
    max_priority: int | None = None
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Provisioning:
    """Percentiles of the time that nodes of a pool took, from a pod being made to its having one that came for it.

    Seconds, of the last `pods` such pods.
    """

    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    pods: int


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """One GPUPool at one tick.

    `budget_gpus` is what may be charged: `peakGPUs` where declared, else base + burst, else the inventory of matching
    nodes and what is charged of nodes that do not count; None: unknown, which freezes growth. `is_elastic`: no budget
    is declared and nodes come when pods wait for them: nothing is withheld, and `budget_gpus` is None. `node_selector`:
    labels of its nodes, where declared. `problem`: why its spec cannot be read; empty: it can.
    """

    name: str
    budget_gpus: int | None
    inventory_gpus: int | None
    on_prem: bool
    scale_down_limit_percent: int
    scale_down_limit_window_seconds: float
    charged_elsewhere: Mapping[str, int] = field(default_factory=dict)
    """GPUs in use by pods that no resource of this snapshot owns, by their namespace."""
    is_elastic: bool = False
    warm_gpus: int | None = None
    """GPUs on its nodes that are kept ready for whichever deployment asks first; None: that is not declared."""
    is_provisioned: bool = False
    """True where nodes come when pods wait for them."""
    provisioning: Provisioning | None = None
    """None: no pod was seen to wait for a node that came."""
    newest_node_seconds: float | None = None
    """Seconds since its youngest node registered; None: it has none."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 0
    """Its nodes, ready or not."""
    lost_seconds: tuple[float, ...] = ()
    """Seconds since each node that was ready and is not any more has lost it."""
    uid: str = ""
    generation: int = 0
    problem: str = ""
    gpus_per_server: int = 8
    servers: tuple[Server, ...] | None = None
    """Nodes that take pods; None: not known, or more come when pods wait for them."""
    excluded: tuple[Excluded, ...] = ()
    overlaps: tuple[str, ...] = ()
    """Other pools that have a node of this one."""
    tenants: tuple[Tenant, ...] = ()
    """Those declared; none: each namespace is one."""
    tenant_names: Mapping[str, str] = field(default_factory=dict)
    """Name of the declared tenant by namespace; one that is absent has none."""

    @property
    def charged_elsewhere_gpus(self) -> int:
        """GPUs in use by pods that no resource of this snapshot owns."""
        return sum(self.charged_elsewhere.values())

    def tenant(self, namespace: str) -> Tenant | None:
        """Tenant that a namespace belongs to; None: it may not use the pool."""
        if not self.tenants:
            return Tenant(namespace)
        name = self.tenant_names.get(namespace)
        return next((tenant for tenant in self.tenants if tenant.name == name), None)
