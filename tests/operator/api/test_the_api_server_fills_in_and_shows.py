"""Good objects on the API server: defaults, examples, the columns of kubectl, its explanations."""

import json
from pathlib import Path

import pytest
import yaml

from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.conditions import Condition
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.status import (
    CapacityStatus,
    Configuration,
    DecisionRecord,
    GPUPoolStatus,
    InferenceDeploymentStatus,
    PoolShare,
    PredictedLatency,
    PredictionAt,
    PredictionStatus,
    SizingStatus,
    TrafficFigures,
    TrafficStatus,
)
from tests.operator.api.bad_objects import BENCHMARK, DEPLOYMENT, GOOD, POOL, changed
from tests.operator.api.test_an_architecture_is_closed import FILLED

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]
MODELS = {DEPLOYMENT: InferenceDeployment, POOL: GPUPool, BENCHMARK: BenchmarkProfile}
NOW = "2026-11-21T10:00:00Z"
STATUS = InferenceDeploymentStatus(
    observed_generation=1,
    replicas=39,
    ready_replicas=37,
    desired_replicas=39,
    replica_limit=59,
    last_decision_reason="DemandAboveCapacity",
    sizing=SizingStatus(
        configuration=Configuration(gpu="H100-SXM-80GB", precision="FP8"),
        replicas_for_declared_peak=39,
        replicas_for_declared_average=6,
        requests_per_second_per_replica="5.195",
        basis="Measured",
    ),
    traffic=TrafficStatus(live=TrafficFigures(requests_per_second="190")),
    prediction=PredictionStatus(
        n=PredictionAt(
            replicas=39, time_to_first_token=PredictedLatency(milliseconds=262, percentile="P95"), kv_cache_percent=41
        )
    ),
    capacity=CapacityStatus(pool="h100", charged_gpus=39, unmet_replicas=0, unmet_gpus=0),
    decisions=(
        DecisionRecord(
            time=NOW,
            from_replicas=6,
            to_replicas=39,
            reason="DemandAboveCapacity",
            message="190 requests/s need 39 replicas",
        ),
    ),
    conditions=(
        Condition(type="SLAMet", status="True", reason="SLAMet", last_transition_time=NOW, observed_generation=1),
        Condition(type="Ready", status="True", reason="Ready", last_transition_time=NOW, observed_generation=1),
    ),
)


def without_empty(value):
    """Empty lists and maps say the same as absent ones: the API server fills in neither."""
    if isinstance(value, dict):
        kept = {name: without_empty(part) for name, part in value.items()}
        return {name: part for name, part in kept.items() if part != {} and part != []}
    return [without_empty(part) for part in value] if isinstance(value, list) else value


def dry_run(cluster, *arguments, text):
    return cluster.kubectl("create", "--dry-run=server", "-o", "json", *arguments, "-f", "-", stdin=text)


@pytest.mark.parametrize("kind", list(GOOD))
def test_the_servers_defaults_are_the_models_defaults(cluster, kind):
    filled = json.loads(dry_run(cluster, text=json.dumps(GOOD[kind])).stdout)
    model = MODELS[kind].model_validate(GOOD[kind])

    assert without_empty(filled["spec"]) == without_empty(
        json.loads(model.spec.model_dump_json(by_alias=True, exclude_none=True))
    )


def test_the_servers_defaults_of_a_runtime_are_the_models_defaults(cluster):
    document = changed(
        GOOD[DEPLOYMENT],
        {
            "spec.targetRef": None,
            "spec.runtime": {
                "type": "NIM",
                "image": "nim:1",
                "authSecret": {"name": "ngc"},
                "tolerations": [{"key": "gpu"}],
            },
        },
    )
    filled = json.loads(dry_run(cluster, text=json.dumps(document)).stdout)
    model = InferenceDeployment.model_validate(document)

    assert without_empty(filled["spec"]["runtime"]) == without_empty(
        json.loads(model.spec.runtime.model_dump_json(by_alias=True, exclude_none=True))
    )


def test_the_documented_defaults_are_in_force(cluster):
    filled = json.loads(dry_run(cluster, text=json.dumps(GOOD[DEPLOYMENT])).stdout)["spec"]

    assert filled["traffic"] | {"routing": "Random", "cachedInputPercent": 0} == filled["traffic"]
    assert filled["sla"] == {"mode": "Streaming", "timeToFirstToken": {"milliseconds": 300, "percentile": "P95"}}
    assert filled["sizing"] == {"arrivals": "Poisson"}
    assert filled["scaling"] == {
        "mode": "Active",
        "minReplicas": 1,
        "burstHeadroomPercent": 25,
        "scaleDownStabilizationSeconds": 300,
        "scaleDownStepPercent": 25,
        "backlogDrainSeconds": 60,
        "metricsLossGraceSeconds": 900,
    }
    assert filled["capacity"] == {"priority": 0}
    assert filled["metrics"] == {"source": "default"}


def test_a_window_of_the_schedule_is_in_utc_and_its_times_need_no_quotes(cluster):
    window = {"days": ["Sat"], "start": "10:00", "end": "24:00", "peakRequestsPerSecond": "300"}
    text = yaml.safe_dump(changed(GOOD[DEPLOYMENT], {"spec.traffic.schedule": [window]}))

    filled = json.loads(dry_run(cluster, text=text.replace("'10:00'", "10:00")).stdout)

    assert filled["spec"]["traffic"]["schedule"] == [window | {"timeZone": "UTC"}]


