"""`spec.model.architecture` has a place for each number that the sizing reads, and for nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import firsttoken_sizing.catalog
from firsttoken_operator.api.architecture import Architecture
from firsttoken_sizing.catalog.architecture import model_from_config

CATALOG = Path(firsttoken_sizing.catalog.__file__).parent
READ = re.compile(r"\b(?:config|text|self)\.(?:values\.get|whole|optional|has|items|part)\(([^()]*)\)")


def filled(model: type[BaseModel]) -> dict[str, Any]:
    """A document with every field of a model."""
    schema = model.model_json_schema()

    def value(part: dict[str, Any]) -> Any:
        if "$ref" in part:
            return value(schema["$defs"][part["$ref"].rsplit("/", 1)[-1]])
        if "anyOf" in part:
            return value(part["anyOf"][0])
        if part["type"] == "object":
            named = {name: value(inner) for name, inner in part.get("properties", {}).items()}
            return named or {"group_0": value(part["additionalProperties"])}
        if part["type"] == "array":
            return [value(part["items"])]
        return {"string": "text", "boolean": True, "integer": 1, "number": 1.5}[part["type"]]

    found: dict[str, Any] = value(schema)
    return found


FILLED = filled(Architecture)


def test_every_field_that_the_sizing_reads_is_there() -> None:
    sources = [(CATALOG / f"{name}.py").read_text() for name in ("architecture", "_layers", "_parameters")]
    sources.append((CATALOG / "_quantization.py").read_text())
    calls = [call for source in sources for call in READ.findall(source)]
    read = {field for call in calls for field in re.findall(r'"([a-z0-9_]+)"', call)}
    read |= set(re.findall(r'"([a-z_]+)"', re.search(r"EXPERTS = \((.*)\)", sources[1])[1]))  # type: ignore[index]

    assert len(read) > 80
    assert read <= set(Architecture.model_fields)


def test_what_was_written_is_what_the_sizing_gets() -> None:
    config = {
        "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768,
        "num_local_experts": 8, "num_experts_per_tok": 2, "layer_types": ["full_attention"] * 32,
        "quantization_config": {"config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}},
    }  # fmt: skip
    declared = Architecture.model_validate(config).model_dump(exclude_none=True)

    assert model_from_config("own", declared) == model_from_config("own", config)
    assert list(model_from_config("own", declared).published_precisions) == ["FP8"]


def test_every_field_may_be_written() -> None:
    assert Architecture.model_validate(FILLED).model_dump(mode="json") == FILLED


@pytest.mark.parametrize("value", [{"x": 1}, [1], "4096", True, 10**10, -1], ids=str)
def test_a_number_is_a_number(value: object) -> None:
    with pytest.raises(ValidationError):
        Architecture.model_validate({"hidden_size": value})


@pytest.mark.parametrize("field", ["layer_types", "mlp_only_layers", "block_configs"])
def test_a_list_has_at_most_an_entry_for_each_of_a_thousand_layers(field: str) -> None:
    with pytest.raises(ValidationError):
        Architecture.model_validate({field: FILLED[field] * 1001})
