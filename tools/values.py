"""Writes docs/values.md from helm/firsttoken/values.yaml: each value with its default and the comment above it.

python -m tools.values > docs/values.md
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

VALUES = Path(__file__).resolve().parent.parent / "helm/firsttoken/values.yaml"
_KEY = re.compile(r"( *)([A-Za-z]+):(.*)")
HEAD = """# Values of the chart

Written from the comments of [values.yaml](../helm/firsttoken/values.yaml) by `python -m tools.values`. The schema
refuses what is not here. [install.md](install.md) explains the values that matter, [chart.md](chart.md) compares them.

| value | default | what it is |
|---|---|---|
"""


def reference(text: str) -> str:
    """The page."""
    return HEAD + "".join(f"| `{path}` | {_shown(default)} | {about} |\n" for path, default, about in _rows(text))


def _rows(text: str) -> list[tuple[str, Any, str]]:
    defaults, path, comment, rows = yaml.safe_load(text), list[str](), list[str](), list[tuple[str, Any, str]]()
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            comment.append(line.strip("# "))
            continue
        found = _KEY.match(line)
        if found is None:
            comment = []
            continue
        path = [*path[: len(found[1]) // 2], found[2]]
        default = _at(defaults, path)
        is_section = isinstance(default, dict) and default and not found[3].strip()
        about = " ".join(comment).replace("|", "\\|")
        if not is_section or about:
            rows.append((".".join(path), ... if is_section else default, about))
        comment = []
    return rows


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key]
    return values


def _shown(default: Any) -> str:
    return "" if default is ... else f"`{json.dumps(default)}`"


if __name__ == "__main__":
    sys.stdout.write(reference(VALUES.read_text()))
