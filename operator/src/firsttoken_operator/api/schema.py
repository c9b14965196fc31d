"""Translation of a pydantic model to the structural OpenAPI v3 schema that a CustomResourceDefinition takes.

pydantic writes JSON Schema 2020-12; the API server wants the smaller OpenAPI 3.0 subset with a type at every node, no
references and no nulls. What has no counterpart there is refused with `TypeError` rather than weakened.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from firsttoken_operator.api.forms import FORMS

Schema = dict[str, Any]

_DROPPED = frozenset({"title", "examples", "unit", "absent"})
_KEPT = frozenset(
    {
        "type", "description", "default", "enum", "format", "pattern", "required", "properties", "items",
        "additionalProperties", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
        "minimum", "maximum",
    }
)  # fmt: skip


def structural_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of `model`, every field described with its unit and default.

    Raises TypeError for a construct that a structural schema cannot express (a recursive model, a union of types).
    """
    _, document = models_json_schema([(model, "validation")], by_alias=True)
    definitions: dict[str, Schema] = document.get("$defs", {})
    return _convert({"$ref": f"#/$defs/{model.__name__}"}, definitions, ())


def said_in_words(schema: Schema) -> Schema:
    """The same schema with a rule in place of each pattern: the API server then refuses with words and an example.

    Of a pattern it would show the expression itself. Raises KeyError for one that `FORMS` has no words for.
    """
    result = {key: value for key, value in schema.items() if key != "pattern"}
    if (pattern := schema.get("pattern")) is not None:
        form = FORMS[pattern]
        rule, fix = f"self.matches(r'{pattern}')", f"write it as in {form.example}"
        if schema.get("x-kubernetes-int-or-string"):
            rule, fix = f"type(self) != string || {rule}", f'write an integer or a decimal such as "{form.example}"'
        result["x-kubernetes-validations"] = [{"rule": rule, "message": f"is not {form.words}; {fix}"}]
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = said_in_words(schema[key])
    if "properties" in schema:
        result["properties"] = {name: said_in_words(part) for name, part in schema["properties"].items()}
    return result


def _convert(schema: Schema, definitions: dict[str, Schema], inside: tuple[str, ...]) -> Schema:
    schema, inside = _resolve(schema, definitions, inside)
    result: Schema = {}
    for key, value in schema.items():
        if key in _DROPPED:
            continue
        if key == "properties":
            required = schema.get("required", [])
            result[key] = {
                name: _described(_convert(part, definitions, inside), part, name in required)
                for name, part in value.items()
            }
        elif key == "items" or (key == "additionalProperties" and isinstance(value, dict)):
            result[key] = _convert(value, definitions, inside)
        elif key == "additionalProperties" and value is False:
            continue
        elif key == "const":
            result["enum"] = [value]
        elif key in ("exclusiveMinimum", "exclusiveMaximum"):
            # NB: a number in JSON Schema 2020-12, a boolean beside minimum/maximum in OpenAPI 3.0.
            result["minimum" if key == "exclusiveMinimum" else "maximum"] = value
            result[key] = True
        elif key == "default":
            if (default := _default(value)) is not None:
                result[key] = default
        elif key in _KEPT or key.startswith("x-kubernetes-"):
            result[key] = value
        else:
            raise TypeError(f"{'/'.join(inside)}: {key} has no counterpart in a structural schema")
    if "type" not in result and "x-kubernetes-int-or-string" not in result:
        raise TypeError(f"{'/'.join(inside)}: a node without a type is not structural")
    return result


def _resolve(schema: Schema, definitions: dict[str, Schema], inside: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
    """Inline references and take the only type out of `anyOf: [T, null]`; keywords beside them win."""
    while True:
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[-1]
            if name in inside:
                raise TypeError(f"{'/'.join(inside)}: {name} contains itself, which no structural schema can")
            inside = (*inside, name)
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**definitions[name], **beside}
        elif "anyOf" in schema:
            types = [part for part in schema["anyOf"] if part != {"type": "null"}]
            if len(types) != 1:
                raise TypeError(f"{'/'.join(inside)}: a union of types is not structural")
            beside = {key: value for key, value in schema.items() if key != "anyOf"}
            schema = {**types[0], **beside}
        else:
            return schema, inside


def _default(value: Any) -> Any:
    """The default that the API server fills in, None where there is none.

    NB: the default of a nested object is {}, so that the defaults of its own fields apply; written out, it would hold
    nulls. An empty list says the same as an absent one.
    """
    if isinstance(value, dict):
        return {}
    return None if value in (None, []) else value


def _described(schema: Schema, source: Schema, required: bool) -> Schema:
    """Add unit and default to the description of one field."""
    text = schema.get("description", "")
    if unit := source.get("unit"):
        text += f" Unit: {unit}."
    if required:
        text += " Required."
    elif "default" in schema:
        default = schema["default"]
        text += " Default: its fields' defaults." if default == {} else f" Default: {_spelled(default)}."
    else:
        absent = source.get("absent")
        text += f" Default: none ({absent})." if absent else " Default: none."
    # Description first: it is what a reader of the YAML looks for.
    return {"description": text, **{key: value for key, value in schema.items() if key != "description"}}


def _spelled(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return '""' if default == "" else str(default)
