"""The physics prior: the step model of any model on any GPU, from an architecture, a data sheet and engine constants.

It answers where nothing was measured, and pulls a fit of few points towards what is plausible. Work (bytes, FLOP,
launches) is counted here; how long an engine takes for it is in `calibration.py`. Every formula is in
docs/design/sizing.md. Not modeled: the imbalance of experts, activations' traffic, hand-overs between pipeline stages
(`performance/pipeline.py` adds them), and overlap (terms add up, which fits better than their maximum).
"""

from __future__ import annotations

from dataclasses import dataclass

from firsttoken_sizing.catalog import Gpu, Model
from firsttoken_sizing.catalog.gpus import assumed
from firsttoken_sizing.catalog.interconnect import link
from firsttoken_sizing.engines.memory import largest_kv_share
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.step.calibration import Calibration
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.waves import Waves, waves_of

_ACTIVATION_BYTES = 2


@dataclass(frozen=True, slots=True)
class StepWork:
    """Work of one step on the fullest GPU of a replica, in seconds that ideal hardware would take.

    Bytes and FLOP at the rates of the data sheet, divided over tensor parallelism; `layers` counts.
    """

    layers: int
    stages: int
    """Pipeline stages; the figures are those of all stages together."""
    weight_seconds: float
    """Weights that every step reads (of experts: the shared ones)."""
    expert_seconds: float
    """Weights of all routed experts."""
    idle_expert_share: float
    kv_seconds_per_token: float
    kv_seconds_per_sequence: float
    """KV cache of layers whose window is full."""
    waves: Waves
    """Decode attention of an engine that does not split a sequence."""
    decode_seconds_per_token: float
    prefill_seconds_per_token: float
    attention_seconds_per_token: float
    """Attention of prompts in layers whose window is full."""
    attention_seconds_per_token_squared: float
    all_reduce_seconds: float
    """Latency of all exchanges of a step."""
    all_reduce_seconds_per_token: float
    prompt_latency: float = 1.0
    """Times its share of the engine's time that a prompt takes: the GPUs of one group do its attention, while the
    others do that of other prompts, or nothing."""

    def step(self, calibration: Calibration, max_batch: int = PARAMETERS.fit.max_batch) -> StepModel:
        """The step model of an engine that needs this long for the work: linear in the constants."""
        c = calibration
        exchange = c.all_reduce * self.all_reduce_seconds_per_token
        base = (
            c.step_seconds
            + c.layer_seconds * self.layers
            + c.weight_read * self.weight_seconds
            + c.all_reduce * self.all_reduce_seconds
        )
        per_sequence = (
            c.sequence_seconds
            + c.kv_read * self.kv_seconds_per_sequence
            + c.decode * self.decode_seconds_per_token
            + exchange
        )
        per_prefill_token = (
            c.prefill * self.prefill_seconds_per_token + c.attention * self.attention_seconds_per_token + exchange
        )
        in_waves = c.attention_wave > 0
        wave_seconds = c.attention_wave * self.waves.seconds
        k = c.kv_read * self.kv_seconds_per_token
        if in_waves and self.waves.never_grouped:
            k = wave_seconds / self.waves.sequences
        step = StepModel(
            base_seconds=base,
            per_sequence_seconds=per_sequence,
            per_context_token_seconds=k,
            per_prefill_token_seconds=per_prefill_token,
            per_prefill_token_squared_seconds=c.attention * self.attention_seconds_per_token_squared,
            max_batch=max_batch,
            expert_seconds=c.weight_read * self.expert_seconds,
            idle_expert_share=self.idle_expert_share,
            attention_wave_seconds=wave_seconds if in_waves else 0.0,
            attention_wave_sequences=self.waves.sequences if in_waves else 0.0,
            grouped_attention_sequences=self.waves.grouped_from_sequences if in_waves else 0.0,
            prompt_latency=self.prompt_latency,
        )
        return step.in_stages(self.stages) if self.stages > 1 else step


def prior_step(
    model: Model,
    gpu: Gpu,
    key: ConfigurationKey,
    calibration: Calibration,
    *,
    prompt_tokens: float = PARAMETERS.lengths.window_prompt_tokens,
) -> StepModel:
    """The step model that physics and an engine's constants give. Always answers; no measured point is used.

    `prompt_tokens`: where attention in a sliding window is made linear; without windows it does not matter.
    """
    return work_of(model, gpu, key, prompt_tokens=prompt_tokens).step(calibration)


