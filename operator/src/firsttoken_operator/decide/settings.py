"""Settings that the pods are started with, held against those that were sized. It is told, and scales nothing.

What cannot be read says nothing. A setting that the pods leave to their engine is what the sizing takes for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from firsttoken_operator.domain import Reason, ResourceSnapshot, Sized, Target
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig
from firsttoken_operator.runtimes.settings import SizedSettings, Started, StartSettings

Said = tuple[bool | None, Reason, str]
SettingValue = str | float | bool


class _Words(NamedTuple):
    """Words for a setting, the field that declares it, and whether it means the same in two engines."""

    name: str
    field: str
    is_general: bool = False


_WORDS = {
    "engine": _Words("engine", "sizing.engine", is_general=True),
    "tensor_parallel": _Words("tensor parallelism", "hardware.tensorParallel", is_general=True),
    "pipeline_parallel": _Words("pipeline parallelism", "hardware.pipelineParallel", is_general=True),
    "data_parallel": _Words("groups of attention", "hardware.attentionDataParallel"),
    "longest_tokens": _Words("tokens of a request", "traffic", is_general=True),
    "max_batch": _Words("sequences at once", "sizing.engineSettings.maxBatchSize"),
    "tokens_per_step": _Words("tokens of a step", "sizing.engineSettings.maxBatchedTokens"),
    "kv_cache_bits": _Words("bits of the KV cache", "sizing.engineSettings.kvCacheType"),
    "memory_share": _Words("share of memory", "sizing.engineSettings.gpuMemoryPercent"),
    "speculates": _Words("speculative decoding", "sizing.speculativeDecoding", is_general=True),
    "draft_method": _Words("draft method", "sizing.speculativeDecoding.method"),
    "draft_tokens": _Words("draft tokens", "sizing.speculativeDecoding.draftTokens"),
}


class _Compared(NamedTuple):
    """A setting of which both values are known. `is_left`: the pods leave it to their engine."""

    name: str
    sized: SettingValue
    started: SettingValue
    is_left: bool

    def is_same(self, config: EstimatorConfig) -> bool:
        """Tell whether the size holds for what runs; a request may be longer than those that were sized."""
        if self.name == "memory_share":
            return abs(float(self.sized) - float(self.started)) < config.decision.same_memory_share
        if self.name == "longest_tokens":
            return float(self.started) >= float(self.sized)
        return self.started == self.sized

    @property
    def text(self) -> str:
        """Both values in words, and the field that would declare what runs."""
        words, started = _WORDS[self.name], _written(self.started)
        runs = f"left to the engine ({started})" if self.is_left else f"started with {started}"
        return f"{words.name}: sized {_written(self.sized)}, {runs} ({words.field})"


def settings_match(resource: ResourceSnapshot, config: EstimatorConfig = DEFAULT) -> Said | None:
    """Judge whether the pods run with what was sized; None: that is not known, or they are being replaced."""
    sized, target = resource.sized, resource.target
    if not isinstance(sized, Sized) or not isinstance(target, Target) or target.rollout:
        return None
    if sized.settings is None or target.started is None:
        return None
    compared = list(_compared(sized.settings, target.started))
    if not compared:
        return None
    if differing := [each.text for each in compared if not each.is_same(config)]:
        way_out = "declare what runs, or start the pods with what was sized"
        return False, Reason.SETTINGS_DIFFER, f"{'; '.join(differing)}; {way_out}"
    names = ", ".join(_WORDS[each.name].name for each in compared)
    return True, Reason.SETTINGS_MATCH, f"the pods are started with what was sized: {names}"


def _compared(sized: SizedSettings, started: Started) -> Iterator[_Compared]:
    engine = started.given.engine
    is_other = engine is not None and engine is not sized.told.engine
    for name, words in _WORDS.items():
        if is_other and not words.is_general:
            continue
        given, wanted = _value(started.given, name), _value(sized.told, name)
        is_left = given is None and name in started.left
        runs = _value(sized.as_installed, name) if is_left else given
        if wanted is not None and runs is not None:
            yield _Compared(name, wanted, runs, is_left)


def _value(settings: StartSettings, name: str) -> SettingValue | None:
    value: SettingValue | None = getattr(settings, name)
    return value


def _written(value: SettingValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
