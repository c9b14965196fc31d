"""The precision of a checkpoint, from the `quantization_config` (or the data type) of its config.json."""

from __future__ import annotations

from collections.abc import Mapping

from firsttoken_sizing.catalog._config import Config

_METHODS = {
    "fp8": "FP8",
    "fbgemm_fp8": "FP8",
    "mxfp4": "MXFP4",
    "awq": "INT4",
    "gptq": "INT4",
}
_BITS = {("float", 8): "FP8", ("int", 8): "INT8", ("int", 4): "INT4", ("float", 4): "NVFP4"}
_DTYPES = {"bfloat16": "BF16", "float16": "FP16", "half": "FP16"}


def published_precision(config: Config) -> str:
    """Canonical precision of the weights. Raises `InvalidInput` for a quantization that is not known."""
    quantization = config.part("quantization_config")
    if not quantization:
        # NB: engines load 32-bit checkpoints as 16 bits.
        dtype = str(config.values.get("torch_dtype") or config.values.get("dtype") or "").removeprefix("torch.")
        return _DTYPES.get(dtype, "BF16")
    found = _by_algorithm(quantization) or _by_weights(quantization) or _by_method(quantization)
    if found is None:
        raise config.invalid(
            "quantization_config",
            f"unknown quantization {quantization.get('quant_method')!r}",
            "remove it and set model.precision",
        )
    return found


def quantizes_experts_only(config: Config) -> bool:
    """Tell whether a checkpoint leaves attention, a small part of a mixture of experts, in 16 bits."""
    quantization = config.part("quantization_config")
    left = [quantization.get(name) for name in ("modules_to_not_convert", "ignore", "exclude_modules")]
    names = [str(name) for listed in left if isinstance(listed, list | tuple) for name in listed]
    return any("self_attn" in name and ("*" in name or "layers." not in name) for name in names)


def _by_algorithm(quantization: Mapping[str, object]) -> str | None:
    """NVIDIA ModelOpt."""
    algorithm = str(quantization.get("quant_algo") or "").upper()
    for name in ("NVFP4", "MXFP4", "FP8"):
        if algorithm.startswith(name):
            return name
    if algorithm.startswith("W4A16"):
        return "INT4"
    return "INT8" if algorithm.startswith("W8A") else None


def _by_weights(quantization: Mapping[str, object]) -> str | None:
    """compressed-tensors: the first group of weights says bits and type."""
    groups = quantization.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if isinstance(weights, Mapping):
            if "mxfp4" in str(quantization.get("format")) or "mxfp4" in str(group.get("format")):
                return "MXFP4"
            bits = weights.get("num_bits")
            return _BITS.get((str(weights.get("type")), bits)) if isinstance(bits, int) else None
    return None


def _by_method(quantization: Mapping[str, object]) -> str | None:
    bits = quantization.get("bits", quantization.get("w_bit"))
    if bits == 8 and quantization.get("quant_method") in ("gptq", "awq"):
        return "INT8"
    if quantization.get("load_in_8bit") or quantization.get("_load_in_8bit"):
        return "INT8"
    if quantization.get("load_in_4bit") or quantization.get("_load_in_4bit"):
        return "INT4"
    return _METHODS.get(str(quantization.get("quant_method") or "").lower())
