"""Deployment that the demo scales: pods on paper where kwok plays the kubelet, else real ones of an image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from demo.scenario import Scenario

STAND_IN = Path(__file__).parents[1] / "examples" / "emulated" / "deployment.yaml"
WAITING = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit()); signal.pause()"
"""Program of a real pod: its engine is emulated elsewhere, as on paper, and it is there until it is asked to end."""


def target_manifest(
    name: str, namespace: str, scenario: Scenario, *, gpus_per_replica: int, image: str = ""
) -> dict[str, Any]:
    """The stand-in of examples/emulated under another name, with the replicas and the cold start of the scenario.

    `image`: one with Python, which real pods run; empty: pods on paper.
    """
    manifest: dict[str, Any] = yaml.safe_load(STAND_IN.read_text(encoding="utf-8"))
    labels = {"app.kubernetes.io/name": name}
    load_seconds = scenario.scaled(scenario.cold_start_seconds)
    manifest["metadata"] = {"name": name, "namespace": namespace}
    manifest["spec"] |= {"replicas": scenario.initial_replicas, "selector": {"matchLabels": labels}}
    template = manifest["spec"]["template"]
    template["metadata"] = {"labels": labels, "annotations": {"firsttoken.dev/ready-after": f"{load_seconds:g}s"}}
    (engine,) = template["spec"]["containers"]
    engine["resources"]["limits"]["nvidia.com/gpu"] = gpus_per_replica
    if image:
        load = {
            "name": "load",
            "image": image,
            "command": ["python3", "-c", f"import time; time.sleep({load_seconds:g})"],
        }
        template["spec"]["initContainers"] = [load]
        engine |= {"image": image, "command": ["python3", "-c", WAITING]}
    return manifest
