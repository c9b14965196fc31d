"""Reading a Hugging Face `config.json`: one number under the many names that families give it.

What a number means is for `_layers` and `architecture`. Errors name the field below `model.architecture` and what else
it may be called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from firsttoken_sizing.errors import InvalidInput

FIELD = "model.architecture"
Item = TypeVar("Item")
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Fields in which multimodal models keep the language model."""
_SHARED = ("quantization_config", "tie_word_embeddings", "torch_dtype", "dtype")
"""Settings that a multimodal model may give outside of that part."""
_LARGEST = 10**9


@dataclass(frozen=True, slots=True)
class Config:
    """The part of a config.json that describes the language model."""

    values: Mapping[str, object]
    path: str = FIELD

    @property
    def model_type(self) -> str:
        """Family of the architecture, lower case; empty where the file does not say."""
        return str(self.values.get("model_type") or "").lower()

    def has(self, *names: str) -> bool:
        """Tell whether any of these fields has a value (null is none)."""
        return any(self.values.get(name) is not None for name in names)

    def whole(self, *names: str) -> int:
        """A positive whole number under the first of these names. Raises `InvalidInput` where none has one."""
        found = self.optional(*names)
        if found is None:
            also = f" (also written {', '.join(names[1:])})" if len(names) > 1 else ""
            raise self.invalid(names[0], "is missing", f"copy it from the model's config.json{also}")
        if found == 0:
            raise self.invalid(next(n for n in names if self.has(n)), "is 0", "use the number of the config.json")
        return found

    def optional(self, *names: str) -> int | None:
        """A whole number >= 0 under the first of these names that has a value, or None."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 != 0:
                raise self.invalid(name, f"{value!r} is not a whole number", "use the number of the config.json")
            whole = int(value)
            if not 0 <= whole <= _LARGEST:
                raise self.invalid(name, f"{whole} is out of range", "use the number of the config.json")
            return whole
        return None

    def items(self, name: str, kind: type[Item], length: int | None = None) -> Sequence[Item] | None:
        """A list whose items are all of a kind, of this length where one is given; None where the field is absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or not all(isinstance(item, kind) for item in value):
            raise self.invalid(name, "is not the list that a config.json has there", "copy it as it is")
        if length is not None and len(value) < length:
            raise self.invalid(name, f"has {len(value)} items for {length} layers", "copy the whole list")
        return value

    def part(self, name: str) -> Mapping[str, object]:
        """A nested object, empty where there is none."""
        value = self.values.get(name)
        return value if isinstance(value, Mapping) else {}

    def invalid(self, name: str, problem: str, fix: str) -> InvalidInput:
        """The error about one field."""
        return InvalidInput(f"{self.path}.{name}", problem, fix)


def language_part(config: Mapping[str, object]) -> Config:
    """The language model of a config.json: the whole of it, or the nested part of a multimodal model."""
    for name in _TEXT_PARTS:
        part = config.get(name)
        if isinstance(part, Mapping) and "num_hidden_layers" not in config:
            nested = language_part(part)
            outer = {key: config[key] for key in _SHARED if config.get(key) is not None}
            path = nested.path.replace(FIELD, f"{FIELD}.{name}", 1)
            return Config({**outer, **{k: v for k, v in nested.values.items() if v is not None}}, path)
    return Config(config)
