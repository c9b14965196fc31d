"""Ledger of one pool in one transaction: what is charged, to whom and on which servers, and what one more would take.

What each member is charged with, `charges` says. Replicas that have no node yet count inside the quota of their tenant
only: what a namespace asks for beyond it, or without a right to the pool, keeps no GPU from the others. Each of them
is counted on the server that it would best fit, the fullest that has room.

NB: a scheduler that spreads pods (Kubernetes' own does) puts a small replica on the emptiest server, where a large one
was to go. So a smaller one waits until the larger ones have their nodes, unless enough servers have room in any case.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

from firsttoken_operator.decide.charges import (
    all_on_counted_nodes,
    coming_gpus,
    each_target_once,
    on_no_node,
    placed_gpus,
    soon_placed,
)
from firsttoken_operator.domain import PoolSnapshot, Reason, ResourceSnapshot
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig

UNBOUNDED_GPUS = sys.maxsize
"""GPUs where nothing bounds them: more than any fleet asks for."""

SHORT = frozenset({Reason.POOL_EXHAUSTED, Reason.POOL_FRAGMENTED})
"""GPUs that the pool lacks, and another of its deployments may give back."""


class Ledger:
    """Free GPUs of one pool, less what this transaction has given.

    `members` are in the pool; `guests` name no pool and run on its nodes, which charge their pods already. `pool` None:
    there is none of that name. `at_rest`: what is given has its node, where it fits best, as once all have started.
    """

    def __init__(
        self,
        pool: PoolSnapshot | None,
        members: Iterable[ResourceSnapshot],
        guests: Iterable[ResourceSnapshot],
        config: EstimatorConfig = DEFAULT,
        *,
        at_rest: bool = False,
    ) -> None:
        self._pool, self._at_rest = pool, at_rest
        self._left, self._held = 0, Counter[str]()
        self._servers: Counter[int] | None = None
        """Number of servers by their free GPUs; None: they do not matter, or are not known."""
        self._unbound = Counter[int]()
        """The same without the replicas that have no node yet."""
        self._pending = Counter[int]()
        """Replicas that will most likely have a node soon, by their GPUs."""
        self._kept_gpus, self._kept = 0, Counter[int]()
        """GPUs, and servers by their free GPUs, of those that are withheld."""
        self.gets_what_is_given_back = False
        """True where all that is charged runs on what the pool counts, so that what ends makes room in it."""
        self.charged_gpus = 0
        """GPUs in use, and those that replicas which wait for a node are to have."""
        self.coming_gpus = 0
        """GPUs that are free as soon as pods are gone which end, or are about to."""
        self.closed: Reason | None = None
        """Reason that nothing can be given; None: the budget is known."""
        if pool is None:
            self.closed = Reason.POOL_NOT_FOUND
            return
        if pool.budget_gpus is None and not pool.is_elastic:
            self.closed = Reason.POOL_INVENTORY_UNKNOWN
        members, guests = each_target_once(members), each_target_once(guests)
        self.coming_gpus = sum(coming_gpus(r.target) for r in members)
        self.charged_gpus = pool.charged_elsewhere_gpus + sum(placed_gpus(r.target) for r in members)
        for namespace, gpus in pool.charged_elsewhere.items():
            self._charge(namespace, gpus)
        for resource in members:
            self._charge(resource.namespace, placed_gpus(resource.target))
        waiting: list[int] = []
        for resource in (*members, *guests):
            replicas = self._inside_quota(resource.namespace, on_no_node(resource))
            self._charge(resource.namespace, sum(replicas))
            self._pending.update(replicas[: soon_placed(resource.target, config)])
            waiting += replicas
        self.charged_gpus += sum(waiting)
        self._left = UNBOUNDED_GPUS if pool.is_elastic else (pool.budget_gpus or 0) - self.charged_gpus
        self.gets_what_is_given_back = self._left >= 0 and all_on_counted_nodes(pool, members)
        if pool.servers is not None:
            self._servers = Counter(server.free_gpus for server in pool.servers)
            self._unbound = Counter(self._servers)
            # NB: the largest first, as packing goes best: a small one fits where a large one has left something.
            for gpus in sorted(waiting, reverse=True):
                self._place(gpus)

    @property
    def counts_servers(self) -> bool:
        """True where a replica has to fit on a server that is there."""
        return self._servers is not None

    @property
    def has_tenants(self) -> bool:
        """True where the administrator declared who shares the pool."""
        return self._pool is not None and bool(self._pool.tenants)

    def room_gpus(self, namespace: str) -> int | None:
        """GPUs that the quota of a namespace leaves; None: it has none."""
        tenant = self._pool.tenant(namespace) if self._pool else None
        if tenant is None:
            return 0
        return None if tenant.quota_gpus is None else max(0, tenant.quota_gpus - self._held[tenant.name])

    def usable_gpus(self, each: int) -> int:
        """GPUs that are free, or kept for what waits, and have a place for a replica of `each`."""
        free = max(0, self._left) + self._kept_gpus
        if self._servers is None or self._pool is None:
            return free
        servers, size = self._servers + self._kept, self._pool.gpus_per_server
        if each > size:
            return min(free, servers[size] * size // each * each)
        return min(free, sum(gpus // each * each * number for gpus, number in servers.items()))

    @property
    def free_gpus(self) -> int:
        """GPUs that a tenant without a quota may still be given; below 0 where more is charged than there is."""
        if self._servers is None:
            return self._left
        return min(self._left, _total(self._servers))

    def tenant_gpus(self, name: str) -> int:
        """GPUs that a tenant holds."""
        return self._held[name]

    def tenant_share(self, namespace: str) -> float:
        """GPUs that the tenant of a namespace holds, by its weight; infinite where it may not use the pool."""
        tenant = self._pool.tenant(namespace) if self._pool else None
        return float("inf") if tenant is None else self._held[tenant.name] / tenant.weight

    def tenant_name(self, namespace: str) -> str:
        """Name of the tenant of a namespace; empty: it has none."""
        tenant = self._pool.tenant(namespace) if self._pool else None
        return "" if tenant is None else tenant.name

    def refusal(self, namespace: str, gpus: int, *, on_one_server: bool = True) -> Reason | None:
        """Name what keeps so many GPUs from a deployment of the namespace; None: it can have them."""
        if self.closed is not None or self._pool is None:
            return self.closed
        tenant = self._pool.tenant(namespace)
        if tenant is None:
            return Reason.NOT_A_TENANT
        if tenant.quota_gpus is not None and self._held[tenant.name] + gpus > tenant.quota_gpus:
            return Reason.QUOTA_EXCEEDED
        if gpus == 0:
            return None  # It runs on no GPU: none has to be free.
        if self.free_gpus < gpus:
            return Reason.POOL_EXHAUSTED
        if on_one_server and self._servers is not None and (self._parts(gpus) is None or not self._is_safe(gpus)):
            return Reason.POOL_FRAGMENTED
        return None

    def take(self, namespace: str, gpus: int, replicas: int = 1) -> None:
        """Charge replicas of so many GPUs each."""
        self._charge(namespace, gpus * replicas)
        self._left -= gpus * replicas
        for _ in range(replicas if self._servers is not None and gpus else 0):
            self._place(gpus)
            self._pending[gpus] += not self._at_rest

    def withhold(self, gpus: int) -> None:
        """Keep room for one replica that waits for GPUs which are coming: less urgent ones may not take it."""
        kept = min(gpus, max(0, self._left))
        self._left -= kept
        self._kept_gpus += kept
        if self._servers:
            free = max(self._servers)
            self._remove(free)
            self._kept[free] += 1

    def copy(self) -> Ledger:
        """Another one that begins with what this one has left."""
        other = Ledger(None, (), ())
        other.coming_gpus, other.gets_what_is_given_back = self.coming_gpus, self.gets_what_is_given_back
        other._kept_gpus, other._kept = self._kept_gpus, Counter(self._kept)
        other._pool, other.closed, other._left = self._pool, self.closed, self._left
        other._at_rest = self._at_rest
        other._held, other._servers = Counter(self._held), None if self._servers is None else Counter(self._servers)
        other._unbound, other._pending = self._unbound, Counter(self._pending)
        return other

    def holds(self, wanted: Iterable[tuple[str, int]]) -> bool:
        """Tell whether all of these (namespace, GPUs) can be given at once; False where servers have to be asked."""
        if self._pool is None or self.closed is not None or self._servers is not None:
            return False
        by_namespace: Counter[str] = Counter()
        for namespace, gpus in wanted:
            by_namespace[self.tenant_name(namespace)] += gpus
        quotas = {tenant.name: tenant.quota_gpus for tenant in self._pool.tenants}
        inside = all(
            (quota := quotas.get(name)) is None or self._held[name] + gpus <= quota
            for name, gpus in by_namespace.items()
        )
        known = all(name or not self._pool.tenants for name in by_namespace)
        return known and inside and by_namespace.total() <= self._left

    def words(self, refused: Reason, namespace: str, gpus: int) -> str:
        """Say what a refusal of one more replica of so many GPUs is about; empty: its reason says all."""
        pool, tenant = self._pool, self._pool.tenant(namespace) if self._pool else None
        if refused is Reason.NOT_A_TENANT:
            return f"namespace {namespace} is in no tenant of the pool"
        if refused is Reason.QUOTA_EXCEEDED and tenant is not None:
            return f"tenant {tenant.name} holds {self._held[tenant.name]} of its {tenant.quota_gpus} GPUs"
        if refused is Reason.POOL_FRAGMENTED and pool is not None and self._servers is not None:
            if self._parts(gpus) is not None:
                return "replicas of more GPUs get their servers first"
            free, size = _total(self._servers), pool.gpus_per_server
            whole = free // size * (size // gpus) + free % size // gpus if gpus <= size else free // gpus
            return (
                f"no server has {gpus} free GPUs: {free} are free, at most {max(self._servers)} on one; "
                f"gathered on whole servers they would hold {whole} replicas"
            )
        return ""

    def _is_safe(self, gpus: int) -> bool:
        """Tell whether all that wait for a node, and one more of so many GPUs, have one wherever smaller ones go."""
        pending = self._pending + Counter((gpus,))
        for size in pending:
            places = sum(free // size * number for free, number in self._unbound.items())
            smaller = sum(number for each, number in pending.items() if each < size)
            larger = sum(-(-each // size) * number for each, number in pending.items() if each >= size)
            if smaller and places < smaller + larger:
                return False
        return True

    def _inside_quota(self, namespace: str, replicas: list[int]) -> list[int]:
        """The replicas, by their GPUs, for which the quota has room."""
        room = self.room_gpus(namespace)
        if room is None:
            return replicas
        return [gpus for gpus, together in zip(replicas, accumulate(replicas), strict=True) if together <= room]

    def _charge(self, namespace: str, gpus: int) -> None:
        name = self.tenant_name(namespace)
        if name:
            self._held[name] += gpus

    def _place(self, gpus: int) -> None:
        """Take GPUs of servers; what fits on none takes none: its pod waits."""
        if self._servers is None:
            return
        for part, free in self._parts(gpus) or ():
            self._remove(free)
            self._servers[free - part] += 1

    def _parts(self, gpus: int) -> list[tuple[int, int]] | None:
        """Servers that a replica would run on, as (GPUs there, GPUs free there); None: there are none.

        The one with the fewest free GPUs that are enough. A replica of more than a server has takes whole ones.
        """
        servers, size = self._servers or Counter[int](), self._pool.gpus_per_server if self._pool else 1
        whole, rest = (gpus // size, gpus % size) if gpus > size else (0, gpus)
        parts = [(size, size)] * whole
        if servers[size] < whole:
            return None
        if rest:
            left = Counter({free: number - (whole if free == size else 0) for free, number in servers.items()})
            fitting = [free for free, number in left.items() if number > 0 and free >= rest]
            if not fitting:
                return None
            parts.append((rest, min(fitting)))
        return parts

    def _remove(self, free: int) -> None:
        if self._servers is not None:
            self._servers[free] -= 1
            if not self._servers[free]:
                del self._servers[free]


def _total(servers: Counter[int]) -> int:
    return sum(free * number for free, number in servers.items())
