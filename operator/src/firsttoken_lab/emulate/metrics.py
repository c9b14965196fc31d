"""The metric families of one emulated pod: NIM 1.x and vLLM, with the names, labels and buckets of the real servers.

Facts and sources: docs/design/runtimes.md 1.1 (NIM 1.x) and 1.4 (vLLM 0.33). A family here is fed by engine events
(`Observer`), never sampled, so sums and counts are exact. What engines publish beyond that (process, garbage
collection, prefix-cache and scheduler internals) is left out: nothing of the product reads it.
"""

from __future__ import annotations

from enum import StrEnum

from firsttoken_lab.emulate.exposition import Histogram, Instrument, LabelledCounter, Scalar, render
from firsttoken_sizing.simulation.online import OnlineReplica
from firsttoken_sizing.simulation.online_requests import Request


class MetricsRuntime(StrEnum):
    """Whose metric names a pod publishes."""

    NIM = "nim"
    VLLM = "vllm"


NIM_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
NIM_ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
NIM_E2E = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)
VLLM_TTFT = (*NIM_TTFT, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
VLLM_ITL = (*NIM_ITL, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
VLLM_E2E = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
NIM_MAX_TOKENS = 100_000
KV_BLOCK_TOKENS = 16
"""vLLM's default block size."""


def token_bounds(largest: int) -> tuple[float, ...]:
    """The 1-2-5 series up to `largest`: 1, 2, 5, 10, 20, 50, ..."""
    bounds: list[float] = []
    decade = 1
    while True:
        for digit in (1, 2, 5):
            if digit * decade > largest:
                return tuple(bounds)
            bounds.append(float(digit * decade))
        decade *= 10


class PodMetrics:
    """What both families share: it listens to one engine and renders its page.

    A subclass fills `instruments` and says what else it counts. Attach the engine before the first `page`.
    """

    engine: OnlineReplica | None = None
    instruments: list[Instrument]
    running: Scalar
    waiting: Scalar
    kv_usage: Scalar
    prompt_tokens: Scalar
    generation_tokens: Scalar
    ttft: Histogram
    itl: Histogram
    end_to_end: Histogram
    request_prompt_tokens: Histogram
    request_generation_tokens: Histogram

    def prefilled(self, request: Request) -> None:
        """Count a first token."""
        self.prompt_tokens.value += request.input
        self.generation_tokens.value += 1
        self.ttft.observe(request.ttft_seconds)

    def decoded(self, steps: int, requests: int, first_seconds: float, growth_seconds: float) -> None:
        """Count one token a step and request; the step's duration is the time between two tokens of each."""
        self.generation_tokens.value += steps * requests
        self.itl.observe_series(first_seconds, growth_seconds, steps, requests)

    def preempted(self, request: Request) -> None:
        """Count a request whose KV cache was taken away, where the runtime publishes that."""

    def finished(self, request: Request) -> None:
        """Count a request that left, by its finish reason."""
        self.count_finish(request.finish_reason)
        if request.is_aborted:
            return
        self.end_to_end.observe(request.end_to_end_seconds)
        self.request_prompt_tokens.observe(request.input)
        self.request_generation_tokens.observe(request.output)

    def count_finish(self, reason: str) -> None:
        """Count one finished request under `reason` (`length`, `stop`, `abort`, `error`)."""
        raise NotImplementedError

    def page(self) -> bytes:
        """The metrics page at the engine's present time."""
        if self.engine is not None:
            self.engine.report()
            self.running.value = self.engine.running
            self.waiting.value = self.engine.waiting
            self.kv_usage.value = self.engine.kv_usage
        return render(self.instruments)


class NimMetrics(PodMetrics):
    """NIM for LLMs 1.x: no prefix, label `model_name` only."""

    def __init__(self, model_name: str, max_requests: int) -> None:
        labels = {"model_name": model_name}
        self.running = Scalar("gauge", "num_requests_running", "Requests in the batch.", labels)
        self.waiting = Scalar("gauge", "num_requests_waiting", "Requests that wait for the batch.", labels)
        maximum = Scalar("gauge", "num_request_max", "Most requests in the batch.", labels)
        maximum.value = max_requests
        self.kv_usage = Scalar("gauge", "gpu_cache_usage_perc", "Share of the KV cache in use, 0 to 1.", labels)
        self.prompt_tokens = Scalar("counter", "prompt_tokens_total", "Prompt tokens computed.", labels)
        self.generation_tokens = Scalar("counter", "generation_tokens_total", "Output tokens emitted.", labels)
        self.ttft = Histogram("time_to_first_token_seconds", "Arrival to first token.", labels, NIM_TTFT)
        self.itl = Histogram("time_per_output_token_seconds", "Time between two tokens.", labels, NIM_ITL)
        self.end_to_end = Histogram("e2e_request_latency_seconds", "Arrival to last token.", labels, NIM_E2E)
        tokens = token_bounds(NIM_MAX_TOKENS)
        self.request_prompt_tokens = Histogram("request_prompt_tokens", "Prompt tokens a request.", labels, tokens)
        self.request_generation_tokens = Histogram(
            "request_generation_tokens", "Output tokens a request.", labels, tokens
        )
        self._finish = LabelledCounter(
            "request_finish_total", "Finished requests by reason.", labels, "finished_reason"
        )
        self._success = Scalar("counter", "request_success_total", "Requests that ended well.", labels)
        self._failure = Scalar("counter", "request_failure_total", "Requests that failed.", labels)
        self.instruments = [
            *(self.running, self.waiting, maximum, self.kv_usage, self.prompt_tokens, self.generation_tokens),
            *(self.ttft, self.itl, self.end_to_end, self.request_prompt_tokens, self.request_generation_tokens),
            *(self._finish, self._success, self._failure),
        ]

    def count_finish(self, reason: str) -> None:
        """Count; success is finish reason stop or length."""
        self._finish.increment(reason)
        (self._success if reason in ("stop", "length") else self._failure).value += 1


class VllmMetrics(PodMetrics):
    """vLLM 0.33: prefix `vllm:`, labels `model_name` and `engine`."""

    def __init__(self, model_name: str, kv_tokens: int | None, max_model_tokens: int) -> None:
        labels = {"model_name": model_name, "engine": "0"}
        self.running = Scalar("gauge", "vllm:num_requests_running", "Requests in the batch.", labels)
        self.waiting = Scalar("gauge", "vllm:num_requests_waiting", "Requests that wait for the batch.", labels)
        self.kv_usage = Scalar("gauge", "vllm:kv_cache_usage_perc", "Share of the KV cache in use, 0 to 1.", labels)
        self.prompt_tokens = Scalar("counter", "vllm:prompt_tokens_total", "Prompt tokens computed.", labels)
        self._cached = Scalar("counter", "vllm:prompt_tokens_cached_total", "Prompt tokens found in the cache.", labels)
        self.generation_tokens = Scalar("counter", "vllm:generation_tokens_total", "Output tokens emitted.", labels)
        self._preemptions = Scalar("counter", "vllm:num_preemptions_total", "Requests pushed out of the batch.", labels)
        self._success = LabelledCounter(
            "vllm:request_success_total", "Finished requests by reason, aborted or not.", labels, "finished_reason"
        )

        def latency(name: str, text: str, bounds: tuple[float, ...]) -> Histogram:
            return Histogram(f"vllm:{name}", text, labels, bounds)

        self.ttft = latency("time_to_first_token_seconds", "Arrival to first token.", VLLM_TTFT)
        self.itl = latency("inter_token_latency_seconds", "Time between two tokens.", VLLM_ITL)
        self._per_token = latency("request_time_per_output_token_seconds", "Mean ITL of a request.", VLLM_ITL)
        self.end_to_end = latency("e2e_request_latency_seconds", "Arrival to last token.", VLLM_E2E)
        self._queue = latency("request_queue_time_seconds", "Arrival to the first step.", VLLM_E2E)
        self._inference = latency("request_inference_time_seconds", "First step to last token.", VLLM_E2E)
        self._prefill = latency("request_prefill_time_seconds", "First step to first token.", VLLM_E2E)
        self._decode = latency("request_decode_time_seconds", "First token to last token.", VLLM_E2E)
        tokens = token_bounds(max_model_tokens)
        self.request_prompt_tokens = latency("request_prompt_tokens", "Prompt tokens a request.", tokens)
        self.request_generation_tokens = latency("request_generation_tokens", "Output tokens a request.", tokens)
        self.instruments = [
            *(self.running, self.waiting, self.kv_usage, self.prompt_tokens, self._cached, self.generation_tokens),
            *(self._preemptions, self._success, self.ttft, self.itl, self._per_token, self.end_to_end),
            *(self._queue, self._inference, self._prefill, self._decode),
            *(self.request_prompt_tokens, self.request_generation_tokens),
        ]
        if kv_tokens is not None:
            info = {
                **labels,
                "block_size": str(KV_BLOCK_TOKENS),
                "num_gpu_blocks": str(kv_tokens // KV_BLOCK_TOKENS),
            }
            config = Scalar("gauge", "vllm:cache_config_info", "Size of the KV cache.", info)
            config.value = 1
            self.instruments.append(config)

    def prefilled(self, request: Request) -> None:
        """Count a first token and the cached part of its prompt."""
        super().prefilled(request)
        self._cached.value += request.cached

    def preempted(self, request: Request) -> None:
        """Count it."""
        self._preemptions.value += 1

    def finished(self, request: Request) -> None:
        """Count a request and split its time into queue, prefill and decode."""
        super().finished(request)
        if request.is_aborted:
            return
        self._queue.observe(request.admitted - request.arrival)
        self._prefill.observe(request.first_token - request.admitted)
        self._decode.observe(request.finish - request.first_token)
        self._inference.observe(request.finish - request.admitted)
        if (itl_seconds := request.itl_seconds) is not None:
            self._per_token.observe(itl_seconds)

    def count_finish(self, reason: str) -> None:
        """Count; vLLM's "success" has every finish reason."""
        self._success.increment(reason)


def pod_metrics(
    runtime: MetricsRuntime, model_name: str, *, max_requests: int, kv_tokens: int | None, max_model_tokens: int
) -> PodMetrics:
    """The metrics of a fresh pod. `max_model_tokens`: the context window, the last bucket of vLLM's token counts."""
    if runtime is MetricsRuntime.NIM:
        return NimMetrics(model_name, max_requests)
    return VllmMetrics(model_name, kv_tokens, max_model_tokens)
