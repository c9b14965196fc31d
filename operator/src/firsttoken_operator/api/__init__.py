"""The custom resources: models, their schema, reading them from YAML, and turning them into domain values.

Pydantic stays in this package: sizing and decide get the frozen values that `convert` makes.

Names are imported when they are first used (PEP 562): what needs one module does not wait for all of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firsttoken_operator.api.base import API_VERSION, GROUP, VERSION
    from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
    from firsttoken_operator.api.convert import scaling_policy, sizing_request, workload
    from firsttoken_operator.api.documents import Documents, load_documents, parse_documents
    from firsttoken_operator.api.errors import ApiError, InvalidDocument, UnreadableDocument
    from firsttoken_operator.api.gpu_pool import GPUPool, Location
    from firsttoken_operator.api.inference_deployment import InferenceDeployment
    from firsttoken_operator.api.profiles import benchmark_document, profile
    from firsttoken_operator.api.schedule import Schedule, schedule_of, scheduled_peak

__all__ = [
    "API_VERSION",
    "GROUP",
    "VERSION",
    "ApiError",
    "BenchmarkProfile",
    "Documents",
    "GPUPool",
    "InferenceDeployment",
    "InvalidDocument",
    "Location",
    "Schedule",
    "UnreadableDocument",
    "benchmark_document",
    "load_documents",
    "parse_documents",
    "profile",
    "scaling_policy",
    "schedule_of",
    "scheduled_peak",
    "sizing_request",
    "workload",
]

_MODULES = {
    "base": ("API_VERSION", "GROUP", "VERSION"),
    "benchmark_profile": ("BenchmarkProfile",),
    "convert": ("scaling_policy", "sizing_request", "workload"),
    "documents": ("Documents", "load_documents", "parse_documents"),
    "errors": ("ApiError", "InvalidDocument", "UnreadableDocument"),
    "gpu_pool": ("GPUPool", "Location"),
    "inference_deployment": ("InferenceDeployment",),
    "profiles": ("benchmark_document", "profile"),
    "schedule": ("Schedule", "schedule_of", "scheduled_peak"),
}
"""Where each public name lives."""

if not TYPE_CHECKING:  # A type checker reads the imports above, and so still knows a name that does not exist.

    def __getattr__(name: str) -> Any:
        home = next((module for module, names in _MODULES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        return value
