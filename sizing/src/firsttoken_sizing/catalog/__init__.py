"""Facts about models and GPUs, found by any name they go by. Data files with sources; loaded once, when first asked.

What of a GPU is left for the KV cache depends on the engine, and is in `firsttoken_sizing.engines.memory`.
"""

from firsttoken_sizing.catalog.architecture import model_from_config
from firsttoken_sizing.catalog.gpus import Gpu, gpus, resolve_gpu
from firsttoken_sizing.catalog.models import Attention, Model, models, resolve_model
from firsttoken_sizing.catalog.precision import BYTES_PER_PARAMETER, resolve_precision

__all__ = [
    "BYTES_PER_PARAMETER",
    "Attention",
    "Gpu",
    "Model",
    "gpus",
    "model_from_config",
    "models",
    "resolve_gpu",
    "resolve_model",
    "resolve_precision",
]
