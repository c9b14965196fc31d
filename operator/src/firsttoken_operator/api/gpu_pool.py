"""The custom resource `GPUPool`: a budget of GPUs of one type, and what they cost."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from firsttoken_operator.api import forms
from firsttoken_operator.api.base import API_VERSION, ApiModel, Int, Metadata, Rule, camel_case, described, optional
from firsttoken_operator.api.quantities import Amount, GpuName, LabelValue, above_zero
from firsttoken_operator.api.status import GPUPoolStatus
from firsttoken_operator.api.tenant_spec import MAX_GPUS, Gpus, TenantSpec
from firsttoken_operator.api.toleration import Toleration

KIND: Final = "GPUPool"


class Location(StrEnum):
    """Place of the GPUs, which says who pays for an idle one."""

    CLOUD = "Cloud"
    ON_PREM = "OnPrem"


class NodeProvisioning(StrEnum):
    """Origin of nodes, which says whether a pod that waits brings one."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


def _server_only(attribute: str) -> Rule:
    field = camel_case(attribute)
    return Rule(
        cel=f"!has(self.{field}) || has(self.serverPrice)",
        problem=f"{field} belongs to a server that is bought",
        fix="set pricing.serverPrice and pricing.amortizationYears, or remove it",
        holds=lambda p: getattr(p, attribute) is None or p.server_price is not None,
        field=field,
    )


def _rented_only(attribute: str) -> Rule:
    field = camel_case(attribute)
    return Rule(
        cel=f"!has(self.{field}) || has(self.gpuHour)",
        problem=f"{field} stands beside the price on demand",
        fix="set pricing.gpuHour, or remove it",
        holds=lambda p: getattr(p, attribute) is None or p.gpu_hour is not None,
        field=field,
    )


class PricingSpec(ApiModel):
    """Cost of a GPU: prices an hour, or a server bought and written off."""

    RULES = (
        Rule(
            cel="has(self.gpuHour) != has(self.serverPrice)",
            problem="exactly one of gpuHour and serverPrice is needed",
            fix="set gpuHour for rented GPUs, or serverPrice with amortizationYears for servers that are bought",
            holds=lambda p: (p.gpu_hour is None) != (p.server_price is None),
            field="gpuHour",
        ),
        Rule(
            cel="!has(self.serverPrice) || has(self.amortizationYears)",
            problem="serverPrice is spread over amortizationYears",
            fix="set pricing.amortizationYears, for example 4",
            holds=lambda p: p.server_price is None or p.amortization_years is not None,
            field="amortizationYears",
            required=True,
        ),
        _server_only("amortization_years"),
        _server_only("hosting_per_year"),
        _server_only("license_per_gpu_year"),
        Rule(
            cel="has(self.inputPerMillionTokens) == has(self.outputPerMillionTokens)",
            problem="a per-token API has two prices",
            fix="set both inputPerMillionTokens and outputPerMillionTokens, or neither",
            holds=lambda p: (p.input_per_million_tokens is None) == (p.output_per_million_tokens is None),
            field="inputPerMillionTokens",
        ),
        _rented_only("reserved_gpu_hour"),
        _rented_only("spot_gpu_hour"),
        above_zero("reserved_gpu_hour", "write the price of one reserved GPU for one hour, or remove it"),
        above_zero("spot_gpu_hour", "write the price of one GPU on spot for one hour, or remove it"),
        above_zero("gpu_hour", "write the price of one GPU for one hour, or remove pricing where it is unknown"),
        above_zero("server_price", "write the price of one server, or remove pricing where it is unknown"),
    )

    gpu_hour: Amount | None = optional(
        "Price of one GPU on demand.", unit="currency per hour", absent="serverPrice says it"
    )
    reserved_gpu_hour: Amount | None = optional(
        "Price of one reserved GPU, which is paid at all times: of baseGPUs.",
        unit="currency per hour",
        absent="as gpuHour",
    )
    spot_gpu_hour: Amount | None = optional(
        "Price of one GPU that its cloud may take back.", unit="currency per hour", absent="nothing is said of spot"
    )
    server_price: Amount | None = optional("Price of one server.", unit="currency", absent="gpuHour says it")
    amortization_years: Int | None = optional(
        "Years over which a server is written off.", unit="years", absent="no server is bought", ge=1, le=30
    )
    hosting_per_year: Amount | None = optional(
        "Power, space and care of one server.", unit="currency per year", absent="counted as 0"
    )
    license_per_gpu_year: Amount | None = optional(
        "Software license of one GPU.", unit="currency per year", absent="counted as 0"
    )
    currency: str = described("ISO 4217 code of the prices.", default="USD", max_length=3, pattern=forms.CURRENCY)
    input_per_million_tokens: Amount | None = optional(
        "Input price of a per-token API to compare with.",
        unit="currency per million tokens",
        absent="nothing is compared",
    )
    output_per_million_tokens: Amount | None = optional(
        "Output price of a per-token API to compare with.",
        unit="currency per million tokens",
        absent="nothing is compared",
    )


