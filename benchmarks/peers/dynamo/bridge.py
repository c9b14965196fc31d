"""Run by the Python of Dynamo's environment: its own planner, stepped through a replay by JSON lines.

First line in: the setup (see `setup`). Then one line an interval: {"ready", "replicas", "started", "seconds",
"inputTokens", "outputTokens", "cachedInputShare"}; each is answered with {"replicas": the target, or null where it has
none, "reason"}.

Its own: `ReplayPlannerAdapter` (the scaling policy of Dynamo's offline replay) with everything behind it: the plugin
pipeline, load predictors, `PlannerScalingState`, the engine performance model of its runtime. Replaced: the metrics
source, by the lines; the connector, by the answers; the profile of the engine, by forward passes in the setup.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

CLUSTER_AND_METRICS = ("kubernetes", "prometheus_api_client", "requests")
"""Imported by the planner's connectors and metrics source, which are not called here."""
LEARNING = ("pandas", "filterpy", "pmdarima", "prophet", "sklearn")
"""Imported for every predictor, and for the regressions that its runtime's performance model replaced: 7 s."""
NEEDED = {"constant": (), "kalman": ("filterpy",), "arima": ("pandas", "pmdarima", "sklearn")}
"""Packages of these that are needed, by predictor."""
TICK_MAX_SECONDS = 3600.0
"""Deadline of its tick, which is wall time: on a busy machine it would skip ticks that no simulated time passed in."""


class Nothing(MetaPathFinder, Loader):
    """Modules whose every name is an exception class that is never raised: enough for `import` and `except`."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self._packages else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def anything(name: str) -> type[Exception]:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (Exception,), {})

        module.__getattr__ = anything  # type: ignore[method-assign]


def setup(given: dict[str, Any]) -> Any:
    """The planner for one aggregated engine, bootstrapped.

    `given`: intervalSeconds, predictor, ttftMilliseconds, itlMilliseconds, minReplicas, maxReplicas, tokensPerStep,
    maxBatch, kvCacheTokens (or null), and forwardPasses: [prompts, prompt tokens, sequences, their context tokens,
    seconds].
    """
    unused = tuple(package for package in LEARNING if package not in NEEDED[given["predictor"]])
    sys.meta_path.insert(0, Nothing(CLUSTER_AND_METRICS + unused))
    logging.disable(logging.ERROR)
    # Without it the planner would fall back to having no capacity, and silently never scale.
    import dynamo.mocker  # type: ignore[import-not-found]  # noqa: F401
    from dynamo.common.forward_pass_metrics import (  # type: ignore[import-not-found]
        ForwardPassMetrics,
        ScheduledRequestMetrics,
    )
    from dynamo.planner.config.planner_config import PlannerConfig  # type: ignore[import-not-found]
    from dynamo.planner.core.types import EngineCapabilities, WorkerCapabilities  # type: ignore[import-not-found]
    from dynamo.planner.offline.replay_adapter import (  # type: ignore[import-not-found]
        create_replay_planner_adapter,
    )

    interval = given["intervalSeconds"]
    config = PlannerConfig(
        environment="virtual",
        mode="agg",
        optimization_target="sla",
        ttft_ms=given["ttftMilliseconds"],
        itl_ms=given["itlMilliseconds"],
        load_predictor=given["predictor"],
        throughput_adjustment_interval_seconds=interval,
        # Live forward passes are not replayed, so nothing happens between two throughput decisions.
        load_adjustment_interval_seconds=interval,
        scheduling={"scale_interval_seconds": interval, "tick_max_duration_seconds": TICK_MAX_SECONDS},
        # The budget is in GPUs; with one GPU an engine it is in replicas.
        decode_engine_num_gpu=1,
        max_gpu_budget=given["maxReplicas"],
        min_endpoint=given["minReplicas"],
        pre_deployment_sweeping_mode="none",
        report_interval_hours=None,
        live_dashboard_port=0,
    )
    engine = EngineCapabilities(
        num_gpu=1,
        max_num_batched_tokens=given["tokensPerStep"],
        max_num_seqs=given["maxBatch"],
        max_kv_tokens=given["kvCacheTokens"],
    )
    planner = create_replay_planner_adapter(config, WorkerCapabilities(decode=engine))
    planner.install_benchmark_fpms(
        agg_fpms=[
            ForwardPassMetrics(
                wall_time=seconds,
                scheduled_requests=ScheduledRequestMetrics(
                    num_prefill_requests=prompts,
                    sum_prefill_tokens=tokens,
                    num_decode_requests=sequences,
                    sum_decode_kv_tokens=context,
                ),
            )
            for prompts, tokens, sequences, context, seconds in given["forwardPasses"]
        ]
    )
    planner.start()
    return planner


def tick(planner: Any, seen: dict[str, Any]) -> dict[str, Any]:
    """One interval: what its frontend and the cluster would tell, and what it would ask for."""
    answer = planner.on_tick(
        {
            "active_prefill_count": 0,
            "active_prefill_ids": [],
            "active_decode_count": seen["ready"],
            "non_draining_decode_count": seen["replicas"],
            "active_decode_ids": list(range(seen["ready"])),
            "traffic": {
                "duration_s": seen["seconds"],
                "num_req": seen["started"],
                "avg_isl": seen["inputTokens"],
                "avg_osl": seen["outputTokens"],
                "avg_kv_hit_rate": seen["cachedInputShare"],
            },
        }
    )
    return {"replicas": answer["target_decode"], "reason": reason(planner)}


def reason(planner: Any) -> str | None:
    """Reason of the last tick's decision, in the planner's words."""
    last = planner._diagnostics_log[-1] if planner._diagnostics_log else None
    return None if last is None else last.throughput_decision_reason


def main() -> None:
    """Answer until the input ends. Standard output is for answers alone; what others print goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    planner = setup(json.loads(sys.stdin.readline()))
    try:
        for line in sys.stdin:
            print(json.dumps(tick(planner, json.loads(line))), file=answers, flush=True)
    finally:
        planner.close()


if __name__ == "__main__":
    main()
