"""Base of every model of a custom resource: names, immutability, described fields, and rules declared once.

A rule carries its CEL expression (for the API server), its message and its Python check (for YAML read without a
cluster) in one value, so the cluster and `firsttoken size` cannot disagree about what is allowed. Schema generation is
in `schema`, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self, dataclass_transform

from pydantic import (
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Strict,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

GROUP = "firsttoken.dev"
VERSION = "v1alpha1"
API_VERSION: Final = "firsttoken.dev/v1alpha1"
UNREADABLE = "firsttoken.dev/unreadable"
"""Key in the place of what an object is, where it is too large to be read: why."""

STORED: Final = "stored"
"""Context in which an object is validated that the API server holds already (see `Rule.stored`)."""
RULE_ERROR = "firsttoken_rule"
"""Type of the pydantic errors that a broken rule or a custom type raises; their context holds field, problem, fix."""

# NB: pydantic's lax mode takes "5" and True for an integer; the API server does not.
Int = Annotated[int, Strict()]
Number = Annotated[float, Strict(), AllowInfNan(False)]

_GIVEN: dict[frozenset[str], set[str]] = {}
"""Sets of names of fields, one for each that there is; what copies a model copies its set."""

_ACRONYMS = {"gpu": "GPU", "gpus": "GPUs"}


def camel_case(name: str) -> str:
    """The API's spelling of a Python field name (`charged_gpus` -> `chargedGPUs`)."""
    head, *rest = name.split("_")
    return head + "".join(_ACRONYMS.get(word, word[:1].upper() + word[1:]) for word in rest)


def described(
    text: str, *, default: Any = ..., unit: str = "", absent: str = "", map_keys: Sequence[str] = (), **field: Any
) -> Any:
    """Describe one schema field: what it means, its unit, and what its absence means where it has no default.

    The generator appends unit and default to the text, so that neither can drift from the code. `map_keys`: the fields
    that tell the entries of a list apart, where clients may change them one by one. `field`: as pydantic's `Field`.
    """
    extra: dict[str, Any] = {key: value for key, value in (("unit", unit), ("absent", absent)) if value}
    if map_keys:
        extra |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(map_keys)}
    return Field(default, description=text, json_schema_extra=extra, **field)


def optional(text: str, **field: Any) -> Any:
    """Describe one schema field that is None where the object does not have it; `field`: as `described`."""
    return described(text, default=None, **field)


def refusal(problem: str, fix: str, *, field: str = "") -> PydanticCustomError:
    """The pydantic error that names `problem` and `fix`; `field` is a camelCase path below the place it is raised."""
    return PydanticCustomError(RULE_ERROR, "{problem}; {fix}", {"field": field, "problem": problem, "fix": fix})


@dataclass(frozen=True, slots=True)
class Rule:
    """One condition between fields of one object.

    `cel` is evaluated by the API server, `holds` by pydantic; `holds` is None for a transition rule, which needs the
    old object. `stored` is what an object of the API server is held to, where the rule came later than such objects may
    have: a new one is refused, and what runs is scaled on; None: the same. `field` is the camelCase path (below the
    object) that the message is about. `required` says that the field is missing rather than wrong.
    """

    cel: str
    problem: str
    fix: str
    holds: Callable[[Any], bool] | None = None
    field: str = ""
    required: bool = False
    stored: Callable[[Any], bool] | None = None

    @property
    def message(self) -> str:
        """Sentence that the API server answers."""
        return f"{self.problem}; {self.fix}"

    def validation(self) -> dict[str, str]:
        """The entry of `x-kubernetes-validations`."""
        entry = {"rule": self.cel, "message": self.message}
        if self.field:
            entry["fieldPath"] = f".{self.field}"
        if self.required:
            entry["reason"] = "FieldValueRequired"
        return entry


@dataclass_transform(kw_only_default=True, field_specifiers=(described, Field))
class ApiModel(BaseModel):
    """A part of a custom resource: frozen, camelCase outside, snake_case inside.

    Fields that this version does not know are ignored here (an older operator meets newer objects); `documents` reports
    them for YAML that a person wrote.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=camel_case, validate_by_name=True, validate_by_alias=True
    )

    RULES: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _obey_rules(self, info: ValidationInfo) -> Self:
        for rule in self.RULES:
            holds = rule.stored if rule.stored is not None and info.context == STORED else rule.holds
            if holds is not None and not holds(self):
                raise refusal(rule.problem, rule.fix, field=rule.field)
        return self

    @model_validator(mode="after")
    def _share_names(self) -> Self:
        # NB: pydantic keeps a set of the names that were given with every object, a third of its memory.
        given = frozenset(self.__pydantic_fields_set__)
        object.__setattr__(self, "__pydantic_fields_set__", _GIVEN.setdefault(given, set(given)))
        return self

    @classmethod
    def remade(cls, before: Self | None, **fields: object) -> Self:
        """Make one of these fields, the others absent; `before` itself where it says the same.

        To compare takes a tenth of the time of a validation, and what is kept takes no memory again.
        """
        if before is not None and before.__dict__ == {**_absent(cls), **fields}:
            return before
        return cls.model_validate(fields)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        if cls.RULES:
            schema["x-kubernetes-validations"] = [rule.validation() for rule in cls.RULES]
        return schema


@cache
def _absent(kind: type[ApiModel]) -> Mapping[str, object]:
    """Values of the fields that are not given."""
    return {name: field.get_default(call_default_factory=True) for name, field in kind.model_fields.items()}


class Metadata(ApiModel):
    """The parts of an object's metadata that firsttoken reads. Its schema is the API server's own."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name in tables and pictures, with the namespace where there is one."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
