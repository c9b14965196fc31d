"""Namespaces and pools: whose tenant a namespace is, and the pool of a resource that names none."""

from __future__ import annotations

from collections.abc import Mapping

from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.tenant_spec import Admits, TenantSpec
from firsttoken_operator.observe.nodes import canonical_gpu

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""Label that the API server sets on each namespace."""


class Tenancy:
    """Tenants of the pools at one tick. `pools`: those that can be read, by name; `namespaces`: their labels."""

    def __init__(self, pools: Mapping[str, GPUPool], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._pools = dict(sorted(pools.items()))
        self._labels = namespaces
        self._tenants: dict[tuple[str, str], TenantSpec | None] = {}

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces of which labels are known."""
        return frozenset(self._labels)

    def tenant(self, pool: str, namespace: str) -> TenantSpec | None:
        """The first tenant of a pool that selects the namespace; None: none does, or it declares none."""
        key = pool, namespace
        if key not in self._tenants:
            labels = {NAMESPACE_NAME_LABEL: namespace, **self._labels.get(namespace, {})}
            declared = self._pools[pool].spec.tenants
            self._tenants[key] = next((t for t in declared if t.namespace_selector.selects(labels)), None)
        return self._tenants[key]

    def is_in_any(self, namespace: str) -> bool:
        """True where a tenant of any pool selects the namespace."""
        return any(self.tenant(pool, namespace) is not None for pool in self._pools)

    def placed(self, resource: InferenceDeployment) -> InferenceDeployment:
        """The resource, with its tenant's default pool where it names none: the first by name that has its GPU type.

        NB: one that was in a default pool stays in it while that is not there or cannot be read, as one that names it:
        without it, it would be sized, placed and given back in another way, and a running fleet rolled for nothing.
        """
        if resource.spec.capacity.pool is not None:
            return resource
        name = self._last_default(resource) or self._default(resource)
        if name is None:
            return resource
        capacity = resource.spec.capacity.model_copy(update={"pool": name})
        return resource.model_copy(update={"spec": resource.spec.model_copy(update={"capacity": capacity})})

    def _last_default(self, resource: InferenceDeployment) -> str | None:
        """Default pool in which its status says it is, where that cannot be read now."""
        told = resource.status.capacity
        return told.pool if told is not None and told.by_default and told.pool not in self._pools else None

    def _default(self, resource: InferenceDeployment) -> str | None:
        gpus = {canonical_gpu(gpu) for gpu in resource.spec.hardware.gpus}
        for name, pool in self._pools.items():
            tenant = self.tenant(name, resource.metadata.namespace)
            if tenant is not None and tenant.admits is Admits.ALL and canonical_gpu(pool.spec.gpu) in gpus:
                return name
        return None
