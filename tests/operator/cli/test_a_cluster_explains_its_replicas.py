"""`kubectl firsttoken explain` and `top`, against a real API server, as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.cli.explain import explanation, lines, remedies
from firsttoken_operator.cli.remedies import REMEDIES
from firsttoken_operator.cli.top import row
from firsttoken_operator.domain import Reason
from tools.cluster import Cluster, kubectl

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
NOW = "2026-11-21T10:02:15Z"
SENTENCE = (
    "16 -> 29 replicas (DemandAboveCapacity); arrival rate 150.0 requests/s; predicted TTFT P95: 282 ms at 28 replicas"
)


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


def at(replicas: int, milliseconds: int) -> dict[str, Any]:
    ttft = {"milliseconds": milliseconds, "percentile": "P95"}
    return {"replicas": replicas, "timeToFirstToken": ttft, "kvCachePercent": 40}


STATUS: dict[str, Any] = {
    "replicas": 29,
    "readyReplicas": 16,
    "desiredReplicas": 29,
    "replicaLimit": 59,
    "lastDecisionReason": "Stabilizing",
    "sizing": {
        "configuration": {"gpu": "H100-SXM-80GB", "precision": "FP8", "tensorParallel": 2},
        "replicasForDeclaredPeak": 39, "replicasLow": 37, "replicasHigh": 43, "basis": "Fitted",
    },
    "traffic": {"live": {"requestsPerSecond": "150"}, "drift": "live traffic is 75 % of the declared peak"},
    "prediction": {"nMinus1": at(28, 282), "n": at(29, 266), "nPlus1": at(30, 252) | {"saturated": True}},
    "capacity": {"chargedGPUs": 29, "unmetGPUs": 10},
    "calibration": {"lateBudgetSpentPercent": 12},
    "decisions": [
        {"time": NOW, "from": 16, "to": 29, "reason": "DemandAboveCapacity", "limitedBy": "PoolExhausted",
         "message": SENTENCE}
    ],
    "conditions": [
        condition("Ready", "True", "Ready"),
        condition("SLAMet", "False", "SLAMissed", "TTFT P95 in (300, 350] ms, limit 300 ms"),
        condition("ScalingLimited", "True", "PoolExhausted", "39 replicas asked for, 29 granted"),
        condition("Calibrated", "False", "AsSized"),
    ],
}  # fmt: skip


def example() -> dict[str, Any]:
    documents = yaml.safe_load_all((ROOT / "examples/call-center.yaml").read_text())
    found: dict[str, Any] = next(d for d in documents if d["kind"] == "InferenceDeployment")
    return found


def deployment(**status: Any) -> InferenceDeployment:
    return InferenceDeployment.model_validate(example() | {"status": STATUS | status})


def test_it_says_why_what_was_predicted_and_what_would_change_it() -> None:
    text = "\n".join(lines(deployment()))

    assert "A replica is 2 x H100-SXM-80GB, FP8. Mode Active." in text
    assert "Sized for the declared peak: 39 (37 to 43) replicas, Fitted." in text
    assert "Wanted 29 replicas, ready 16, at most 59." in text
    assert f"since {NOW}: {SENTENCE}" in text
    assert "ScalingLimited True (PoolExhausted): 39 replicas asked for, 29 granted" in text
    assert "TTFT P95 ms (LIMIT 300)" in text
    assert [line.split() for line in text.splitlines() if line.startswith(("  28 ", "  29 ", "  30 "))] == [
        ["28", "282", "40"],
        ["29", "266", "40"],
        ["30", "above", "252", "40"],
    ]


def test_what_would_change_it_begins_with_the_last_decision_and_leaves_out_what_is_well() -> None:
    assert [reason for reason, _ in remedies(deployment())] == ["Stabilizing", "PoolExhausted", "SLAMissed"]
    assert [by for _, by in remedies(deployment())] == [
        REMEDIES[word] for word in ("Stabilizing", "PoolExhausted", "SLAMissed")
    ]


def test_a_number_that_the_last_change_did_not_make_is_not_explained_by_it() -> None:
    text = "\n".join(lines(deployment(desiredReplicas=31, conditions=[])))

    assert SENTENCE not in text
    assert "PoolExhausted: " not in text


def test_a_reason_of_a_newer_operator_is_shown_and_not_explained() -> None:
    assert "the last look at it: Tomorrow" in "\n".join(lines(deployment(lastDecisionReason="Tomorrow")))
    assert "Tomorrow" not in [reason for reason, _ in remedies(deployment(lastDecisionReason="Tomorrow"))]


def test_what_the_operator_never_saw_is_said() -> None:
    fresh = InferenceDeployment.model_validate(example() | {"status": {}})

    assert list(lines(fresh))[-1].startswith("the operator has not looked at it yet")
    assert set(row(fresh).values()) >= {None, 300}


def test_programs_read_the_same() -> None:
    document = explanation(deployment())

    assert document["desiredReplicas"] == 29
    assert (document["sizing"]["replicasLow"], document["sizing"]["replicasHigh"]) == (37, 43)
    assert document["whatWouldChange"][1] == {"reason": "PoolExhausted", "by": REMEDIES["PoolExhausted"]}
    assert document["decisions"] == STATUS["decisions"]


WELL = """
    Active Available Feasible Learned AsSized Present Ready Sized SLAMet SettingsMatch WithinLimits
