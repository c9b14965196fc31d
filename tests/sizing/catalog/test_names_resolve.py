"""Every name that people, nodes and benchmark tools use leads to one entry of the catalog."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from firsttoken_sizing.catalog import gpus, models, resolve_gpu, resolve_model, resolve_precision
from firsttoken_sizing.errors import InvalidInput, UnknownGPU, UnknownModel

SHARED = Path(__file__).resolve().parents[4] / "shared"

GPU_NAMES = {
    "canonical": ("H100-SXM-80GB", "H100-SXM-80GB"),
    "another case": ("h100-sxm-80gb", "H100-SXM-80GB"),
    "short id": ("h100-sxm", "H100-SXM-80GB"),
    "short id with an underscore": ("h200_sxm", "H200-SXM-141GB"),
    "DLI device": ("H100_80GB_HBM3", "H100-SXM-80GB"),
    "node label": ("NVIDIA-H100-80GB-HBM3", "H100-SXM-80GB"),
    "nvidia-smi": ("NVIDIA H100 80GB HBM3", "H100-SXM-80GB"),
    "A100 node label": ("NVIDIA-A100-SXM4-80GB", "A100-SXM-80GB"),
    "label without vendor": ("A100-PCIE-40GB", "A100-PCIe-40GB"),
    "label of an old card": ("Tesla-T4", "T4"),
    "AMD label": ("AMD_Instinct_MI300X_OAM", "MI300X-192GB"),
    "surrounding space": (" L40S ", "L40S"),
}

MODEL_NAMES = {
    "Hugging Face id": ("meta-llama/Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
    "NIM name": ("meta/llama3-8b-instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
    "DLI name": ("meta-llama3-8b-instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
    "bare name in lower case": ("meta-llama-3-8b-instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
    "underscores of a Triton repository": ("llama_3_1_8b_instruct", "meta-llama/Llama-3.1-8B-Instruct"),
    "NIM name with a dot": ("meta/llama-3.1-70b-instruct", "meta-llama/Llama-3.1-70B-Instruct"),
    "quantized repository": ("nvidia/Llama-3.1-8B-Instruct-FP8", "meta-llama/Llama-3.1-8B-Instruct"),
    "GPT-43B": ("GPT-43B", "nvidia/nemo-gpt-43b"),
}


@pytest.mark.parametrize(("name", "canonical"), GPU_NAMES.values(), ids=GPU_NAMES.keys())
def test_gpu_is_found_by(name: str, canonical: str) -> None:
    assert resolve_gpu(name).name == canonical


@pytest.mark.parametrize(("name", "canonical"), MODEL_NAMES.values(), ids=MODEL_NAMES.keys())
def test_model_is_found_by(name: str, canonical: str) -> None:
    assert resolve_model(name).name == canonical


def test_every_node_label_leads_to_its_own_gpu() -> None:
    for gpu in gpus():
        if gpu.node_label is not None:
            assert resolve_gpu(gpu.node_label) is gpu


def test_every_bare_repository_name_leads_to_its_own_model() -> None:
    for model in models():
        assert resolve_model(model.name.rpartition("/")[2].upper()) is model


def test_unknown_gpu_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(UnknownGPU) as caught:
        resolve_gpu("H100", field="spec.hardware.gpus[0]")

    assert str(caught.value).startswith("spec.hardware.gpus[0]: unknown GPU 'H100'; did you mean ")
    assert "H100-SXM-80GB" in caught.value.fix
    assert "H100-PCIe-80GB" in caught.value.fix


def test_unknown_model_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(UnknownModel, match=r"meta-llama/Llama-3\.1-8B-Instruct") as caught:
        resolve_model("meta/llama-3.1-8b-instrcut")

    assert caught.value.field == "model.name"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("B200-180GB", "B200-SXM-180GB"),
        ("MI300", "MI300X-192GB"),
        ("H200-141", "H200-SXM-141GB"),
    ],
)
def test_a_part_of_a_name_of_a_gpu_suggests_the_whole(name: str, nearest: str) -> None:
    with pytest.raises(UnknownGPU) as caught:
        resolve_gpu(name)

    assert caught.value.fix.startswith(f"did you mean {nearest}")


@pytest.mark.parametrize(
    ("name", "nearest"), [("Llama-3.3-70B", "meta-llama/Llama-3.3-70B-Instruct"), ("gpt-oss", "openai/gpt-oss-20b")]
)
def test_a_part_of_a_name_of_a_model_suggests_the_whole(name: str, nearest: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve_model(name)

    assert caught.value.fix.startswith(f"did you mean {nearest}")


@pytest.mark.parametrize("name", ["gpt-4o", "openai/gpt-5-mini", "claude-3-5-sonnet", "Gemini 2.5"])
def test_a_model_without_weights_suggests_no_other(name: str) -> None:
    with pytest.raises(UnknownModel, match="weights are not published") as caught:
        resolve_model(name)

    assert "did you mean" not in str(caught.value)


def test_a_name_like_no_other_is_refused_with_where_to_look() -> None:
    with pytest.raises(UnknownModel, match="lists the known names"):
        resolve_model("zzzzzzzz")


@pytest.mark.parametrize("name", ["", "   ", "/"])
def test_an_empty_name_is_refused(name: str) -> None:
    with pytest.raises(UnknownGPU):
        resolve_gpu(name)
    with pytest.raises(UnknownModel):
        resolve_model(name)


@pytest.mark.parametrize(
    ("label", "word"),
    [
        ("NVIDIA-H100-80GB-HBM3-SHARED", "time-sliced"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "MIG"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", "time-sliced"),
    ],
)
def test_a_part_of_a_gpu_is_refused(label: str, word: str) -> None:
    with pytest.raises(UnknownGPU, match=word) as caught:
        resolve_gpu(label)

    assert "whole GPUs" in caught.value.fix


@pytest.mark.parametrize(
    ("name", "canonical"), [("fp8", "FP8"), ("bfloat16", "BF16"), ("int4_awq", "INT4"), ("NVFP4", "NVFP4")]
)
def test_precision_is_found_by(name: str, canonical: str) -> None:
    assert resolve_precision(name) == canonical


def test_unknown_precision_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="use one of FP16, BF16, FP8"):
        resolve_precision("fp7")


def test_every_device_of_the_shared_data_resolves() -> None:
    if not (SHARED / "data").is_dir():
        pytest.skip("../shared/data is not here")
    devices = set()
    for path in sorted((SHARED / "data").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                # The system of the all-reduce table is the GPU; gpus.csv has no `device` but ids, names and labels.
                columns = ("id", "name", "gpu_product_label") if path.name == "gpus.csv" else ("device", "system")
                devices |= {row[column] for column in columns if row.get(column)}
    # "unknown (DLI lab, 1 GPU)" says in words that the GPU was not written down.
    devices = {device for device in devices if not device.startswith("unknown")}

    assert len(devices) > 80
    for device in sorted(devices):
        assert resolve_gpu(device).name


def test_every_device_of_the_shared_samples_resolves() -> None:
    samples = SHARED / "samples"
    if not samples.is_dir():
        pytest.skip("../shared/samples is not here")
    with (samples / "dli" / "nim.csv").open(newline="", encoding="utf-8") as file:
        devices = {row["task_inputs-GPU"] for row in csv.DictReader(file)}
    pattern = re.compile(r"""(?:gpu\.product:\s*|"(?:gpu|name)":\s*")((?:NVIDIA|AMD|Tesla)[- \w]+)""")
    for path in sorted(samples.rglob("*")):
        if path.suffix in (".yaml", ".yml", ".json"):
            devices |= set(pattern.findall(path.read_text(encoding="utf-8")))

    assert {"H100_80GB_HBM3", "NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3"} <= devices
    for device in sorted(devices):
        assert resolve_gpu(device).name


