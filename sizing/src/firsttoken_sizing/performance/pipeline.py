"""Pipeline parallelism and replicas of several servers: from the step model of a tensor-parallel group to that of more.

What a pipeline shares and what it does not is in `StepModel.in_stages`; on top comes the hand-over of activations from
stage to stage. The prior (`step/prior.py`) counts the same way for configurations without measurements; this is for a
group whose step model is known.

Not modeled: stages of unequal weight (embeddings, a number of layers that does not divide), and the bubble of a
pipeline with fewer running sequences than stages, in which throughput is overstated and latency is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from firsttoken_sizing.catalog.gpus import Gpu
from firsttoken_sizing.catalog.interconnect import leaves_server, transfer
from firsttoken_sizing.catalog.models import Model
from firsttoken_sizing.step.model import StepModel

_ACTIVATION_BYTES = 2
"""Engines hand activations over in 16 bits, whatever the weights have."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Placement of one replica's GPUs in servers."""

    tensor_parallel: int
    pipeline_parallel: int
    gpus_per_server: int

    @property
    def servers(self) -> int:
        """Servers that one replica touches; a stage is kept in as few as it needs."""
        stages_per_server = max(1, self.gpus_per_server // self.tensor_parallel)
        if self.tensor_parallel > self.gpus_per_server:
            return self.pipeline_parallel * -(-self.tensor_parallel // self.gpus_per_server)
        return -(-self.pipeline_parallel // stages_per_server)

    def hops_between_servers(self, gpu: Gpu) -> int:
        """Hand-overs, of the `pipeline_parallel - 1`, that go over the network."""
        if not leaves_server(gpu, self.tensor_parallel * self.pipeline_parallel, self.gpus_per_server):
            return 0
        return self.servers - 1 if self.tensor_parallel <= self.gpus_per_server else self.pipeline_parallel - 1


def pipelined(group: StepModel, model: Model, gpu: Gpu, placement: Placement) -> StepModel:
    """The step model of `pipeline_parallel` stages, each on a group like the one that `group` (all layers) describes.

    With P stages the hand-overs take P-1 times the latency of the link, and the activations (hidden size x 2 bytes a
    token, each GPU of the group sending its part) over its bandwidth. `max_batch` stays: what fits in memory is for the
    caller to say. Returns `group` for one stage.
    """
    stages = placement.pipeline_parallel
    if stages == 1:
        return group
    outside = placement.hops_between_servers(gpu)
    inside = stages - 1 - outside
    links = [
        (hops, transfer(gpu, same_server=same, gpus_per_server=placement.gpus_per_server))
        for hops, same in ((inside, True), (outside, False))
        if hops
    ]
    latency = sum(hops * link.latency_seconds for hops, link in links)
    token_bytes = model.hidden_size * _ACTIVATION_BYTES / placement.tensor_parallel
    per_token = sum(hops * (link.seconds(token_bytes) - link.latency_seconds) for hops, link in links)
    split = group.in_stages(stages)
    return replace(
        split,
        base_seconds=split.base_seconds + latency,
        per_sequence_seconds=split.per_sequence_seconds + per_token / stages,
        per_prefill_token_seconds=split.per_prefill_token_seconds + per_token / stages,
    )
