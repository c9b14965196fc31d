"""Every value of values.yaml, set to another one, changes what is installed: none is idle and none untested."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from tests.helm.chart import CHART, leaves, run_helm

ALL_ON: dict[str, Any] = {
    "crds.enabled": False, "render.enabled": True, "podMonitor.enabled": True, "serviceMonitor.enabled": True,
    "prometheusRule.enabled": True, "dashboards.enabled": True, "networkPolicy.enabled": True, "dashboards.folder": "f",
}  # fmt: skip
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
PEER: list[Any] = [{"podSelector": {}}]
OTHER: dict[str, Any] = {
    "nameOverride": "ours", "fullnameOverride": "ours", "image.repository": "r.example/f", "image.tag": "v1",
    "image.digest": f"sha256:{'a' * 64}", "image.pullPolicy": "Always", "imagePullSecrets": [{"name": "s"}],
    "prometheus.default.url": "https://p", "writes": "paused", "logLevel": "DEBUG",
    "replicas": 3,
    "render.allowed.images": ["r.example/"], "scale.kinds": ["StatefulSet"],
    "serviceAccount.name": "other", "resources.requests.cpu": "1", "resources.requests.memory": "1Gi",
    "resources.limits.memory": "1Gi", "tolerations": [{"operator": "Exists"}], "priorityClassName": "high",
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "strategy.type": "Recreate", "dnsPolicy": "Default", "hostAliases": [{"ip": "192.0.2.1"}],
    "runtimeClassName": "kata",
    "affinity": {"podAntiAffinity": {}}, "extraEnv": [{"name": "A", "value": "b"}],
    "extraEnvFrom": [{"secretRef": {"name": "s"}}], "extraContainers": [{"name": "c", "image": "i"}],
    "initContainers": [{"name": "c", "image": "i"}], "extraVolumes": [{"name": "v", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "v", "mountPath": "/v"}], "extraObjects": [OBJECT],
    "podDisruptionBudget.minAvailable": "50%", "podMonitor.scrapeTimeoutSeconds": 5,
    "serviceMonitor.scrapeTimeoutSeconds": 5, "networkPolicy.apiServerCIDRs": ["192.0.2.1/32"],
    "networkPolicy.metricsFrom": PEER, "networkPolicy.dnsTo": PEER, "networkPolicy.prometheusTo": PEER,
    "networkPolicy.extraEgress": [{"to": PEER}],
    "podMonitor.relabelings": PEER, "podMonitor.metricRelabelings": PEER, "serviceMonitor.relabelings": PEER,
    "serviceMonitor.metricRelabelings": PEER,
}  # fmt: skip
"""Values of which another one of the same type would not be taken."""
WITH: dict[str, dict[str, Any]] = {
    "crds.keep": {"crds.enabled": True},
    "rbac.clusterScoped": {"namespaces": ["team"]},
    "render.withoutPolicies": {"admissionPolicy.enabled": False},
    "service.enabled": {"serviceMonitor.enabled": False},
    "serviceAccount.create": {"serviceAccount.name": "ours"},
}
"""Settings beside which a value means anything."""


def other(path: str, default: Any) -> Any:
    """Another value of the same kind."""
    if path in OTHER:
        return OTHER[path]
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 20
    if isinstance(default, list):
        return [*default, 7443] if default and isinstance(default[0], int) else [*default, "other"]
    return {"example.com/a": "b"} if isinstance(default, dict) else f"{default}other"


def at(values: Any, path: str) -> Any:
    """The default of a value."""
    for key in path.replace("\\.", "\0").split("."):
        values = values[key.replace("\0", ".")]
    return values


def installed(values: dict[str, Any]) -> str:
    """Manifests that Helm renders; none where it refuses."""
    sets = [part for path, value in values.items() for part in ("--set-json", f"{path}={json.dumps(value)}")]
    done = run_helm("template", "firsttoken", CHART, *sets)
    assert not done.returncode or "render.withoutPolicies" in done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_value_has_an_effect() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    paths = list(leaves())

    def has_effect(path: str) -> bool:
        before = ALL_ON | WITH.get(path, {})
        return installed(before) != installed(before | {path: other(path, before.get(path, at(defaults, path)))})

    with ThreadPoolExecutor(4) as pool:
        effects = dict(zip(paths, pool.map(has_effect, paths), strict=True))

    assert [path for path, effect in effects.items() if not effect] == []
    assert len(effects) > 100
    assert set(OTHER) | set(WITH) <= set(paths), "a value that is not there any more"
