"""Settings of a replica in one form for all servers: as they were sized, and as a container is started with them.

`Options` are a server's own words for them. A setting that cannot be told is None and says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.spec import SIXTEEN_BITS

T = TypeVar("T")

Given = Mapping[str, str]
"""Values of a server's options as they are written, by name without dashes in front and with underscores inside.

The last one given comes last."""


@dataclass(frozen=True, slots=True)
class StartSettings:
    """Settings that a size depends on. None: not known."""

    engine: Engine | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    """Groups of GPUs with an attention of their own."""
    longest_tokens: int | None = None
    """Longest prompt and answer together: that is admitted, or that was sized for."""
    max_batch: int | None = None
    """Sequences that run at once."""
    tokens_per_step: int | None = None
    kv_cache_bits: int | None = None
    """Bits of each number in the KV cache."""
    memory_share: float | None = None
    """Share of a GPU's memory, 0..1, in the meaning of the engine's own option."""
    speculates: bool | None = None
    draft_tokens: int | None = None
    """Tokens proposed at a time; None also where nothing speculates."""
    draft_method: str | None = None
    """Source of the proposed tokens: a `DraftMethod`, or the server's own word; None also where nothing speculates."""


@dataclass(frozen=True, slots=True)
class SizedSettings:
    """Settings that a replica was sized with. `as_installed`: those of its engine where nothing is declared."""

    told: StartSettings
    as_installed: StartSettings


@dataclass(frozen=True, slots=True)
class Started:
    """Settings that a container is started with. `left`: names of those that are left to the engine."""

    given: StartSettings
    left: frozenset[str] = frozenset()
    drain: Drain | None = None
    """None: it has no limit of its own, or it cannot be read."""


class Drain(NamedTuple):
    """A server's own limit on ending what is under way once it is asked to stop: its option, and its seconds."""

    option: str
    seconds: float


class Speculation(NamedTuple):
    """Speculative decoding of a start; None: no option says so."""

    speculates: bool | None = None
    draft_tokens: int | None = None
    draft_method: str | None = None


Drafts = Callable[[Given], Speculation]


def no_drafts(given: Given) -> Speculation:
    """Read nothing, for a server that has no option for it."""
    return Speculation()


@dataclass(frozen=True, slots=True)
class Options:
    """A server's words for the settings: how it is started, and the names of its options."""

    starts: tuple[tuple[str, ...], ...]
    """Words that start it, without the folder of the first; its options follow."""
    engine: Engine | None = None
    """None: the container's image tells."""
    images: tuple[str, ...] = ()
    """Last part of the names of images that run it without a command: their arguments are its options."""
    tensor_parallel: tuple[str, ...] = ()
    pipeline_parallel: tuple[str, ...] = ()
    data_parallel: tuple[str, ...] = ()
    longest_tokens: tuple[str, ...] = ()
    max_batch: tuple[str, ...] = ()
    tokens_per_step: tuple[str, ...] = ()
    kv_cache_bits: tuple[str, ...] = ()
    memory_share: tuple[str, ...] = ()
    drafts: Drafts = no_drafts
    files: tuple[str, ...] = ()
    """Options that name a file with further settings: what no option gives may stand there."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that say the same as options, which win: the option's name by the variable's."""
    passed: str = ""
    """Variable whose text is options, which win over variables."""
    drain: Drain | None = None
    """Option for the time to end what is under way, and its seconds as installed; None: it has none."""

    def settings(self, given: Given) -> StartSettings:
        """Read the settings that options give."""
        speculation = self.drafts(given)
        return StartSettings(
            engine=self.engine,
            tensor_parallel=_told(given, self.tensor_parallel, whole),
            pipeline_parallel=_told(given, self.pipeline_parallel, whole),
            data_parallel=_told(given, self.data_parallel, whole),
            longest_tokens=_told(given, self.longest_tokens, whole),
            max_batch=_told(given, self.max_batch, whole),
            tokens_per_step=_told(given, self.tokens_per_step, whole),
            kv_cache_bits=_told(given, self.kv_cache_bits, cache_bits),
            memory_share=_told(given, self.memory_share, share),
            **speculation._asdict(),
        )

    def left(self, given: Given) -> frozenset[str]:
        """Names of the settings that no option gives. None of one of which another source may say more."""
        if self.engine is None or any(name in given for name in self.files):
            return frozenset()
        words = {name: getattr(self, name) for name in _IN_ONE_OPTION}
        left = {name for name, options in words.items() if options and (_last(given, options) or "").lower() in LEFT}
        return frozenset(left if self.drafts(given).speculates is not None else {*left, "speculates"})

    def drained(self, given: Given, *, is_whole: bool) -> Drain | None:
        """Read the limit on ending what is under way. `is_whole`: all options are known."""
        if self.drain is None:
            return None
        text = given.get(self.drain.option.lstrip("-").replace("-", "_"))
        if text is None:
            return self.drain if is_whole and not any(name in given for name in self.files) else None
        return Drain(self.drain.option, float(text)) if re.fullmatch(r"[0-9]{1,6}", text) else None


_IN_ONE_OPTION = (
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "longest_tokens", "max_batch", "tokens_per_step"),
    *("kv_cache_bits", "memory_share"),
)
LEFT = frozenset({"", "auto"})
"""Values with which an option leaves its setting to the engine."""
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_BITS = {
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla", "int8"), SIXTEEN_BITS // 2),
    **dict.fromkeys(("fp16", "float16", "half", "bf16", "bfloat16"), SIXTEEN_BITS),
    **dict.fromkeys(("nvfp4", "fp4_e2m1"), SIXTEEN_BITS // 4),
}
"""Bits of the number formats that the servers name."""


def whole(text: str) -> int | None:
    """A count above 0, also as vLLM writes it: `32k` is 32,000 and `32K` is 32,768; None for anything else."""
    found = re.fullmatch(r"([0-9]{1,9})(?:\.([0-9]{1,3}))?([kKmMgG]?)", text)
    if found is None or (found[2] and not found[3]):
        return None
    thousandths = int(found[1]) * 1000 + int((found[2] or "0").ljust(3, "0"))
    return thousandths * _SUFFIXES[found[3]] // 1000 or None


def share(text: str) -> float | None:
    """A share above 0 and up to 1; None for anything else."""
    value = float(text) if re.fullmatch(r"[01]?\.[0-9]{1,9}|[01]", text) else 0.0
    return value if 0 < value <= 1 else None


def cache_bits(text: str) -> int | None:
    """Bits of a number format of the KV cache; None for one that is not known, or that the engine chooses."""
    return _BITS.get(text.lower())


def _told(given: Given, names: tuple[str, ...], read: Callable[[str], T | None]) -> T | None:
    text = _last(given, names)
    return None if text is None else read(text)


def _last(given: Given, names: tuple[str, ...]) -> str | None:
    """Value of the last option that was given of several with the same meaning; None: none was."""
    return next((given[name] for name in reversed(tuple(given)) if name in names), None)
