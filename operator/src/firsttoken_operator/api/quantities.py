"""The number and string types of the API: rates and amounts without floats, names, Quantities, timestamps.

Kubernetes custom resources avoid floats, because two clients may print the same float differently: a rate is an integer
or a string such as "28.54" or "500m". Each type carries its schema and a refusal that names the fix.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from firsttoken_operator.api import forms
from firsttoken_operator.api.base import ApiModel, Rule, camel_case, refusal

MAX_DECIMAL_LENGTH = 16
MAX_INTEGER = 1_000_000_000
MAX_REQUESTS_PER_SECOND = 1_000_000
RATE_FIX = 'write requests per second, such as "28.54"'


def _checker(pattern: str) -> Callable[[object], object]:
    """A validator for a non-negative decimal number that is kept exactly as it was written."""
    compiled = re.compile(pattern)
    words, example = forms.FORMS[pattern]

    def check(value: object) -> object:
        if isinstance(value, float):
            raise refusal(f"{value} is a float", f'quote it: "{value}"')
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise refusal(f"{value!r} is not a number", f'write an integer or a quoted decimal such as "{example}"')
        if isinstance(value, int) and not 0 <= value <= MAX_INTEGER:
            raise refusal(f"{value} is out of range", f"write a number from 0 to {MAX_INTEGER}")
        if isinstance(value, str) and (len(value) > MAX_DECIMAL_LENGTH or not compiled.match(value)):
            raise refusal(f"{value!r} is not {words}", f'write an integer or a decimal such as "{example}"')
        return value

    return check


def _int_or_string(pattern: str) -> dict[str, Any]:
    return {
        "x-kubernetes-int-or-string": True,
        "pattern": pattern,
        "maxLength": MAX_DECIMAL_LENGTH,
        "minimum": 0,
        "maximum": MAX_INTEGER,
    }


Rate = Annotated[int | str, BeforeValidator(_checker(forms.RATE)), WithJsonSchema(_int_or_string(forms.RATE))]
"""Requests a second, or another ratio: at most three decimals, or thousandths with the suffix m."""
Amount = Annotated[int | str, BeforeValidator(_checker(forms.AMOUNT)), WithJsonSchema(_int_or_string(forms.AMOUNT))]
"""Money, GPU-hours, percents with decimals: at most six decimals."""
SignedAmount = Annotated[str, Field(max_length=MAX_DECIMAL_LENGTH, pattern=forms.SIGNED_AMOUNT)]
"""An amount that may be negative, such as a saving."""

Name = Annotated[str, Field(max_length=63, pattern=forms.NAME)]
"""A DNS label: the name of a namespaced object."""
LongName = Annotated[str, Field(max_length=253, pattern=forms.LONG_NAME)]
"""A DNS subdomain: the name of any object."""
LabelValue = Annotated[str, Field(max_length=63, pattern=forms.LABEL_VALUE)]
ReasonWord = Annotated[str, Field(max_length=64, pattern=forms.CAMEL_CASE_WORD)]
"""One CamelCase word, such as the reason of a condition."""
ShortText = Annotated[str, Field(max_length=128)]
Message = Annotated[str, Field(max_length=1024)]
ModelName = Annotated[str, Field(min_length=1, max_length=128, pattern=forms.MODEL_NAME)]
GpuName = Annotated[str, Field(min_length=1, max_length=64, pattern=forms.GPU_NAME)]
Quantity = Annotated[str, Field(max_length=32, pattern=forms.QUANTITY)]
"""A Kubernetes quantity such as 500m, 16 or 64Gi."""
Timestamp = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
"""RFC 3339 in UTC, as Kubernetes writes it."""
Date = Annotated[str, Field(max_length=10, pattern=forms.DATE)]
"""A day, as RFC 3339 writes it."""


def decimal(value: int | str) -> Decimal:
    """The exact number behind a `Rate` or `Amount` ("500m" -> 0.5)."""
    if isinstance(value, str) and value.endswith("m"):
        return Decimal(value[:-1]) / 1000
    return Decimal(value)


_SUFFIXES = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def amount_of(quantity: str) -> Decimal:
    """The exact number behind a `Quantity` ("64Gi" -> 68719476736)."""
    digits = quantity.rstrip("kKMGTi")
    return decimal(digits) * _SUFFIXES.get(quantity[len(digits) :], 1)


def number(value: int | str | None) -> float | None:
    """Like `decimal`, as the float that the sizing computes with; None stays None."""
    return None if value is None else float(decimal(value))


def decimal_string(value: float, decimals: int = 3) -> str:
    """Write a number the way `Rate` and `Amount` are read, without trailing zeros: 28.540 -> 28.54."""
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def above_zero(attribute: str, fix: str, *, at_most: int | None = None, required: bool = False, of: str = "") -> Rule:
    """Require that a `Rate` or `Amount` is above 0 and at most so much; `of`: whose it is, where others have it too."""
    field = camel_case(attribute)
    quantity = f"quantity(string(self.{field}))"
    cel, problem = f"{quantity}.isGreaterThan(quantity('0'))", f"{field}{of} must be above 0"
    if at_most is not None:
        cel += f" && !{quantity}.isGreaterThan(quantity('{at_most}'))"
        problem += f" and at most {at_most}"
    if not required:
        cel = f"!has(self.{field}) || {cel if at_most is None else f'({cel})'}"

    def holds(model: ApiModel) -> bool:
        value = getattr(model, attribute)
        return value is None or 0 < decimal(value) <= (math.inf if at_most is None else at_most)

    return Rule(cel, problem, fix, holds, field)
