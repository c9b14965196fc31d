"""Remedies that would change a decision or a condition, a line for each reason, as `firsttoken explain` says it.

The reasons are the words of a status: an operator that is newer than this may give others, of which nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_MEASURED = "more arrives, or less for a full stabilization window"
_METRICS = "metrics of every ready pod; until then nothing is lowered (the message of MetricsHealthy has the cause)"
_SPEC = "a correction of the field that the condition names"
_LIMITS = "a higher limit in spec.sla, or a configuration that keeps it: firsttoken size -f FILE shows the alternatives"
_MEMORY = "a GPU with more memory, more of them a replica (hardware.tensorParallel), or a smaller precision"
_WAIT = "time: fewer replicas follow once"

REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "DemandAboveCapacity": _MEASURED,
        "DemandExpected": "another forecast: it expects more than arrives now before a new pod would be ready",
        "Backlog": "a drained queue, after a full stabilization window",
        "TTFTAboveSLA": "first tokens in time for a full stabilization window; where they never are, a benchmark",
        "BelowMinimum": "another spec.scaling.minReplicas",
        "AboveLimit": "a higher declared peak, spec.scaling.burstHeadroomPercent or maxReplicas",
        "DemandBelowCapacity": _MEASURED,
        "DeclaredPeak": "metrics: without them for metricsLossGraceSeconds, the size for the declared peak stands",
        "ScheduledPeak": "the end of the window, or other windows in spec.traffic.schedule",
        "Steady": _MEASURED,
        "Stabilizing": f"{_WAIT} every signal has allowed them for a full window (scaleDownStabilizationSeconds)",
        "PodsStarting": f"{_WAIT} the pods that start are ready",
        "PodsDraining": f"{_WAIT} the pods that end have answered, or their grace period is over",
        "RolloutPending": "the approval that its message names, or another spec.runtime.rolloutPolicy",
        "SettingsDiffer": "sizing.engineSettings and the fields that its message names, or the flags of the pods",
        "GraceTooShort": "a longer terminationGracePeriodSeconds, and a longer limit of the server's own",
        "Rollout": f"{_WAIT} the rollout is finished or undone",
        "ReadinessLost": f"{_WAIT} its pods, or the nodes of its pool, are ready again: half an hour at most",
        "KVPressure": "less in the KV caches (keys and values of the tokens so far), or replicas with more memory",
        "PredictionAboveSLA": "less load: one step down is predicted to break a limit of the SLA",
        "ErrorsPresent": "fewer requests that fail: above 1 %, or where the share is not known, nothing is lowered",
        "ScaleDownBrake": f"{_WAIT} 10 minutes have passed, or a higher scaleDownLimitPercent of the GPUPool",
        "ScaleDownNever": "spec.scaling.scaleDown other than Never",
        "PoolNotShort": "a deployment of the pool that lacks GPUs, or spec.scaling.scaleDown: Always",
        "PodsUnschedulable": "nodes that can take the pods, or fewer pods of others on them",
        "PodsGated": "the scheduling gates of its pods taken away: with Kueue, room in its queue",
        "PodsPreempted": "nodes for its pods, or a PriorityClass on them as high as that of what displaced them",
        "ClaimsUnallocated": "devices for the ResourceClaims of its pods: kubectl describe resourceclaims",
        "NodesProvisioning": "time: a node comes for the pods, which are ready a start after that",
        "InsufficientCapacity": "a larger quota of the cloud, or a GPU type that it has more of",
        "VolumesNotMounted": "a claim that is ReadWriteMany or ReadOnlyMany, or modelCache.perReplica",
        "PodsFailing": "pods that run: kubectl describe pod and kubectl logs have the cause",
        "PodsRefused": "a quota or a policy that allows the pods, as the condition CapacityAvailable names it",
        "BurstHeadroom": "a higher declared peak, or more spec.scaling.burstHeadroomPercent",
        "MaxReplicas": "a higher spec.scaling.maxReplicas",
        "MinReplicas": "a lower spec.scaling.minReplicas",
        "NoWakeUpSignal": "a counter of the gateway (chart values), or spec.traffic.schedule",
        "PoolExhausted": "GPUs that others of the pool give back, a larger budget, or a higher priority",
        "Rebalanced": "GPUs for the deployment of a higher priority that is short, or a higher minReplicas here",
        "PoolFragmented": "pods that move together, so that one server has enough free GPUs, or one server more",
        "QuotaExceeded": "a larger quotaGPUs of the tenant, or GPUs that its other deployments give back",
        "NotATenant": "a tenant in the GPUPool whose namespaceSelector selects the namespace, or another pool",
        "PoolInventoryUnknown": "nodes of the pool that report their GPUs, or nodeProvisioning: Automatic in the cloud",
        "PoolNotFound": "a GPUPool of the name that spec.capacity.pool says",
        "ScaleUpStep": "time: the next step follows at the next tick, or when a second signal confirms the load",
        "ScaleDownStep": "time: the next step down follows when the last one is measured (scaleDownStepPercent)",
        "Idle": "requests, or a lower spec.scaling.minReplicas",
        "Missing": _METRICS,
        "Stale": _METRICS,
        "Partial": _METRICS,
        "Recovering": f"{_WAIT} Prometheus has a full window of samples again",
        "LowResolution": "a histogram bucket that ends at the limit, or a limit at the end of a bucket",
        "TTFTNotObserved": "the flag that status.metrics.problems names; until then arrivals, queue and model decide",
        "Resizing": "time: the size for the changed spec is on its way",
        "InvalidSpec": _SPEC,
        "UnknownModel": _SPEC,
        "UnknownGPU": _SPEC,
        "TensorParallelMismatch": _SPEC,
        "SingleRequestTTFT": _LIMITS,
        "ITLAtBatch1": _LIMITS,
        "EndToEndInconsistent": _LIMITS,
        "KVCacheTooSmall": _MEMORY,
        "ContextWindowExceeded": "shorter requests, or a model with a longer context window",
        "ModelDoesNotFit": _MEMORY,
        "Advisory": "spec.scaling.mode: Active, in an operator without advisory: true; until then nothing is written",
        "Paused": "spec.scaling.mode: Active; until then nothing is decided",
        "Conflict": "one writer less: remove the HorizontalPodAutoscaler or what else scales the target",
        "TargetNotFound": "an object of the kind and name that spec.targetRef says",
        "TargetKindNotAllowed": "a kind that the chart's scale.kinds allows, there or in spec.targetRef",
        "TargetUnreadable": "the field that the message names, which the target's controller fills in",
        "TargetAtZero": "kubectl scale of the target to 1 or more, which takes it into service again",
        "ScaledToZero": "a request that the gateway counts, or a window of spec.traffic.schedule",
        "SLAMissed": "more replicas; where a limit keeps them away, lift it; where none does, a benchmark",
        "Unknown": "what the message lacks",
        "DecisionFailed": "a mended defect: the operator's log has the error",
        "Pegged": "a benchmark of the deployment: live traffic contradicts the sizing by more than is believed",
        "WriteConflict": "time: the write is tried again",
        "WriteDenied": "the right to write it: kubectl auth can-i, and the chart's roles",
        "WriteFailed": "an API server that answers; the write is tried again",
        "WritesPaused": "the ConfigMap that pauses all writes, deleted",
    }
)
"""Remedies by reason. Reasons that say all is well, and those of Events and causes inside messages, have none."""