def _cloud_only(attribute: str) -> Rule:
    field = camel_case(attribute)
    return Rule(
        cel=f"self.location != 'OnPrem' || !has(self.{field})",
        problem=f"{field} belongs to a pool in the Cloud",
        fix="set peakGPUs instead, or location: Cloud",
        holds=lambda p: p.location is not Location.ON_PREM or getattr(p, attribute) is None,
        field=field,
    )


class GPUPoolSpec(ApiModel):
    """A budget of GPUs."""

    RULES = (
        Rule(
            cel="self.location != 'Cloud' || !has(self.peakGPUs)",
            problem="peakGPUs is the fixed capacity of a pool that is OnPrem",
            fix="set baseGPUs and burstGPUs instead, or location: OnPrem",
            holds=lambda p: p.location is not Location.CLOUD or p.peak_gpus is None,
            field="peakGPUs",
        ),
        _cloud_only("base_gpus"),
        _cloud_only("burst_gpus"),
        Rule(
            cel="self.location != 'Cloud' || !has(self.burstGPUs) || has(self.baseGPUs)",
            problem="burstGPUs comes on top of baseGPUs",
            fix="set baseGPUs (0 where nothing is reserved)",
            holds=lambda p: p.location is not Location.CLOUD or p.burst_gpus is None or p.base_gpus is not None,
            field="baseGPUs",
            required=True,
        ),
        Rule(
            cel=(
                "!has(self.baseGPUs) || self.location != 'Cloud' || "
                "self.baseGPUs + (has(self.burstGPUs) ? self.burstGPUs : 0) > 0"
            ),
            problem="baseGPUs and burstGPUs add up to 0",
            fix="give the pool at least one GPU, or leave both out for no budget",
            holds=lambda p: (
                p.location is not Location.CLOUD or p.base_gpus is None or p.base_gpus + (p.burst_gpus or 0) > 0
            ),
            field="baseGPUs",
        ),
        Rule(
            cel="self.location != 'OnPrem' || !has(self.nodeProvisioning) || self.nodeProvisioning == 'Manual'",
            problem="no autoscaler adds nodes to a pool that is OnPrem",
            fix="remove nodeProvisioning, or set location: Cloud",
            holds=lambda p: p.location is not Location.ON_PREM or p.node_provisioning is not NodeProvisioning.AUTOMATIC,
            field="nodeProvisioning",
        ),
        Rule(
            cel=(
                "!has(self.warmGPUs) || (self.location == 'Cloud' && "
                "(!has(self.nodeProvisioning) || self.nodeProvisioning == 'Automatic'))"
            ),
            problem="warmGPUs are on nodes that an autoscaler adds",
            fix="remove warmGPUs: GPUs that are there are ready anyway",
            holds=lambda p: p.warm_gpus is None or p.is_provisioned,
            field="warmGPUs",
        ),
        Rule(
            cel="!has(self.warmGPUs) || self.warmGPUs < self.gpusPerServer || self.warmGPUs % self.gpusPerServer == 0",
            problem="warmGPUs are no whole servers",
            fix="set a multiple of gpusPerServer, or less than one server",
            holds=lambda p: (
                p.warm_gpus is None or p.warm_gpus < p.gpus_per_server or p.warm_gpus % p.gpus_per_server == 0
            ),
            field="warmGPUs",
        ),
    )

    location: Location = described(
        "Cloud: idle GPUs cost money and are given back. OnPrem: the GPUs are paid for, and the peak is enforced."
    )
    gpu: GpuName = described("GPU type of the pool: a catalog key such as H100-SXM-80GB, or an alias.")
    node_selector: dict[str, LabelValue] = described(
        "Labels of the pool's nodes.",
        absent="every node that reports this GPU type",
        default_factory=dict,
        max_length=16,
    )
    tolerations: tuple[Toleration, ...] = described(
        "Taints that the pods of the pool tolerate; a node with another one, NoSchedule or NoExecute, has no GPU for "
        "them.",
        absent="none but those of the GPU itself",
        default=(),
        max_length=16,
    )
    node_provisioning: NodeProvisioning | None = optional(
        "Automatic: an autoscaler adds nodes while pods wait for them. Manual: the nodes are what there is.",
        absent="Automatic in the Cloud, Manual OnPrem",
    )
    peak_gpus: Annotated[Int, Field(ge=1, le=MAX_GPUS)] | None = optional(
        "OnPrem: never exceeded.", unit="GPUs", absent="the inventory of matching nodes"
    )
    base_gpus: Gpus | None = optional(
        "Cloud: GPUs that are always there (reserved).", unit="GPUs", absent="no budget, nodes come as pods wait"
    )
    burst_gpus: Gpus | None = optional(
        "Cloud: GPUs that may be added on top of baseGPUs.", unit="GPUs", absent="none is added"
    )
    warm_gpus: Annotated[Int, Field(ge=1, le=MAX_GPUS)] | None = optional(
        "GPUs that are kept ready for whichever deployment of the pool asks first, on nodes that have come already: "
        "whole servers, or a part of one. `firsttoken warm` prints what keeps them.",
        unit="GPUs",
        absent="a burst waits for its nodes",
    )
    gpus_per_server: Int = described(
        "GPUs of one server; a replica that needs more takes whole servers.", default=8, unit="GPUs", ge=1, le=128
    )
    pricing: PricingSpec | None = optional("What a GPU costs.", absent="sizes are compared by GPU count")
    scale_down_limit_percent: Int = described(
        "Share of the pool's GPUs that may be removed per 10 minutes; at least one replica.",
        default=20,
        unit="percent of GPUs",
        ge=1,
        le=100,
    )

    tenants: tuple[TenantSpec, ...] = described(
        "Namespaces that may use the pool, and how much of it. A namespace belongs to the first that selects it.",
        absent="every namespace may, and each is a tenant of weight 1",
        default=(),
        max_length=32,
        map_keys=["name"],
    )

    @property
    def is_provisioned(self) -> bool:
        """True where an autoscaler adds nodes."""
        usual = NodeProvisioning.AUTOMATIC if self.location is Location.CLOUD else NodeProvisioning.MANUAL
        return (self.node_provisioning or usual) is NodeProvisioning.AUTOMATIC

    @property
    def declared_gpus(self) -> int | None:
        """The declared budget: peakGPUs, else base + burst, else None (on-prem the inventory, in the cloud none)."""
        if self.peak_gpus is not None:
            return self.peak_gpus
        return None if self.base_gpus is None else self.base_gpus + (self.burst_gpus or 0)


class GPUPool(ApiModel):
    """A budget of GPUs of one type, cluster-wide."""

    api_version: Literal["firsttoken.dev/v1alpha1"] = API_VERSION
    kind: Literal["GPUPool"] = KIND
    metadata: Metadata
    spec: GPUPoolSpec = described("The budget and its prices.")
    status: GPUPoolStatus = described("Who holds the GPUs.", default=GPUPoolStatus())