"""
NOT_OF_A_STATUS = """
    BadResponse ForeignWrite MetricsLost MetricsRecovered NoReadyPods NoSeries NotANumber NotEnoughSamples OutOfRange
    PartialResponse Rendered ScaledDown ScaledUp ServerError SourceMisconfigured SourceNotConfigured SourceUnreachable
    Throttled TooManySeries Unauthorized Exclusive PoolsOverlap PeakAbovePool
    ExportedLabels FamilyChanging LabelMismatch ScrapeTooSlow SeveralModels TwoFamilies TwoJobs UnknownRuntime
"""


def test_every_reason_of_a_decision_or_a_condition_has_what_would_change_it() -> None:
    assert REMEDIES.keys() == {reason.value for reason in Reason} - set(WELL.split()) - set(NOT_OF_A_STATUS.split())
    assert all(by and by[-1] != "." for by in REMEDIES.values())


# -- a real API server ------------------------------------------------------------------------------------------------


def run(*arguments: str | Path, kubeconfig: Path | str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KUBECONFIG": str(kubeconfig), "PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.run(
        [kubectl(), "firsttoken", *arguments], capture_output=True, text=True, check=False, env=environment, timeout=60
    )


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> Cluster:
    """The example with a status as an operator writes it; before that, a cluster without the chart."""
    bare = run("top", kubeconfig=cluster.kubeconfig)
    assert bare.returncode == 2
    assert bare.stderr == (
        "kubectl firsttoken: this cluster has no resource inferencedeployments.firsttoken.dev;"
        " install the chart: docs/install.md\n"
    )
    cluster.kubectl("apply", "--server-side", "-f", ROOT / "crds")
    cluster.wait_until_established()
    cluster.kubectl("create", "namespace", "call-center")
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(example()))
    patch = json.dumps({"status": STATUS})
    where = ("-n", "call-center", "infd", "support-rag", "--subresource=status", "--type=merge", "-p", patch)
    cluster.kubectl("patch", *where)
    return cluster


@pytest.mark.cluster
def test_kubectl_finds_the_plugin_and_explains(served: Cluster) -> None:
    done = run("explain", "support-rag", "-n", "call-center", kubeconfig=served.kubeconfig)
    document = run("explain", "support-rag", "-n", "call-center", "-o", "json", kubeconfig=served.kubeconfig)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("call-center/support-rag: meta-llama/Meta-Llama-3-8B-Instruct\n")
    assert "PoolExhausted: GPUs that others of the pool give back" in done.stdout
    assert json.loads(document.stdout)["replicaLimit"] == 59


@pytest.mark.cluster
def test_top_shows_a_line_a_deployment(served: Cluster) -> None:
    everywhere, here = (run("top", *words, kubeconfig=served.kubeconfig) for words in (["-A"], []))
    header, line = everywhere.stdout.splitlines()

    assert header.replace("TTFT ms", "TTFT").replace("LATE %", "LATE").split() == [
        *("NAMESPACE", "NAME", "MODE", "REQ/S", "READY", "WANTED", "MAX", "TTFT", "LIMIT", "OF", "SLA"),
        *("GPUS", "LACKING", "LATE", "REASON"),
    ]
    assert line.split() == [
        *("call-center", "support-rag", "Active", "150", "16", "29", "59", "266", "300", "P95", "False"),
        *("29", "10", "12", "Stabilizing"),
    ]
    assert here.stdout == "no InferenceDeployment here; -A looks in all namespaces\n"


@pytest.mark.cluster
def test_the_namespace_of_the_context_is_the_default(served: Cluster, tmp_path: Path) -> None:
    settings = yaml.safe_load(served.kubeconfig.read_text())
    settings["contexts"].append(
        {"name": "other", "context": settings["contexts"][0]["context"] | {"namespace": "call-center"}}
    )
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(settings))

    assert run("explain", "support-rag", "--context", "other", kubeconfig=file).returncode == 0
    assert run("explain", "support-rag", kubeconfig=file).returncode == 2


@pytest.mark.cluster
def test_what_cannot_be_answered_is_one_line(served: Cluster, tmp_path: Path) -> None:
    served.kubectl("create", "serviceaccount", "visitor", "-n", "default")
    visitor = served.service_account_kubeconfig("default", "visitor")
    dead = tmp_path / "dead"
    dead.write_text(served.kubeconfig.read_text().replace(served.api_url, "https://127.0.0.1:1"))
    asked = {
        "no InferenceDeployment 'support-rog' in this namespace; did you mean support-rag?": (
            ("explain", "support-rog", "-n", "call-center"), served.kubeconfig),
        "you may not list inferencedeployments.firsttoken.dev in namespace call-center;": (
            ("explain", "support-rag", "-n", "call-center"), visitor),
        "https://127.0.0.1:1 does not answer:": (("top",), dead),
        "no cluster to ask:": (("top",), tmp_path / "absent"),
    }  # fmt: skip
    for words, (arguments, kubeconfig) in asked.items():
        done = run(*arguments, kubeconfig=kubeconfig)
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"kubectl firsttoken: {words}")
        assert done.returncode == 2
