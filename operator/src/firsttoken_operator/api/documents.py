"""Reads custom resources from YAML without a cluster, and refuses what the API server would refuse.

Objects of other kinds in the same file (the Deployment that targetRef names) are skipped, so that one file serves
`kubectl apply` and `firsttoken size` alike; of a Namespace the labels are kept, by which a pool knows its tenants.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from firsttoken_operator.api import benchmark_profile, gpu_pool, inference_deployment
from firsttoken_operator.api.base import API_VERSION, GROUP
from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.errors import InvalidDocument, UnreadableDocument
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.problems import problems_of, refusal_of, unknown_fields

STDIN = Path("-")
SUFFIXES = (".yaml", ".yml", ".json")
CustomResource = InferenceDeployment | GPUPool | BenchmarkProfile
_NAMESPACE = "Namespace"
_MODELS: Mapping[str, type[CustomResource]] = {
    inference_deployment.KIND: InferenceDeployment,
    gpu_pool.KIND: GPUPool,
    benchmark_profile.KIND: BenchmarkProfile,
}


@dataclass(frozen=True, slots=True)
class LabelledNamespace:
    """A Namespace of a file, of which the labels count."""

    name: str
    labels: Mapping[str, str]


_Found = CustomResource | LabelledNamespace


@dataclass(frozen=True, slots=True)
class Documents:
    """The custom resources of one or more files, in their order; pools by name, as references look them up."""

    deployments: tuple[InferenceDeployment, ...] = ()
    pools: Mapping[str, GPUPool] = field(default_factory=dict)
    benchmarks: tuple[BenchmarkProfile, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of the Namespaces that are there as well, by name."""


def load_documents(*paths: Path) -> Documents:
    """Read every YAML document of every file; of a folder, every .yaml, .yml and .json file directly in it.

    `-` is standard input.
    Raises `UnreadableDocument` and `InvalidDocument` (one line: file, object, field, problem, fix), the latter also for
    two objects of the same name.
    """
    found: list[tuple[str, _Found]] = []
    for path in paths:
        for file in _files(path):
            name = "<stdin>" if file == STDIN else str(file)
            try:
                text = sys.stdin.read() if file == STDIN else file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                raise UnreadableDocument(name, f"cannot be read ({reason})", "name a YAML file that exists") from error
            found += [(name, resource) for resource in _resources(text, name)]
    return _collected(found)


def parse_documents(text: str, *, file: str = "<stdin>") -> Documents:
    """Like `load_documents`, of a text; `file` is what errors call it."""
    return _collected([(file, resource) for resource in _resources(text, file)])


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file())


def _collected(found: list[tuple[str, _Found]]) -> Documents:
    seen: dict[tuple[str, str, str], str] = {}
    for file, resource in found:
        if isinstance(resource, LabelledNamespace):
            continue
        name = resource.metadata.name
        # NB: a namespace in cluster-scoped metadata does not make a second object.
        namespace = resource.metadata.namespace if isinstance(resource, InferenceDeployment) else ""
        key = (resource.kind, namespace, name)
        if key in seen:
            raise InvalidDocument(
                file, f"{resource.kind}/{name}", "metadata.name", f"is also in {seen[key]}", "keep one of the two"
            )
        seen[key] = file
    resources = [resource for _, resource in found]
    return Documents(
        deployments=tuple(r for r in resources if isinstance(r, InferenceDeployment)),
        pools={r.metadata.name: r for r in resources if isinstance(r, GPUPool)},
        benchmarks=tuple(r for r in resources if isinstance(r, BenchmarkProfile)),
        namespaces={r.name: r.labels for r in resources if isinstance(r, LabelledNamespace)},
    )


def _resources(text: str, file: str) -> Iterator[_Found]:
    for position, document in enumerate(_documents(text, file), start=1):
        if document is None:
            continue
        if not (isinstance(document, dict) and isinstance(document.get("kind"), str)):
            raise UnreadableDocument(
                file, f"document {position} is not a Kubernetes object", "give it apiVersion and kind"
            )
        items = document.get("items")
        for item in items if document["kind"] == "List" and isinstance(items, list) else [document]:
            resource = _resource(item, file)
            if resource is not None:
                yield resource


def _resource(document: Mapping[str, Any], file: str) -> _Found | None:
    kind, api_version = document.get("kind"), str(document.get("apiVersion", ""))
    ours = api_version.split("/")[0] == GROUP
    model = _MODELS.get(str(kind))
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    label = f"{kind}/{name or '(no name)'}"
    if model is None:
        if ours:
            raise InvalidDocument(
                file, label, "kind", f"{kind} is not a kind of {GROUP}", f"use one of {', '.join(_MODELS)}"
            )
        return _namespace(metadata) if kind == _NAMESPACE else None
    if api_version != API_VERSION:
        raise InvalidDocument(file, label, "apiVersion", f"{api_version!r} is not supported", f"use {API_VERSION}")
    if not isinstance(name, str) or not name:
        raise InvalidDocument(file, label, "metadata.name", "is required", "add it")
    if unknown := unknown_fields(model, document):
        raise refusal_of(unknown, file, label)
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise refusal_of(problems_of(error), file, label) from error


def _namespace(metadata: object) -> LabelledNamespace | None:
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return None
    labels = metadata.get("labels")
    found = labels.items() if isinstance(labels, dict) else ()
    return LabelledNamespace(metadata["name"], {str(key): str(value) for key, value in found})


_TIME_OF_DAY = ("tag:yaml.org,2002:str", re.compile(r"[0-9]+(:[0-9]+)+$"))
_RESOLVERS = {
    first: [_TIME_OF_DAY, *known] for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}  # NB: YAML 1.1 reads 10:00 as 600, a number to the base of 60; kubectl reads a string, and so do we.


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that is written twice, which YAML readers otherwise settle in silence (the last one wins)."""

    yaml_implicit_resolvers = _RESOLVERS

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for position, key in enumerate(keys):
            if key in keys[:position] and key != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is there twice", node.start_mark)
        return super().construct_mapping(node, deep=deep)


def _documents(text: str, file: str) -> list[Any]:
    try:
        return list(yaml.load_all(text, Loader=_StrictLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "cannot be parsed"
        raise UnreadableDocument(file, f"is not YAML: {problem}{where}", "correct that line") from error
    except ValueError as error:
        # A number of thousands of digits, a date that does not exist: YAML by syntax, not by value.
        raise UnreadableDocument(file, f"holds a value that cannot be read ({error})", "correct or quote it") from error
    except RecursionError as error:
        raise UnreadableDocument(file, "is nested too deeply", "write an object that Kubernetes would take") from error
