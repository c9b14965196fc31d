"""Catalog entries from the numbers of a config.json: held against the catalog, whose figures have other sources."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing.catalog import Attention, Model, resolve_model
from firsttoken_sizing.catalog.architecture import model_from_config
from firsttoken_sizing.errors import InvalidInput
from tests.fixtures.hypothesis_scale import examples

Config = dict[str, object]

LLAMA: Config = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
DEEPSEEK: Config = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_nextn_predict_layers": 1,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}
GPT_OSS: Config = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_local_experts": 128,
    "experts_per_token": 4,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "vocab_size": 201088,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.embed_tokens", "lm_head"],
    },
}
QWEN_MOE: Config = {
    "model_type": "qwen3_moe",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 94,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "use_sliding_window": False,
    "sliding_window": None,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}
LLAMA_4: Config = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "interleave_moe_layer_step": 2,
        "num_hidden_layers": 48,
        "num_local_experts": 128,
        "num_experts_per_tok": 1,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "attention_chunk_size": 8192,
        "vocab_size": 202048,
        "max_position_embeddings": 1048576,
    },
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
NEMOTRON_H: Config = {
    "model_type": "nemotron_h",
    "hidden_size": 2688,
    "intermediate_size": 1856,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "num_hidden_layers": 52,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "mlp_hidden_act": "relu2",
    "vocab_size": 131072,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
}
QWEN_HYBRID: Config = {
    "model_type": "qwen3_5",
    "text_config": {
        "model_type": "qwen3_5_text",
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 64,
        "full_attention_interval": 4,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_key_head_dim": 128,
        "linear_num_value_heads": 48,
        "linear_value_head_dim": 128,
        "vocab_size": 248320,
        "max_position_embeddings": 262144,
        "tie_word_embeddings": False,
    },
}
GEMMA: Config = {
    "model_type": "gemma2",
    "hidden_size": 3584,
    "intermediate_size": 14336,
    "num_hidden_layers": 42,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "sliding_window": 4096,
    "vocab_size": 256000,
    "max_position_embeddings": 8192,
}
SAME_AS_CATALOG: dict[str, Config] = {
    "meta-llama/Meta-Llama-3-8B-Instruct": LLAMA,
    "meta-llama/Llama-2-13b-chat-hf": {
        "hidden_size": 5120,
        "intermediate_size": 13824,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    },
    "meta-llama/Llama-3.2-1B-Instruct": LLAMA
    | {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "head_dim": 64,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": True,
    },
    "mistralai/Mixtral-8x7B-Instruct-v0.1": LLAMA
    | {
        "model_type": "mixtral",
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": None,
        "vocab_size": 32000,
        "max_position_embeddings": 32768,
    },
    "mistralai/Mistral-7B-Instruct-v0.1": LLAMA
    | {"model_type": "mistral", "sliding_window": 4096, "vocab_size": 32000, "max_position_embeddings": 32768},
    "deepseek-ai/DeepSeek-V3": DEEPSEEK,
    "Qwen/Qwen3-235B-A22B": QWEN_MOE,
    "openai/gpt-oss-120b": GPT_OSS,
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": LLAMA_4,
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B": NEMOTRON_H,
    "Qwen/Qwen3.5-27B": QWEN_HYBRID,
    "google/gemma-2-9b-it": GEMMA,
    "nvidia/nemotron-4-15b": {
        "model_type": "nemotron",
        "hidden_size": 6144,
        "intermediate_size": 24576,
        "num_hidden_layers": 32,
        "num_attention_heads": 48,
        "num_key_value_heads": 8,
        "hidden_act": "relu2",
        "vocab_size": 256000,
        "max_position_embeddings": 4096,
    },
}


def read(config: Mapping[str, object]) -> Model:
    return model_from_config("my-org/my-model", config)


@pytest.mark.parametrize(("name", "config"), SAME_AS_CATALOG.items(), ids=SAME_AS_CATALOG.keys())
def test_a_config_json_gives_what_the_catalog_has(name: str, config: Config) -> None:
    found, known = read(config), resolve_model(name)

    assert found.parameters_billion == pytest.approx(known.parameters_billion, rel=0.01)
    # The published active parameters of gpt-oss leave its embeddings out.
    published_otherwise = 0.13 if "gpt-oss" in name else 0.03
    assert found.active_parameters_billion == pytest.approx(known.active_parameters_billion, rel=published_otherwise)
    assert found.kv_bytes_per_token == known.kv_bytes_per_token
    assert found.kv_bytes_per_token_beyond_window == known.kv_bytes_per_token_beyond_window
    for tokens in (100, 5000):
        assert found.kv_bytes(tokens) == known.kv_bytes(tokens)
    assert found.attention is known.attention
    assert found.experts_per_token == known.experts_per_token
    assert found.max_context_tokens == known.max_context_tokens


def test_the_name_is_the_users_and_the_source_is_said() -> None:
    model = read(LLAMA)

    assert model.name == "my-org/my-model"
    assert model.family == "llama"
    assert model.source == "config.json"


def test_an_mla_cache_is_the_compressed_vector() -> None:
    model = read(DEEPSEEK)

    assert model.attention is Attention.MLA
    assert model.kv_bytes_per_token == 61 * (512 + 64) * 2


def test_a_checkpoint_with_quantized_experts_is_as_large_as_published() -> None:
    """The gpt-oss-120b checkpoint is 60.8 GiB: experts at 4.25 bits, the rest at 16."""
    assert read(GPT_OSS).weight_bytes("MXFP4") == pytest.approx(60.8 * 2**30, rel=0.01)


@pytest.mark.parametrize(
    ("quantization", "precision"),
    [
        (None, "BF16"),
        ({"quant_method": "fp8"}, "FP8"),
        ({"quant_method": "awq", "bits": 4}, "INT4"),
        ({"quant_method": "gptq", "bits": 8}, "INT8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "NVFP4"),
        ({"quant_method": "mxfp4"}, "MXFP4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "INT4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "FP8",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
            },
            "INT4",
        ),
    ],
)
def test_the_precision_is_the_checkpoints_own(quantization: object, precision: str) -> None:
    assert list(read(LLAMA | {"quantization_config": quantization}).published_precisions) == [precision]


@pytest.mark.parametrize(
    ("change", "attention_layers", "full_layers", "window"),
    [
        ({"sliding_window": 8192}, 32, 32, None),
        ({"sliding_window": 1024, "use_sliding_window": False}, 32, 32, None),
        ({"sliding_window": 1024, "use_sliding_window": True, "max_window_layers": 28}, 32, 28, 1024),
        ({"sliding_window": 1024, "sliding_window_pattern": 4}, 32, 8, 1024),
        ({"attn_layer_period": 8, "attn_layer_offset": 4, "ssm_state_size": 16, "mamba_expand": 2}, 4, 4, None),
        ({"attn_layer_indices": [9, 18, 27], "ssm_state_size": 16, "expand": 2}, 3, 3, None),
        ({"layer_types": ["mamba", "attention"] * 16, "ssm_state_size": 16, "expand": 2}, 16, 16, None),
    ],
    ids=["as long as the context", "switched off", "late layers", "pattern", "Jamba", "Bamba", "list"],
)
def test_layers_are_counted_by_whichever_field_says_so(
    change: Config, attention_layers: int, full_layers: int, window: int | None
) -> None:
    model = read(LLAMA | change)

    assert model.attention_layers == attention_layers
    assert model.full_attention_layers == full_layers
    assert model.sliding_window_tokens == window


def test_layers_of_different_kv_heads_count_with_the_larger_and_say_so() -> None:
    model = read(LLAMA | {"sliding_window": 128, "sliding_window_pattern": 4, "swa_num_key_value_heads": 16})

    assert model.kv_heads == 16
    assert "larger" in model.notes


@pytest.mark.parametrize(
    "field",
    ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "max_position_embeddings"],
)
def test_a_missing_number_is_named_with_the_fix(field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read({key: value for key, value in LLAMA.items() if key != field})

    assert caught.value.field == f"model.architecture.{field}"
    assert "is missing; copy it from the model's config.json" in str(caught.value)


def test_a_missing_number_of_a_multimodal_model_is_named_where_it_belongs() -> None:
    text = {key: value for key, value in LLAMA.items() if key != "vocab_size"}
    with pytest.raises(InvalidInput) as caught:
        read({"model_type": "llava", "text_config": text})

    assert caught.value.field == "model.architecture.text_config.vocab_size"


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"hidden_size": "4096"}, "hidden_size", "'4096' is not a whole number"),
        ({"hidden_size": float("nan")}, "hidden_size", "nan is not a whole number"),
        ({"hidden_size": True}, "hidden_size", "True is not a whole number"),
        ({"hidden_size": 0}, "hidden_size", "is 0"),
        ({"num_hidden_layers": -1}, "num_hidden_layers", "-1 is out of range"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers", "1000000 is more than 1000"),
        ({"num_key_value_heads": 5}, "num_key_value_heads", "5 KV heads do not divide 32"),
        ({"hidden_size": 4097}, "head_dim", "is missing, and 32 heads do not divide"),
        ({"num_local_experts": 8}, "num_experts_per_tok", "is missing"),
        ({"num_local_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok", "9 of 8 experts"),
        ({"layer_types": ["rwkv"] * 32}, "layer_types", "unknown kind 'rwkv'"),
        ({"layer_types": ["attention"] * 5}, "layer_types", "has 5 items for 32 layers"),
        ({"layer_types": ["mamba"] * 32}, "num_hidden_layers", "no layer has attention"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder", "encoder-decoder"),
        ({"compress_ratios": [4] * 32}, "compress_ratios", "compresses its KV cache"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim", "is missing"),
        ({"quantization_config": {"quant_method": "magic"}}, "quantization_config", "unknown quantization 'magic'"),
    ],
)
def test_numbers_that_cannot_be_are_refused_by_name(change: Config, field: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        read(LLAMA | change)

    assert caught.value.field == f"model.architecture.{field}"


_FIELDS = sorted({*LLAMA, *DEEPSEEK, *NEMOTRON_H, *QWEN_MOE, "sliding_window", "layer_types", "moe_layer_freq"})
_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**10), st.floats(), st.text(max_size=5), st.lists(st.integers(0, 3))
)


@settings(max_examples=examples(150))
@given(
    base=st.sampled_from([LLAMA, DEEPSEEK, GPT_OSS, NEMOTRON_H, QWEN_HYBRID, LLAMA_4]),
    changes=st.dictionaries(st.sampled_from(_FIELDS), _VALUES, max_size=3),
)
def test_any_config_gives_a_model_or_one_line_about_a_field(base: Config, changes: Config) -> None:
    try:
        model = read(base | changes)
    except InvalidInput as refused:
        if not refused.field.startswith("model.architecture."):
            raise
        return
    assert math.isfinite(model.parameters_billion)
    assert 0 < model.active_parameters_billion <= model.parameters_billion * (1 + 1e-9)
    assert model.kv_bytes_per_token > 0