def test_the_server_keeps_every_number_of_a_models_own_architecture(cluster):
    config = FILLED
    document = changed(GOOD[DEPLOYMENT], {"spec.model": {"name": "acme/own", "architecture": config}})

    filled = json.loads(dry_run(cluster, text=json.dumps(document)).stdout)

    assert filled["spec"]["model"]["architecture"] == config


def test_a_null_of_a_config_json_is_no_number(cluster):
    config = {"hidden_size": 4096, "sliding_window": None}
    document = changed(GOOD[DEPLOYMENT], {"spec.model": {"name": "acme/own", "architecture": config}})

    filled = json.loads(dry_run(cluster, text=json.dumps(document)).stdout)

    assert filled["spec"]["model"]["architecture"] == {"hidden_size": 4096}


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_the_example_is_accepted(cluster, example):
    namespaced = [d for d in yaml.safe_load_all(example.read_text()) if d["kind"] != "Namespace"]
    for document in namespaced:
        # NB: a dry run creates no namespace that the next object could be put into.
        document["metadata"].pop("namespace", None)

    done = dry_run(cluster, text=yaml.safe_dump_all(namespaced))

    assert done.stderr == ""


def test_kubectl_get_shows_the_state_of_every_deployment(cluster):
    name = "columns"
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(changed(GOOD[DEPLOYMENT], {"metadata.name": name})))
    try:
        before = cluster.kubectl("get", "infd", name).stdout.splitlines()
        patch_status(cluster, "infd", name, STATUS)
        after = cluster.kubectl("get", "infd", name).stdout.splitlines()
    finally:
        cluster.kubectl("delete", "infd", name)

    header, row = after
    assert header.split() == ["NAME", "MODEL", "READY", "DESIRED", "MAX", "MODE", "SLA", "REASON", "AGE"]
    assert row.split()[:-1] == [
        name,
        "meta-llama/Meta-Llama-3-8B-Instruct",
        "37",
        "39",
        "59",
        "Active",
        "True",
        "DemandAboveCapacity",
    ]
    # Nothing is claimed before the operator has looked: no zero, no False.
    assert before[1].split()[:-1] == [name, "meta-llama/Meta-Llama-3-8B-Instruct", "Active"]


def test_kubectl_get_shows_who_holds_a_pool(cluster):
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(GOOD[POOL]))
    try:
        status = GPUPoolStatus(
            inventory_gpus=64,
            charged_gpus=39,
            free_gpus=25,
            unmet_gpus=0,
            deployments=(PoolShare(namespace="call-center", name="support-rag", charged_gpus=39),),
        )
        patch_status(cluster, "gpupool", "spare", status)
        header, row = cluster.kubectl("get", "gpupool", "spare").stdout.splitlines()
    finally:
        cluster.kubectl("delete", "gpupool", "spare")

    assert header.split() == ["NAME", "LOCATION", "GPU", "INVENTORY", "CHARGED", "FREE", "UNMET", "AGE"]
    assert row.split()[:-1] == ["spare", "Cloud", "H100-SXM-80GB", "64", "39", "25", "0"]


def test_kubectl_get_shows_what_was_measured(cluster):
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(GOOD[BENCHMARK]))
    try:
        header, row = cluster.kubectl("get", "bench", "llama").stdout.splitlines()
    finally:
        cluster.kubectl("delete", "bench", "llama")

    assert header.split() == ["NAME", "MODEL", "GPU", "PRECISION", "TP", "INPUT", "OUTPUT", "LOAD", "AGE"]
    assert row.split()[:-1] == [
        "llama",
        "meta-llama/Meta-Llama-3-8B-Instruct",
        "H100-SXM-80GB",
        "FP8",
        "1",
        "2000",
        "200",
        "ClosedLoop",
    ]


def test_a_written_status_comes_back_as_it_was(cluster):
    name = "round-trip"
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(changed(GOOD[DEPLOYMENT], {"metadata.name": name})))
    try:
        patch_status(cluster, "infd", name, STATUS)
        stored = json.loads(cluster.kubectl("get", "infd", name, "-o", "json").stdout)
    finally:
        cluster.kubectl("delete", "infd", name)

    assert InferenceDeployment.model_validate(stored).status.model_dump() == STATUS.model_dump()


def test_the_category_lists_every_kind(cluster):
    names = cluster.kubectl("api-resources", "--categories=firsttoken", "-o", "name").stdout.split()

    assert sorted(names) == [f"{plural}.firsttoken.dev" for plural in PLURAL_NAMES]


PLURAL_NAMES = ["benchmarkprofiles", "gpupools", "inferencedeployments"]


def test_there_is_no_scale_subresource(cluster):
    """No field stands behind it: an autoscaler that wrote it would be a second brain."""
    done = cluster.kubectl("get", "--raw", "/apis/firsttoken.dev/v1alpha1")

    assert sorted(resource["name"] for resource in json.loads(done.stdout)["resources"]) == [
        "benchmarkprofiles",
        "gpupools",
        "gpupools/status",
        "inferencedeployments",
        "inferencedeployments/status",
    ]


def test_kubectl_explain_answers_with_unit_and_default(cluster):
    done = cluster.kubectl("explain", "infd.spec.scaling.scaleDownStabilizationSeconds")

    assert (
        "How long every signal has to allow fewer replicas before one is removed; at least as long as a start takes, "
        "up to 30 minutes. Unit: seconds. Default: 300."
    ) in " ".join(done.stdout.split())


def patch_status(cluster, kind, name, status):
    body = json.dumps({"status": status.model_dump(by_alias=True, exclude_none=True)})
    cluster.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", body)
