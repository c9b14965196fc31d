"""One YAML file serves `kubectl apply` and `firsttoken size`: ours are read, the others skipped, mistakes named."""

import textwrap
from pathlib import Path

import pytest
import yaml

from firsttoken_operator.api.documents import load_documents, parse_documents
from firsttoken_operator.api.errors import ApiError, UnreadableDocument
from tests.operator.api.bad_objects import BENCHMARK, DEPLOYMENT, GOOD, POOL, changed

ROOT = Path(__file__).parents[3]


def test_every_document_of_the_call_center_is_read():
    documents = load_documents(ROOT / "examples" / "call-center.yaml")

    assert [d.key for d in documents.deployments] == ["call-center/support-rag"]
    assert list(documents.pools) == ["h100"]
    assert [len(b.spec.points) for b in documents.benchmarks] == [8]


def test_the_fleet_of_the_examples_brings_the_labels_of_its_namespaces():
    documents = load_documents(ROOT / "examples" / "fleet")

    assert (len(documents.deployments), list(documents.pools)) == (10, ["datacenter", "rented"])
    assert documents.namespaces == {
        "shop": {"team": "products"},
        "bank": {"team": "products"},
        "lab": {"team": "research"},
    }


@pytest.mark.parametrize("metadata", ["{}", "{name: 3}", "[]", "{name: lab}", "{name: lab, labels: [a]}"])
def test_a_namespace_without_labels_says_nothing(metadata: str):
    found = parse_documents(f"apiVersion: v1\nkind: Namespace\nmetadata: {metadata}\n").namespaces

    assert found == ({"lab": {}} if "lab" in metadata else {})


def test_all_examples_can_be_read_together():
    documents = load_documents(ROOT / "examples")

    assert sorted(d.metadata.name for d in documents.deployments) == [
        "analyst-vllm",
        "assistant",
        "assistant-kept-image",
        "assistant-nim2",
        "assistant-sglang",
        "assistant-triton",
        "assistant-trtllm",
        "assistant-vllm",
        "batch-job",
        "chat",
        "claims-assistant",
        "data-generation",
        "own-model",
        "reasoning-sglang",
        "report-writer",
        "summarization",
        "support-chat",
        "support-rag",
        "two-types-chat",
    ]


def test_other_kinds_in_the_file_are_skipped():
    text = yaml.safe_dump_all(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
            None,
            GOOD[POOL],
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "support-rag"}, "spec": {"bad": 1}},
        ]
    )

    documents = parse_documents(text)

    assert (len(documents.deployments), list(documents.pools), len(documents.benchmarks)) == (0, ["spare"], 0)


def test_what_kubectl_get_prints_is_read():
    """A list with everything that the API server adds: managed fields, a status, an annotation of kubectl."""
    stored = changed(
        GOOD[DEPLOYMENT],
        {
            "metadata.managedFields": [{"manager": "kubectl"}],
            "metadata.creationTimestamp": "2026-11-21T10:00:00Z",
            "metadata.resourceVersion": "7",
            "status": {"readyReplicas": 3, "somethingNewer": {}},
        },
    )

    documents = parse_documents(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [stored, GOOD[POOL]]}))

    assert documents.deployments[0].status.ready_replicas == 3
    assert list(documents.pools) == ["spare"]


def test_a_folder_means_its_yaml_files(tmp_path):
    (tmp_path / "pool.yaml").write_text(yaml.safe_dump(GOOD[POOL]))
    (tmp_path / "bench.yml").write_text(yaml.safe_dump(GOOD[BENCHMARK]))
    (tmp_path / "notes.txt").write_text("not: [yaml")

    documents = load_documents(tmp_path)

    assert (list(documents.pools), len(documents.benchmarks)) == (["spare"], 1)


def test_the_same_name_in_two_files_is_refused(tmp_path):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump(GOOD[POOL]))

    with pytest.raises(ApiError) as refusal:
        load_documents(tmp_path)

    assert str(refusal.value) == (
        f"{tmp_path}/b.yaml: GPUPool/spare: metadata.name: is also in {tmp_path}/a.yaml; keep one of the two"
    )


def test_the_same_name_in_two_namespaces_is_two_deployments():
    text = yaml.safe_dump_all(
        [changed(GOOD[DEPLOYMENT], {"metadata.namespace": namespace}) for namespace in ("blue", "green")]
    )

    assert [d.key for d in parse_documents(text).deployments] == ["blue/support-rag", "green/support-rag"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "a: [1, 2",
            "<stdin>: is not YAML: expected ',' or ']', but got '<stream end>' in line 1; correct that line",
            id="broken YAML",
        ),
        pytest.param(
            "kind: GPUPool\nkind: GPUPool\n",
            "<stdin>: is not YAML: the key 'kind' is there twice in line 1; correct that line",
            id="a key twice",
        ),
        pytest.param(
            "- 1\n", "<stdin>: document 1 is not a Kubernetes object; give it apiVersion and kind", id="a list"
        ),
        pytest.param(
            "kind: GPUPool\nmetadata: {name: 2026-13-45}\n",
            "<stdin>: holds a value that cannot be read (month must be in 1..12); correct or quote it",
            id="a date that does not exist",
        ),
        pytest.param(
            "apiVersion: firsttoken.dev/v1alpha1\nkind: GpuPool\nmetadata: {name: a}\n",
            "<stdin>: GpuPool/a: kind: GpuPool is not a kind of firsttoken.dev; "
            "use one of InferenceDeployment, GPUPool, BenchmarkProfile",
            id="a misspelled kind",
        ),
        pytest.param(
            "apiVersion: firsttoken.dev/v1\nkind: GPUPool\nmetadata: {name: a}\n",
            "<stdin>: GPUPool/a: apiVersion: 'firsttoken.dev/v1' is not supported; use firsttoken.dev/v1alpha1",
            id="another version",
        ),
        pytest.param(
            "apiVersion: firsttoken.dev/v1alpha1\nkind: GPUPool\n",
            "<stdin>: GPUPool/(no name): metadata.name: is required; add it",
            id="no name",
        ),
    ],
)
def test_a_text_that_is_no_object_of_ours_is_refused_in_one_line(text, message):
    with pytest.raises(ApiError) as refusal:
        parse_documents(text)

    assert str(refusal.value) == message


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "nowhere.yaml"

    with pytest.raises(UnreadableDocument) as refusal:
        load_documents(path)

    assert str(refusal.value) == (f"{path}: cannot be read (No such file or directory); name a YAML file that exists")


def test_misspellings_are_reported_with_the_nearest_field():
    text = textwrap.dedent(
        """
        apiVersion: firsttoken.dev/v1alpha1
        kind: BenchmarkProfile
        metadata: {name: llama}
        spec:
          model: meta-llama/Meta-Llama-3-8B-Instruct
          gpu: H100-SXM-80GB
          precision: FP8
          inputTokens: 2000
          outputTokens: 200
          load: ClosedLoop
          points:
          - {concurrency: 1, requestsPerSecond: 1.0, ttftMillisecond: {mean: 34.7}}
        """
    )

    with pytest.raises(ApiError) as refusal:
        parse_documents(text, file="bench.yaml")

    assert str(refusal.value) == (
        "bench.yaml: BenchmarkProfile/llama: spec.points[0].ttftMillisecond: unknown field; "
        "did you mean ttftMilliseconds or itlMilliseconds?"
    )
