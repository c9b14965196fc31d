"""Objects that must not be created, with the full words of both refusals: the API server's and the offline reader's.

A rule says the same on both sides (`problem; fix`), so its entry holds the words once. A broken schema is refused by
the API server in its own words (`server`). The tables are in `refused_by_rule` and `refused_by_schema`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REMOVED = object()
"""Takes a field away."""

DEPLOYMENT, POOL, BENCHMARK = "InferenceDeployment", "GPUPool", "BenchmarkProfile"
PLURALS = {DEPLOYMENT: "inferencedeployments", POOL: "gpupools", BENCHMARK: "benchmarkprofiles"}
NAMESPACE = "default"

GOOD: Mapping[str, dict[str, Any]] = {
    DEPLOYMENT: {
        "apiVersion": "firsttoken.dev/v1alpha1",
        "kind": DEPLOYMENT,
        "metadata": {"name": "support-rag", "namespace": NAMESPACE},
        "spec": {
            "model": {"name": "meta-llama/Meta-Llama-3-8B-Instruct"},
            "traffic": {
                "inputTokens": 2000,
                "outputTokens": 200,
                "averageRequestsPerSecond": "28.54",
                "peakRequestsPerSecond": "200",
            },
            "sla": {"timeToFirstToken": {"milliseconds": 300}},
            "hardware": {"gpus": ["H100-SXM-80GB"]},
            "targetRef": {"name": "support-rag"},
        },
    },
    POOL: {
        "apiVersion": "firsttoken.dev/v1alpha1",
        "kind": POOL,
        "metadata": {"name": "spare"},
        "spec": {
            "location": "Cloud",
            "gpu": "H100-SXM-80GB",
            "baseGPUs": 32,
            "burstGPUs": 32,
            "pricing": {"serverPrice": 320000, "amortizationYears": 4},
        },
    },
    BENCHMARK: {
        "apiVersion": "firsttoken.dev/v1alpha1",
        "kind": BENCHMARK,
        "metadata": {"name": "llama"},
        "spec": {
            "model": "meta-llama/Meta-Llama-3-8B-Instruct",
            "gpu": "H100-SXM-80GB",
            "precision": "FP8",
            "inputTokens": 2000,
            "outputTokens": 200,
            "load": "ClosedLoop",
            "points": [{"concurrency": 1, "requestsPerSecond": 0.8385, "ttftMilliseconds": {"mean": 34.7}}],
        },
    },
}
"""The smallest useful object of each kind."""

RULES_SKIPPED = (
    ", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def changed(good: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an object with the fields at some dotted paths set or taken away."""
    result = copy.deepcopy(dict(good))
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is REMOVED:
            place.pop(last)
        else:
            place[last] = value
    return result


@dataclass(frozen=True, slots=True)
class BadObject:
    """A good object with something wrong, and what is said about it.

    `server` is the API server's text where it is not `problem; fix`; `of_form`: the value has another form than the
    field asks for, which both say in the same words; `rules_skipped`: it adds that CEL rules were not evaluated;
    `required`: it calls the field missing rather than invalid.
    """

    id: str
    kind: str
    changes: Mapping[str, Any]
    field: str
    problem: str
    fix: str
    required: bool = False
    server: str = ""
    of_form: bool = False
    rules_skipped: bool = False

    @property
    def document(self) -> dict[str, Any]:
        return changed(GOOD[self.kind], self.changes)

    @property
    def server_message(self) -> str:
        """All that the API server answers."""
        if self.server.startswith(self.kind):
            return self.server
        cause = "Required" if self.required else "Invalid"
        # NB: the API server shows the value itself.
        problem = self.problem.replace("'", '"').replace(" is not ", ": is not ", 1) if self.of_form else self.problem
        said = self.server or f"{self.field}: {cause} value: {problem}; {self.fix}"
        said = f"[{said}{RULES_SKIPPED}]" if self.rules_skipped else said
        return f'{self.kind}.firsttoken.dev "{self.document["metadata"]["name"]}" is invalid: {said}'

    @property
    def offline_message(self) -> str:
        """All that the offline reader says, for a file called `team.yaml`."""
        return f"team.yaml: {self.kind}/{self.document['metadata']['name']}: {self.field}: {self.problem}; {self.fix}"
