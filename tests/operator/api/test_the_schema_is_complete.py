"""The generated schema: committed as generated, structural, every field described, nothing without a bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from firsttoken_operator.api.base import camel_case
from firsttoken_operator.api.crd import RESOURCES, custom_resource_definition, main, to_yaml
from firsttoken_operator.api.schema import structural_schema

ROOT = Path(__file__).parents[3]
SCHEMAS = {
    resource.kind: custom_resource_definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for resource in RESOURCES
}


def fields(schema, path=""):
    """Every field of a schema with its path, list items and map values included."""
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}", part
        yield from fields(part, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield f"{path}[]", schema["items"]
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield f"{path}{{}}", schema["additionalProperties"]
        yield from fields(schema["additionalProperties"], f"{path}{{}}")


FIELDS = [
    pytest.param(part, id=f"{kind}{path}")
    for kind, schema in SCHEMAS.items()
    for path, part in fields(schema)
    # The API server owns these.
    if not path.startswith((".metadata", ".apiVersion", ".kind"))
]


def test_the_committed_files_are_the_generated_ones():
    committed = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "crds").glob("*.yaml")}

    assert committed == {
        f"firsttoken.dev_{resource.plural}.yaml": to_yaml(custom_resource_definition(resource))
        for resource in RESOURCES
    }, "run: python -m firsttoken_operator.api.crd crds/"


def test_the_command_writes_one_file_a_resource(tmp_path, capsys):
    status = main([str(tmp_path)])

    assert status == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / path.name) for path in map(Path, written(tmp_path))]


def written(folder):
    return [folder / f"firsttoken.dev_{resource.plural}.yaml" for resource in RESOURCES]


def test_the_command_without_a_directory_says_how_to_call_it(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err == "usage: python -m firsttoken_operator.api.crd DIRECTORY\n"


@pytest.mark.parametrize("field", [p for p in FIELDS if not p.id.endswith(("[]", "{}"))])
def test_the_field_is_described_with_its_default(field):
    text = field["description"]

    assert text.endswith(".")
    assert "Required." in text or "Default: " in text
    if "default" in field and field["default"] != {}:
        default = field["default"]
        shown = str(default).lower() if isinstance(default, bool) else default
        assert f"Default: {shown}." in text.replace('""', "")


def is_number(field):
    return field.get("type") in ("integer", "number") or field.get("x-kubernetes-int-or-string", False)


@pytest.mark.parametrize("field", [p for p in FIELDS if is_number(p.values[0])])
def test_the_number_has_a_unit_and_bounds(field):
    assert "Unit: " in field["description"]
    assert {"minimum", "maximum"} <= field.keys()


@pytest.mark.parametrize("field", [p for p in FIELDS if p.values[0].get("type") == "string"])
def test_the_string_has_a_bound(field):
    assert "maxLength" in field or "enum" in field


@pytest.mark.parametrize("field", [p for p in FIELDS if p.values[0].get("type") == "array"])
def test_the_list_has_a_bound(field):
    assert field["maxItems"] <= 1000


@pytest.mark.parametrize("kind", SCHEMAS)
def test_there_is_no_place_for_what_the_schema_does_not_name(kind):
    assert [path for path, part in fields(SCHEMAS[kind]) if "x-kubernetes-preserve-unknown-fields" in part] == []


@pytest.mark.parametrize("field", [p for p in FIELDS if "additionalProperties" in p.values[0]])
def test_the_map_has_a_bound(field):
    assert field["maxProperties"] <= 16


@pytest.mark.parametrize("field", [p for p in FIELDS if "enum" in p.values[0]])
def test_no_enum_value_is_a_boolean_to_yaml_1_1(field):
    """Quoted by our writer, but not by the people who type it: `mode: Off` would be false."""
    assert {str(value).lower() for value in field["enum"]} & {"on", "off", "yes", "no", "y", "n"} == set()


@pytest.mark.parametrize("kind", [kind for kind, schema in SCHEMAS.items() if "status" in schema["properties"]])
def test_conditions_are_a_list_keyed_by_type(kind):
    conditions = SCHEMAS[kind]["properties"]["status"]["properties"]["conditions"]

    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("peak_gpus", "peakGPUs"),
        ("gpus_per_server", "gpusPerServer"),
        ("license_per_gpu_year", "licensePerGPUYear"),
        ("time_to_ready_p90_seconds", "timeToReadyP90Seconds"),
        ("n_minus_1", "nMinus1"),
        ("name", "name"),
    ],
)
def test_field_names_follow_the_api_conventions(name, expected):
    assert camel_case(name) == expected


class Tree(BaseModel):
    children: list[Tree]


class Union(BaseModel):
    value: int | list[int]


class Untyped(BaseModel):
    value: object


@pytest.mark.parametrize(
    ("model", "message"),
    [
        pytest.param(Tree, "Tree: Tree contains itself, which no structural schema can", id="a model within itself"),
        pytest.param(Union, "Union: a union of types is not structural", id="a union"),
        pytest.param(Untyped, "Untyped: a node without a type is not structural", id="anything at all"),
    ],
)
def test_what_no_structural_schema_can_say_is_refused(model, message):
    with pytest.raises(TypeError) as refusal:
        structural_schema(model)

    assert str(refusal.value) == message
