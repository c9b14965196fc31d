"""Taints that pods tolerate."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from firsttoken_operator.api import forms
from firsttoken_operator.api.base import ApiModel, Rule, described, optional
from firsttoken_operator.api.quantities import LabelValue


class TolerationOperator(StrEnum):
    """Comparison of a toleration with the taint's value."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class Toleration(ApiModel):
    """One taint that the pods tolerate, beside `nvidia.com/gpu`, which they always do."""

    RULES = (
        Rule(
            cel="self.operator == 'Equal' || !has(self.value)",
            problem="operator Exists compares no value",
            fix="remove value or set operator: Equal",
            holds=lambda t: t.operator is TolerationOperator.EQUAL or t.value is None,
            field="value",
        ),
    )

    key: str = described("Key of the taint.", max_length=317, pattern=forms.LABEL_KEY)
    operator: TolerationOperator = described("How the value is compared.", default=TolerationOperator.EQUAL)
    value: LabelValue | None = optional("Value of the taint.", absent="the empty value")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = optional(
        "Effect that is tolerated.", absent="every effect"
    )

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        """Tell whether a taint keeps no pod away that has this toleration."""
        is_equal = self.operator is TolerationOperator.EXISTS or (self.value or "") == value
        # NB: pods that we do not render may tolerate every taint, with an empty key.
        return self.key in ("", key) and is_equal and self.effect in (None, effect)