def test_every_model_of_the_shared_measurements_resolves() -> None:
    if not (SHARED / "data").is_dir():
        pytest.skip("../shared/data is not here")
    names = set()
    for path in sorted((SHARED / "data").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            names |= {row["model"] for row in csv.DictReader(file) if row.get("model")}

    assert len(names) > 50
    for name in sorted(names):
        assert resolve_model(name).name


def test_every_model_of_the_shared_samples_resolves() -> None:
    samples = SHARED / "samples"
    if not samples.is_dir():
        pytest.skip("../shared/samples is not here")
    with (samples / "dli" / "nim.csv").open(newline="", encoding="utf-8") as file:
        names = {row["task_inputs-model"] for row in csv.DictReader(file)}
    pattern = re.compile(r'"(?:model|model_id|model_name)":\s*"([^"]+)"')
    for path in sorted(samples.rglob("*.json")):
        names |= set(pattern.findall(path.read_text(encoding="utf-8")))
    # The loopback mock servers that wrote some of the samples: no models.
    names -= {"mock", "./tok"}

    assert len(names) >= 3
    for name in sorted(names):
        assert resolve_model(name).name


def test_every_model_and_gpu_of_the_shared_data_is_in_the_catalog() -> None:
    if not (SHARED / "data").is_dir():
        pytest.skip("../shared/data is not here")
    for name, resolve in (("models.csv", resolve_model), ("gpus.csv", resolve_gpu)):
        with (SHARED / "data" / name).open(newline="", encoding="utf-8") as file:
            ids = [row["id"] for row in csv.DictReader(file)]

        assert len({resolve(identifier).name for identifier in ids}) == len(ids)
