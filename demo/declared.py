"""Declaration of the demo: the example in a namespace of its own, sized as its traffic comes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

KIND = "InferenceDeployment"
INDEPENDENT_USERS: dict[str, Any] = {"sizing": {"arrivals": "Poisson"}}
"""The example is sized as its benchmark was driven; the traffic of the demo comes from users who do not wait."""
QUICK_TO_DRAIN: dict[str, Any] = {"scaling": {"backlogDrainSeconds": 20}}
"""Declared of a fleet that shows less than it should: one without TTFT, of which the queue alone tells that it is too
small, or one with a replica that takes less than the others."""


def declare(example: Path, file: Path, namespace: str, spec: Mapping[str, Any]) -> Path:
    """Write the example with these fields of its `spec` in place of its own; returns the file."""
    documents = [document for document in yaml.safe_load_all(example.read_text(encoding="utf-8")) if document]
    for document in documents:
        if document["kind"] == "Namespace":
            document["metadata"]["name"] = namespace
        if document["kind"] == KIND:
            document["metadata"]["namespace"] = namespace
            for part, fields in spec.items():
                document["spec"][part] |= fields
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return file
