"""`spec.runtime`: the engine that firsttoken renders itself. Restricted fields, never a raw pod template.

A tenant who may write this resource makes the operator create pods with the operator's rights, so there is nothing here
that reaches outside the namespace: secrets and claims by name, no host path, no command, no service account.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from firsttoken_operator.api import forms
from firsttoken_operator.api.base import ApiModel, Int, Rule, described, optional
from firsttoken_operator.api.quantities import LabelValue, LongName, Quantity
from firsttoken_operator.runtimes import RENDERED, RuntimeType

OPERATOR_OWNED_ENV = tuple(name for container in RENDERED.values() for name in container.owned)
_USUAL = next(iter(RENDERED.values()))
_OTHERS = " and ".join(other.value for other in RuntimeType if other not in RENDERED)


class TolerationOperator(StrEnum):
    """Comparison of a toleration with the taint's value."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class Toleration(ApiModel):
    """One taint that the pods tolerate, beside `nvidia.com/gpu`, which they always do."""

    RULES = (
        Rule(
            cel="self.operator == 'Equal' || !has(self.value)",
            problem="operator Exists compares no value",
            fix="remove value or set operator: Equal",
            holds=lambda t: t.operator is TolerationOperator.EQUAL or t.value is None,
            field="value",
        ),
    )

    key: str = described("Key of the taint.", max_length=317, pattern=forms.LABEL_KEY)
    operator: TolerationOperator = described("How the value is compared.", default=TolerationOperator.EQUAL)
    value: LabelValue | None = optional("Value of the taint.", absent="the empty value")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = optional(
        "Effect that is tolerated.", absent="every effect"
    )


class ModelCache(ApiModel):
    """Place where model weights are kept between pods."""

    claim_name: LongName = described(
        "PersistentVolumeClaim in the same namespace. With more than one node it has to be ReadWriteMany: a "
        "ReadWriteOnce claim leaves pods on a second node waiting for ever."
    )


class SecretKey(ApiModel):
    """One key of a Secret in the same namespace."""

    name: LongName = described("Name of the Secret in the same namespace.")
    key: str = described(
        "Key in the Secret.", default=_USUAL.secret_variable, min_length=1, max_length=253, pattern=forms.SECRET_KEY
    )


class RuntimeResources(ApiModel):
    """CPU and memory of one replica; GPUs follow from the sizing."""

    cpu: Quantity | None = optional(
        "CPU request and limit of one replica.", unit="cores (Quantity)", absent="no request and no limit"
    )
    memory: Quantity | None = optional(
        "Memory request and limit of one replica. Shared memory counts against it.",
        unit="bytes (Quantity)",
        absent="no request and no limit",
    )
    shared_memory: Quantity = described(
        "Size of /dev/shm; tensor parallelism needs it.", default="16Gi", unit="bytes (Quantity)"
    )


class EngineSetting(ApiModel):
    """One NIM_* environment variable."""

    RULES = (
        Rule(
            cel=f"!(self.name in [{', '.join(repr(name) for name in OPERATOR_OWNED_ENV)}])",
            problem=f"{', '.join(OPERATOR_OWNED_ENV)} are set by the operator",
            fix="remove the entry and use the field of spec it stands for (runtime.port, hardware.tensorParallel...)",
            holds=lambda e: e.name not in OPERATOR_OWNED_ENV,
            field="name",
        ),
    )

    name: str = described("Name of a documented NIM_* variable.", max_length=64, pattern=forms.SETTING)
    value: str = described("Its value; never a secret.", max_length=256)


class Runtime(ApiModel):
    """The engine that firsttoken renders: a Deployment, a Service and a PodMonitor."""

    RULES = (
        Rule(
            cel=" || ".join(f"self.type == '{rendered.value}'" for rendered in RENDERED),
            problem=f"runtime.type {_OTHERS} are not rendered by this version",
            fix=f"set runtime.type: {' or '.join(RENDERED)}, or deploy the engine yourself and name its Deployment in"
            " targetRef",
            holds=lambda r: r.type in RENDERED,
            field="type",
        ),
        Rule(
            cel="self.type == oldSelf.type",
            problem="runtime.type is immutable",
            fix="create a new InferenceDeployment for another engine",
            field="type",
        ),
    )

    type: RuntimeType = described("Engine. This version renders NIM; for the others deploy them and use targetRef.")
    image: str = described(
        "Container image with a tag or digest, such as nvcr.io/nim/meta/llama3-8b-instruct:1.0.3.",
        min_length=1,
        max_length=512,
        pattern=forms.IMAGE,
    )
    port: Int = described("Port of the OpenAI-compatible API.", default=_USUAL.port, unit="TCP port", ge=1024, le=65535)
    metrics_port: Int | None = optional(
        "Port of the Prometheus metrics.", unit="TCP port", absent="the same as runtime.port", ge=1024, le=65535
    )
    metrics_path: str = described(
        "Path of the Prometheus metrics; NIM serves /v1/metrics.",
        default=_USUAL.metrics_path,
        max_length=128,
        pattern=forms.PATH,
    )
    model_cache: ModelCache | None = optional(
        "Where weights are kept.", absent="each pod downloads the model into its own emptyDir"
    )
    image_pull_secrets: tuple[LongName, ...] = described(
        "Names of image pull secrets in the same namespace.", default=(), max_length=8
    )
    auth_secret: SecretKey | None = optional(
        "Secret that becomes the environment variable NGC_API_KEY.", absent="no key is passed"
    )
    resources: RuntimeResources = described("CPU and memory of one replica.", default=RuntimeResources())
    env: tuple[EngineSetting, ...] = described(
        "NIM_* settings, such as NIM_MODEL_PROFILE. No other variable is taken.",
        default=(),
        max_length=32,
        map_keys=["name"],
    )
    node_selector: dict[str, LabelValue] = described(
        "Node labels that the pods need.", absent="those of the pool", default_factory=dict, max_length=16
    )
    tolerations: tuple[Toleration, ...] = described(
        "Taints that the pods tolerate beside nvidia.com/gpu.", default=(), max_length=16
    )
    runtime_class_name: LongName | None = optional(
        "RuntimeClass, where nvidia is not the default runtime of containerd.", absent="the cluster's default"
    )
    startup_timeout_seconds: Int = described(
        "How long a replica may load its model before the kubelet restarts it.",
        default=1800,
        unit="seconds",
        ge=60,
        le=14_400,
    )
    termination_grace_period_seconds: Int = described(
        "How long a replica that is removed may finish its answers.", default=120, unit="seconds", ge=10, le=3600
    )
