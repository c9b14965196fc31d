"""Writes docs/values.md and the chart's README from values.yaml: each value, its default and the comment above it.

python -m tools.values
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
VALUES = ROOT / "helm/firsttoken/values.yaml"
_KEY = re.compile(r"( *)([A-Za-z]+):(.*)")
PAGE_HEAD = """# Values of the chart

Written from the comments of [values.yaml](../helm/firsttoken/values.yaml) by `python -m tools.values`. The schema
refuses what is not here. [install.md](install.md) explains the values that matter, [chart.md](chart.md) compares them.
"""
README_HEAD = """# firsttoken

The fewest GPUs that still answer on time: sizes and scales LLM inference on Kubernetes. The image is not published yet;
build it from the repository's Dockerfile.

```sh
helm install firsttoken firsttoken-VERSION.tgz --namespace firsttoken-system --create-namespace \\
  --set image.repository=registry.example.com/firsttoken \\
  --set prometheus.default.url=http://prometheus-operated.monitoring.svc:9090
kubectl label namespace NAMESPACE firsttoken.dev/scale=true
helm test firsttoken --namespace firsttoken-system --logs
```

The label opens the Deployments of a namespace to scaling. The custom resource definitions come with the chart and stay,
with every object, when the release is uninstalled (`crds.enabled`, `crds.keep`). The schema refuses what is not here.
"""
TABLE_HEAD = "\n| value | default | what it is |\n|---|---|---|\n"


def pages(values: str) -> dict[Path, str]:
    """Text of each page that has the table of values."""
    rows = (f"| `{path}` | {_shown(default)} | {about} |\n" for path, default, about in _rows(values))
    table = TABLE_HEAD + "".join(rows)
    return {ROOT / "docs/values.md": PAGE_HEAD + table, VALUES.with_name("README.md"): README_HEAD + table}


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
    for page, text in pages(VALUES.read_text()).items():
        page.write_text(text)
