"""`spec.runtime`: the engine that firsttoken renders itself. Restricted fields, never a raw pod template.

A tenant who may write this resource makes the operator create pods with the operator's rights, so there is nothing here
that reaches outside the namespace: secrets and claims by name, no host path, no command, no service account.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

from pydantic import Field

from firsttoken_operator.api import forms
from firsttoken_operator.api.base import ApiModel, Int, Rule, described, optional
from firsttoken_operator.api.quantities import LabelValue, LongName, Quantity, amount_of
from firsttoken_operator.api.toleration import Toleration
from firsttoken_operator.domain.rollout import RolloutPolicy
from firsttoken_operator.runtimes import CONTAINERS, RuntimeType
from firsttoken_operator.runtimes.spec import ServerRelease, Version, version_of

OPERATOR_OWNED_ENV = tuple(
    dict.fromkeys(name for c in CONTAINERS for name in c.owned if re.match(c.setting_pattern, name))
)
_PORT = CONTAINERS[0].port
RELEASED_ROLLOUT = "firsttoken.dev/released-rollout"
"""Annotation of a resource that releases the rollout of one revision of its pods."""


def _type_rules() -> tuple[Rule, ...]:
    """Rules for the variables and the flags that each type takes: none of them changes what was sized."""
    rules = []
    for runtime in RuntimeType:
        usual = runtime.containers[0]
        pattern, prefixes = usual.setting_pattern, " and ".join(f"{word}_*" for word in usual.setting_prefixes)
        settable = sorted({flag for container in runtime.containers for flag in container.settable})
        retired = {flag for container in runtime.containers for flag in container.retired}
        rules += [
            Rule(
                cel=f"self.type != '{runtime}' || !has(self.env) || self.env.all(e, e.name.matches('{pattern}'))",
                problem=f"runtime.env of {runtime} takes {prefixes} only",
                fix="remove the others",
                holds=partial(_has_variables_of, runtime, re.compile(pattern)),
                field="env",
            ),
            Rule(
                cel=f"self.type != '{runtime}' || !has(self.flags) || self.flags.all(f, f.split('=')[0] in {settable})",
                problem=f"runtime.flags of {runtime} takes {', '.join(settable)} only",
                fix="remove the others; those that follow from the sizing are set by the operator",
                holds=partial(_has_flags_of, runtime, frozenset(settable)),
                stored=partial(_has_flags_of, runtime, frozenset(settable) | retired),
                field="flags",
            ),
        ]
    return tuple(rules)


def _has_variables_of(runtime: RuntimeType, pattern: re.Pattern[str], declared: Runtime) -> bool:
    return declared.type is not runtime or all(pattern.match(setting.name) for setting in declared.env)


def _has_flags_of(runtime: RuntimeType, settable: frozenset[str], declared: Runtime) -> bool:
    return declared.type is not runtime or all(flag.partition("=")[0] in settable for flag in declared.flags)


class ReplicaVolume(ApiModel):
    """A volume of its own for each pod, made with it and deleted with it (a generic ephemeral volume)."""

    size: Quantity = described("Size of the volume.", unit="bytes (Quantity)")
    storage_class_name: LongName | None = optional("StorageClass of the volume.", absent="the cluster's default")


class ModelCache(ApiModel):
    """Place where model weights are kept between pods, or on a volume of each pod."""

    RULES = (
        Rule(
            cel="has(self.claimName) != has(self.perReplica)",
            problem="modelCache needs exactly one of claimName and perReplica",
            fix="name a ReadWriteMany claim that all pods share, or give each pod a volume of its own",
            holds=lambda cache: (cache.claim_name is None) != (cache.per_replica is None),
        ),
    )

    claim_name: LongName | None = optional(
        "PersistentVolumeClaim in the same namespace. With more than one node it has to be ReadWriteMany: a "
        "ReadWriteOnce claim leaves pods on a second node waiting for ever.",
        absent="perReplica says what each pod has",
    )
    per_replica: ReplicaVolume | None = optional(
        "A volume for each pod, of any access mode; every pod downloads the model.", absent="claimName is shared"
    )


class SecretKey(ApiModel):
    """One key of a Secret in the same namespace."""

    name: LongName = described("Name of the Secret in the same namespace.")
    key: str | None = optional(
        "Key in the Secret.",
        absent="the name of the variable: NGC_API_KEY for NIM, HF_TOKEN for the others",
        min_length=1,
        max_length=253,
        pattern=forms.SECRET_KEY,
    )


class RuntimeResources(ApiModel):
    """CPU and memory of one replica; GPUs follow from the sizing."""

    RULES = (
        Rule(
            cel="!has(self.memory) || quantity(self.memory).isGreaterThan(quantity(self.sharedMemory))",
            problem="shared memory counts against the memory limit, and would use all of it",
            fix="set resources.memory above resources.sharedMemory (16Gi where it is absent), or lower sharedMemory",
            holds=lambda r: r.memory is None or amount_of(r.memory) > amount_of(r.shared_memory),
            field="memory",
            stored=lambda _: True,
        ),
    )

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
    """One environment variable of the engine."""

    RULES = (
        Rule(
            cel=f"!(self.name in [{', '.join(repr(name) for name in OPERATOR_OWNED_ENV)}])",
            problem=f"{', '.join(OPERATOR_OWNED_ENV)} are set by the operator",
            fix="remove the entry and use the field of spec it stands for (runtime.port, hardware.tensorParallel...)",
            holds=lambda e: e.name not in OPERATOR_OWNED_ENV,
            field="name",
        ),
    )

    name: str = described(
        "Name of a documented variable of the engine, such as NIM_* or VLLM_*.", max_length=64, pattern=forms.SETTING
    )
    value: str = described("Its value; never a secret.", max_length=256)


ServerFlag = Annotated[str, Field(max_length=512, pattern=forms.FLAG)]


class Runtime(ApiModel):
    """The engine that firsttoken renders: a Deployment, a Service, a PodMonitor and a PodDisruptionBudget.

    Where a replica takes several servers, a LeaderWorkerSet is in the place of the Deployment.
    """

    RULES = (
        Rule(
            cel="self.type == oldSelf.type",
            problem="runtime.type is immutable",
            fix="create a new InferenceDeployment for another engine",
            field="type",
        ),
        *_type_rules(),
    )

    type: RuntimeType = described("Server that runs the model.")
    image: str = described(
        "Container image with a tag or digest, such as nvcr.io/nim/meta/llama3-8b-instruct:1.0.3. A tag that begins "
        "with a version tells what the server knows.",
        min_length=1,
        max_length=512,
        pattern=forms.IMAGE,
    )
    version: str | None = optional(
        "Version of the server, where the tag does not begin with it.",
        absent="that of the tag; without one only what every version knows is set",
        max_length=32,
        pattern=forms.SERVER_VERSION,
    )
    checkpoint: str | None = optional(
        "Weights in the precision that is sized: a name on Hugging Face, or a path in the model cache (/model-store). "
        "A NIM brings its own.",
        absent="the model's own, which vLLM and SGLang convert to FP8 while they load it",
        max_length=256,
        pattern=forms.CHECKPOINT,
    )
    max_sequence_tokens: Int | None = optional(
        "Longest prompt and answer together that the server takes.",
        unit="tokens",
        absent="the model's context window, or what fits into the KV cache where that is less",
        ge=16,
        le=100_000_000,
    )
    flags: tuple[ServerFlag, ...] = described(
        "Further flags of the server, each as --name or --name=value: those that change no size, such as "
        "--tool-call-parser=llama3_json.",
        default=(),
        max_length=16,
    )
    port: Int = described("Port of the API.", default=_PORT, unit="TCP port", ge=1024, le=65535)
    metrics_port: Int | None = optional(
        "Port of the Prometheus metrics.",
        unit="TCP port",
        absent="8002 for Triton, else the same as runtime.port",
        ge=1024,
        le=65535,
    )
    metrics_path: str | None = optional(
        "Path of the Prometheus metrics.", absent="that of the server", max_length=128, pattern=forms.PATH
    )
    model_cache: ModelCache | None = optional(
        "Where weights are kept.", absent="each pod downloads the model into its own emptyDir"
    )
    image_pull_secrets: tuple[LongName, ...] = described(
        "Names of image pull secrets in the same namespace.", default=(), max_length=8
    )
    auth_secret: SecretKey | None = optional(
        "Secret that becomes the variable of the model registry's key: NGC_API_KEY or HF_TOKEN.",
        absent="no key is passed",
    )
    resources: RuntimeResources = described("CPU and memory of one replica.", default=RuntimeResources())
    env: tuple[EngineSetting, ...] = described(
        "Settings of the engine, such as NIM_MODEL_PROFILE. No variable of another kind is taken.",
        default=(),
        max_length=32,
        map_keys=["name"],
    )
    node_selector: dict[str, LabelValue] = described(
        "Node labels that the pods need.",
        absent="those of the pool, else that of the GPU",
        default_factory=dict,
        max_length=16,
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
    pre_pull: bool = described(
        "Keep the image on the nodes of the GPU from now on, so that a replica that starts there need not pull it "
        "(render.prePull of the chart).",
        default=False,
    )
    rollout_policy: RolloutPolicy = described(
        "When pods are replaced that are not as declared any more: at once, when no request is served, or when the "
        f"revision that the condition RolloutPending names is released by the annotation {RELEASED_ROLLOUT}.",
        default=RolloutPolicy.IMMEDIATE,
    )

    @property
    def server_version(self) -> Version | None:
        """Version of the server; None: nothing tells it."""
        return version_of(self.image, self.version)

    @property
    def release(self) -> ServerRelease:
        """The way in which the version that its image is of is started."""
        return self.type.spec.release(self.server_version)
