"""Pools of a plan: what a GPUPool declares, with all of its servers empty, as `decide` reads pools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from firsttoken_operator.api.convert import place
from firsttoken_operator.api.gpu_pool import GPUPool, Location
from firsttoken_operator.api.tenant_spec import MAX_GPUS
from firsttoken_operator.domain import PoolSnapshot, Server, Tenant
from firsttoken_operator.observe.tenancy import Tenancy
from firsttoken_sizing.optimize.places import Place

_WINDOW_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """One pool with nothing in it. `snapshot` is elastic where no number of GPUs is declared."""

    place: Place
    snapshot: PoolSnapshot
    base_gpus: int = 0
    """GPUs that are paid for also while they are idle, where they are rented."""
    on_prem: bool = False

    @property
    def gpus_per_server(self) -> int:
        """GPUs of one server."""
        return self.snapshot.gpus_per_server

    @property
    def gpus(self) -> int | None:
        """GPUs that may be used at most; None: that is not declared."""
        return self.snapshot.budget_gpus

    @property
    def servers(self) -> int | None:
        """Servers of a pool that is there already; None: its number is not declared, or it is rented."""
        return len(self.snapshot.servers) if self.on_prem and self.snapshot.servers is not None else None

    @property
    def shared(self) -> PoolSnapshot:
        """The pool as it is shared: where no number is declared, with as many GPUs as any pool can have.

        Quotas count there as well, and `decide` shares nothing where nodes come as pods wait for them.
        """
        snapshot = self.snapshot
        return replace(snapshot, budget_gpus=MAX_GPUS, is_elastic=False) if snapshot.is_elastic else snapshot

    def with_servers(self, number: int) -> PoolSnapshot:
        """The pool with so many whole servers, all of them for all that are in it."""
        each = self.gpus_per_server
        return replace(
            self.snapshot, budget_gpus=number * each, inventory_gpus=number * each, is_elastic=False, tenants=(),
            servers=_servers(number * each, each),
        )  # fmt: skip


def planned_pool(pool: GPUPool, tenancy: Tenancy, namespaces: Iterable[str]) -> PlannedPool:
    """A declared pool, and the tenants of these namespaces in it. Raises `UnknownGPU`.

    Where nodes come by themselves, servers are no limit; OnPrem without `peakGPUs` nothing is known to be there.
    """
    spec, name = pool.spec, pool.metadata.name
    found = ((namespace, tenancy.tenant(name, namespace)) for namespace in namespaces)
    on_prem = spec.location is Location.ON_PREM
    bare = _empty(name, spec.declared_gpus, spec.gpus_per_server, on_prem=on_prem, counted=not spec.is_provisioned)
    snapshot = replace(
        bare,
        scale_down_limit_percent=spec.scale_down_limit_percent,
        tenants=tuple(Tenant(t.name, t.quota_gpus, t.max_priority, t.weight) for t in spec.tenants),
        tenant_names={namespace: tenant.name for namespace, tenant in found if tenant is not None},
    )
    return PlannedPool(place(pool), snapshot, spec.base_gpus or 0, on_prem)


def undeclared_pool(gpu: str, gpus_per_server: int) -> PlannedPool:
    """A pool of a GPU type where none is declared: as many GPUs as are asked for."""
    snapshot = _empty(gpu, None, gpus_per_server, on_prem=False, counted=False)
    return PlannedPool(Place(gpu, gpu, gpus_per_server=gpus_per_server), snapshot)


def _empty(name: str, gpus: int | None, gpus_per_server: int, *, on_prem: bool, counted: bool) -> PoolSnapshot:
    return PoolSnapshot(
        name=name,
        budget_gpus=gpus,
        inventory_gpus=gpus,
        on_prem=on_prem,
        scale_down_limit_percent=100,
        scale_down_limit_window_seconds=_WINDOW_SECONDS,
        is_elastic=gpus is None,
        gpus_per_server=gpus_per_server,
        servers=_servers(gpus, gpus_per_server) if counted and gpus is not None else None,
    )


def _servers(gpus: int, each: int) -> tuple[Server, ...]:
    """Servers with so many GPUs in all; the last one may have fewer that can be used."""
    parts = [each] * (gpus // each) + [gpus % each] * bool(gpus % each)
    return tuple(Server(f"server-{number}", part) for number, part in enumerate(parts, 1))
