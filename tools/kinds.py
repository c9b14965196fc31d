"""Kinds that the operator can scale beside Deployments, for the chart: `helm/firsttoken/files/kinds.json`.

What `scale.kinds` allows by name becomes rights and admission policies of exactly these resources and fields. What is
watched anyway is there too, so that no other kind takes its name or its resource.
"""

from __future__ import annotations

import json
from pathlib import Path

from firsttoken_operator.domain.target_kinds import DEPLOYMENT, NAMED, TargetKind
from firsttoken_operator.run.watches import OPTIONAL, WATCHED

FILE = Path(__file__).parents[1] / "helm/firsttoken/files/kinds.json"


def text() -> str:
    """The text of the file."""
    kinds = {kind.kind: _entry(kind) for kind in (DEPLOYMENT, *NAMED.values())}
    watched = {kind.kind: f"{kind.plural}.{kind.group}" for kind in (*WATCHED, *OPTIONAL)}
    return json.dumps({"kinds": kinds, "watched": watched}, indent=1) + "\n"


def _entry(kind: TargetKind) -> dict[str, object]:
    """A kind; `patched` names the fields that are written in `parent`, where there is no scale subresource."""
    parents = {path[:-1] for path in kind.patched}
    assert len(parents) <= 1, "the policy compares one object without these fields"
    parent = list(next(iter(parents), ()))
    return {
        "group": kind.group, "version": kind.version, "plural": kind.plural, "parent": parent,
        "patched": [path[-1] for path in kind.patched],
    }  # fmt: skip


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
