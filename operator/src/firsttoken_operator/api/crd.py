"""The three CustomResourceDefinitions, generated from the models: `python -m firsttoken_operator.api.crd crds/`.

The YAML files in `crds/` are committed, so that they can be read and applied without Python; a test fails when they
differ from what this module writes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from firsttoken_operator.api import benchmark_profile, gpu_pool, inference_deployment
from firsttoken_operator.api.base import GROUP, VERSION, ApiModel
from firsttoken_operator.api.schema import Schema, said_in_words, structural_schema

CATEGORY = "firsttoken"
MAX_NAME_LENGTH = 253
HEADER = """\
# Generated from operator/src/firsttoken_operator/api by `python -m firsttoken_operator.api.crd crds/`.
# Do not edit: change the models and generate it again.
"""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    description: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """Parts of a CustomResourceDefinition beside the schema."""

    model: type[ApiModel]
    kind: str
    plural: str
    short_name: str
    namespaced: bool
    columns: tuple[Column, ...]


AGE = Column("Age", ".metadata.creationTimestamp", "date", "Time since creation.")

RESOURCES = (
    Resource(
        inference_deployment.InferenceDeployment,
        inference_deployment.KIND,
        "inferencedeployments",
        "infd",
        namespaced=True,
        columns=(
            Column("Model", ".spec.model.name", description="Model that is served."),
            Column("Ready", ".status.readyReplicas", "integer", "Replicas that serve."),
            Column("Desired", ".status.desiredReplicas", "integer", "Replicas that firsttoken wants."),
            Column("Max", ".status.replicaLimit", "integer", "Upper bound in force."),
            Column("Mode", ".spec.scaling.mode", description="Active, Advisory or Paused."),
            Column("SLA", '.status.conditions[?(@.type=="SLAMet")].status', description="Whether the SLA is met."),
            Column("Reason", ".status.lastDecisionReason", description="Reason of the last decision."),
            AGE,
        ),
    ),
    Resource(
        gpu_pool.GPUPool,
        gpu_pool.KIND,
        "gpupools",
        "gpupool",
        namespaced=False,
        columns=(
            Column("Location", ".spec.location", description="Cloud or OnPrem."),
            Column("GPU", ".spec.gpu", description="GPU type."),
            Column("Inventory", ".status.inventoryGPUs", "integer", "GPUs of matching nodes."),
            Column("Charged", ".status.chargedGPUs", "integer", "GPUs that pods hold."),
            Column("Free", ".status.freeGPUs", "integer", "GPUs that no deployment holds."),
            Column("Unmet", ".status.unmetGPUs", "integer", "GPUs that were asked for in vain."),
            AGE,
        ),
    ),
    Resource(
        benchmark_profile.BenchmarkProfile,
        benchmark_profile.KIND,
        "benchmarkprofiles",
        "bench",
        namespaced=False,
        columns=(
            Column("Model", ".spec.model", description="Model that was measured."),
            Column("GPU", ".spec.gpu", description="GPU type."),
            Column("Precision", ".spec.precision", description="Number format of the weights."),
            Column("TP", ".spec.tensorParallel", "integer", "GPUs that share every layer."),
            Column("Input", ".spec.inputTokens", "number", "Mean input tokens."),
            Column("Output", ".spec.outputTokens", "number", "Mean output tokens."),
            Column("Load", ".spec.load", description="ClosedLoop or Poisson."),
            AGE,
        ),
    ),
)


def custom_resource_definition(resource: Resource) -> dict[str, Any]:
    """The CustomResourceDefinition of one resource, ready to be applied."""
    schema = _root_schema(resource)
    names = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "categories": [CATEGORY],
    }
    # NB: a short name that is also the singular is a conflict to the API server (condition NamesAccepted=False).
    if resource.short_name != names["singular"]:
        names["shortNames"] = [resource.short_name]
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [
            {"name": c.name, "type": c.type, "jsonPath": c.path, "description": c.description} for c in resource.columns
        ],
    }
    if "status" in schema["properties"]:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _root_schema(resource: Resource) -> Schema:
    schema = structural_schema(resource.model)
    properties = schema["properties"]
    # NB: a status is written by the operator only, often, and every rule costs the API server time.
    properties["spec"] = said_in_words(properties["spec"])
    # NB: the API server owns the metadata: of all its fields only the name may be described, for the rule about it.
    properties["apiVersion"] = {"description": "API group and version. Required.", "type": "string"}
    properties["kind"] = {"description": f"{resource.kind}. Required.", "type": "string"}
    name = {"description": "Name of the object. Required.", "type": "string", "maxLength": MAX_NAME_LENGTH}
    properties["metadata"] = {"type": "object", "properties": {"name": name}}
    properties.get("status", {}).pop("default", None)
    schema["required"] = ["spec"]
    return schema


class _Dumper(yaml.SafeDumper):
    """Quotes what only some YAML readers take for a boolean.

    NB: kubectl and Helm read a bare `n` as false (YAML 1.1), PyYAML does not and so would not quote it: the field
    `status.prediction.n` would become a field called "false".
    """


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if text.lower() in ("y", "n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def to_yaml(definition: dict[str, Any]) -> str:
    """The text of a committed file."""
    body: str = yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return HEADER + body


def write(directory: Path) -> list[Path]:
    """Write one YAML file a resource into `directory` and return their paths."""
    paths = []
    for resource in RESOURCES:
        path = directory / f"{GROUP}_{resource.plural}.yaml"
        path.write_text(to_yaml(custom_resource_definition(resource)), encoding="utf-8")
        paths.append(path)
    return paths


def main(arguments: list[str]) -> int:
    """Command line of this module: the directory to write to."""
    if len(arguments) != 1:
        print("usage: python -m firsttoken_operator.api.crd DIRECTORY", file=sys.stderr)
        return 2
    for path in write(Path(arguments[0])):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
