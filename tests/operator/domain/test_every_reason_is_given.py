from __future__ import annotations

import re
from pathlib import Path

import pytest

from firsttoken_operator.domain.reasons import Reason
from firsttoken_sizing import Infeasible

SOURCE = Path(__file__).parents[3] / "operator/src/firsttoken_operator"
GIVEN = set(re.findall(r"\bReason\.([A-Z0-9_]+)\b", "".join(f.read_text("utf-8") for f in SOURCE.rglob("*.py"))))
CAUSES = {cause.value for cause in Infeasible}


@pytest.mark.parametrize("reason", list(Reason), ids=str)
def test_some_code_gives_this_reason(reason: Reason) -> None:
    assert reason.name in GIVEN or reason.value in CAUSES


def test_every_cause_of_an_infeasible_sla_is_a_reason() -> None:
    assert {reason.value for reason in Reason} >= CAUSES