def work_of(
    model: Model, gpu: Gpu, key: ConfigurationKey, *, prompt_tokens: float = PARAMETERS.lengths.window_prompt_tokens
) -> StepWork:
    """The work of one step: bytes and FLOP of the architecture over the rates of the GPU, divided by TP."""
    ways, bandwidth = key.tensor_parallel, gpu.memory_bandwidth_gb_per_second * 1e9
    weights, experts = weight_bytes_read(model, key.precision)
    rate, rate_16_bit = tensor_flops(gpu, key.precision), tensor_flops(gpu, "BF16")
    full, windowed = model.full_attention_layers, model.attention_layers - model.full_attention_layers
    window = model.sliding_window_tokens or 0
    groups = key.attention_data_parallel
    kv_layer = model.kv_bytes_per_layer * largest_kv_share(model, ways, groups)
    # 4 * heads * width * (s*c0 + s^2/2) FLOP a layer is p2 * (s^2 + 2*s*c0) with p2 half of that.
    attention_layer = 2 * model.attention_heads * (model.head_dim or PARAMETERS.step.mla_head_dim)
    attention_per_token = 0.0
    kv_per_sequence = 0.0
    if windowed and prompt_tokens > window:
        # Every token beyond the window attends to `window` others: W*s - W^2/2, made linear at this prompt.
        attention_per_token = windowed * 2 * attention_layer * window * (1 - window / (2 * prompt_tokens))
        kv_per_sequence = windowed * kv_layer * window
    else:
        full += windowed
    embedding = model.vocabulary_size * model.hidden_size
    active = max(model.active_parameters_billion * 1e9 - embedding * (1 if model.tied_embeddings else 2), 0.0)
    exchange = link(gpu, ways, gpu.gpus_per_server or assumed().gpus_per_server) if ways > 1 else None
    alone = groups > 1 and key.attention_ways == 1
    of_layer = PARAMETERS.step.exchanges_around_experts if alone else PARAMETERS.step.all_reduces_per_layer
    exchanges = of_layer * model.layers
    vector_bytes = model.hidden_size * _ACTIVATION_BYTES
    per_token = vector_bytes / (exchange.bandwidth_gb_per_second * 1e9) if exchange else 0.0
    idle = 1 - (model.experts_per_token or 0) / model.experts if model.experts else 0.0
    return StepWork(
        layers=model.layers,
        stages=key.pipeline_parallel,
        weight_seconds=weights / (key.attention_ways * bandwidth),
        expert_seconds=experts / (ways * bandwidth),
        idle_expert_share=idle,
        kv_seconds_per_token=full * kv_layer / bandwidth,
        kv_seconds_per_sequence=kv_per_sequence / bandwidth,
        waves=waves_of(model, gpu, ways, full_layers=full),
        decode_seconds_per_token=2 * (active + embedding) / (ways * rate),
        prefill_seconds_per_token=2 * active / (ways * rate),
        attention_seconds_per_token=attention_per_token / (ways * rate_16_bit),
        attention_seconds_per_token_squared=full * attention_layer / (ways * rate_16_bit),
        all_reduce_seconds=exchanges * exchange.latency_seconds if exchange else 0.0,
        all_reduce_seconds_per_token=exchanges * per_token,
        prompt_latency=groups - (groups - 1) * _routed_share(model),
    )


def _routed_share(model: Model) -> float:
    """Share of the parameters that a token uses which routed experts hold."""
    if not model.experts or not model.experts_per_token or model.experts_per_token >= model.experts:
        return 0.0
    idle = model.parameters_billion - model.active_parameters_billion
    return idle * model.experts_per_token / (model.experts - model.experts_per_token) / model.active_parameters_billion


def weight_bytes_read(model: Model, precision: str) -> tuple[float, float]:
    """Bytes of weights that every step reads, and of all routed experts, of which a step reads those that it wakes.

    An embedding that is looked up is not read (a tied one is, as the output head).
    """
    looked_up = 0.0 if model.tied_embeddings else 2.0 * model.vocabulary_size * model.hidden_size
    total = max(model.weight_bytes(precision) - looked_up, 0.0)
    experts = min(model.routed_expert_bytes(precision), total)
    return total - experts, experts


def tensor_flops(gpu: Gpu, precision: str) -> float:
    """Dense FLOP (or integer operations) a second at which a GPU multiplies weights of this precision.

    Without hardware for the precision, and with weights of 4 bits next to 16-bit activations (INT4), weights are turned
    into 16 bits first and computed at that rate. MXFP4 runs on the hardware of NVFP4.
    """
    rates = gpu.dense_tflops
    base = max((rates[name] for name in ("BF16", "FP16") if name in rates), default=max(rates.values()))
    native = {"MXFP4": "NVFP4", "INT4": "BF16"}.get(precision, precision)
    return max(rates.get(native, base), base) * 1e12
