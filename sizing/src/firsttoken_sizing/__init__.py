"""Sizing of LLM inference: how many GPUs, which parallelism and precision, what latency, what cost, and why.

Pure: knows no Kubernetes, no network and no clock. Usable alone in a notebook:

    import firsttoken_sizing as ft

    ft.size("meta/llama3-8b-instruct", gpus="H100-SXM-80GB", precision="FP8", input_tokens=2000, output_tokens=200,
            requests_per_second=200, ttft_p95_ms=300)

`curve`, `simulate` and `side_by_side` take the same words, `read_benchmarks` the files of benchmark tools. A program
asks with a `SizingRequest` instead.

Names are imported when they are first used (PEP 562): what needs one module does not wait for all of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firsttoken_sizing.catalog.architecture import model_from_config
    from firsttoken_sizing.engines import Engine
    from firsttoken_sizing.engines.memory import Memory
    from firsttoken_sizing.errors import (
        InvalidInput,
        SizingError,
        UnknownGPU,
        UnknownModel,
        UnreadableBenchmark,
    )
    from firsttoken_sizing.notebook import curve, read_benchmarks, side_by_side, simulate, size
    from firsttoken_sizing.optimize.places import Place
    from firsttoken_sizing.performance.table import CapacityTable, Operating
    from firsttoken_sizing.profile import ConfigurationKey, Latency, Load, Point, Profile
    from firsttoken_sizing.report import sizing_json
    from firsttoken_sizing.request import Alternative, Basis, Cost, Infeasible, Job, Sizing, SizingRequest
    from firsttoken_sizing.step import StepModel, step_model
    from firsttoken_sizing.workload import (
        Arrivals,
        Batching,
        Hardware,
        Limit,
        OfflineJob,
        Percentile,
        Pricing,
        Routing,
        Sla,
        SlaMode,
        Workload,
    )

__all__ = [
    "Alternative",
    "Arrivals",
    "Basis",
    "Batching",
    "CapacityTable",
    "ConfigurationKey",
    "Cost",
    "Engine",
    "Hardware",
    "Infeasible",
    "InvalidInput",
    "Job",
    "Latency",
    "Limit",
    "Load",
    "Memory",
    "OfflineJob",
    "Operating",
    "Percentile",
    "Place",
    "Point",
    "Pricing",
    "Profile",
    "Routing",
    "Sizing",
    "SizingError",
    "SizingRequest",
    "Sla",
    "SlaMode",
    "StepModel",
    "UnknownGPU",
    "UnknownModel",
    "UnreadableBenchmark",
    "Workload",
    "curve",
    "model_from_config",
    "read_benchmarks",
    "side_by_side",
    "simulate",
    "size",
    "sizing_json",
    "step_model",
]

_MODULES = {
    "catalog.architecture": ("model_from_config",),
    "engines": ("Engine",),
    "engines.memory": ("Memory",),
    "errors": ("InvalidInput", "SizingError", "UnknownGPU", "UnknownModel", "UnreadableBenchmark"),
    "notebook": ("curve", "read_benchmarks", "side_by_side", "simulate", "size"),
    "optimize.places": ("Place",),
    "performance.table": ("CapacityTable", "Operating"),
    "profile": ("ConfigurationKey", "Latency", "Load", "Point", "Profile"),
    "report": ("sizing_json",),
    "request": ("Alternative", "Basis", "Cost", "Infeasible", "Job", "Sizing", "SizingRequest"),
    "step": ("StepModel", "step_model"),
    "workload": (
        "Arrivals",
        "Batching",
        "Hardware",
        "Limit",
        "OfflineJob",
        "Percentile",
        "Pricing",
        "Routing",
        "Sla",
        "SlaMode",
        "Workload",
    ),
}
"""Modules in which the public names live."""

if not TYPE_CHECKING:  # A type checker reads the imports above, and so still knows a name that does not exist.

    def __getattr__(name: str) -> Any:
        home = next((module for module, names in _MODULES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)
