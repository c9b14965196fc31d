"""The settings of a server are read from the words that start it, and words that tell nothing say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_operator.runtimes import CONTAINERS, nim1, nim2, sglang, triton, trtllm_serve, vllm
from firsttoken_operator.runtimes.replica import longest_tokens, replica_settings
from firsttoken_operator.runtimes.settings import Started, StartSettings, share, whole
from firsttoken_operator.runtimes.spec import ContainerSpec
from firsttoken_operator.runtimes.started import MOST_CHARACTERS, Words, started
from firsttoken_sizing.declared import DeclaredSettings
from firsttoken_sizing.engines import Engine
from tests.operator.runtimes.replicas import KEY, MODEL, served

DECLARED = DeclaredSettings(max_batch=48, tokens_per_step=4096, kv_cache_bits=8, memory_share=0.8)
VLLM = ("vllm", "serve", "a/model")


def settings(start: Words) -> StartSettings:
    found = started(start)
    assert found is not None
    return found.given


def of(*arguments: str, command: tuple[str, ...] = VLLM, **environment: str) -> Words:
    return Words(command=command, arguments=arguments, environment=environment)


def shell(script: str) -> Words:
    return Words(command=("/bin/bash", "-ec"), arguments=(script,))


def rendered(container: ContainerSpec, **fields: Any) -> Words:
    start = container.start(served(container, **fields))
    return Words(command=start.command, arguments=start.arguments, environment=start.environment)


def as_declared(engine: Engine) -> dict[str, object]:
    options = replica_settings(MODEL, KEY, engine, None, prefix_caching=False, declared=DECLARED)
    return {"settings": options, "drafts": 3, "is_as_installed": False}


@pytest.mark.parametrize(
    ("container", "engine", "kv_cache_bits", "draft_tokens"),
    [
        (vllm.CONTAINER, Engine.VLLM, 8, 3),
        (sglang.CONTAINER, Engine.SGLANG, 8, 3),
        # NB: type of the cache and drafts stand in its file.
        (trtllm_serve.CONTAINER, Engine.TENSORRT_LLM, None, None),
        (nim2.CONTAINER, None, 8, 3),
    ],
    ids=["vLLM", "SGLang", "trtllm-serve", "NIM 2.x"],
)
def test_what_is_rendered_is_read_back(
    container: ContainerSpec, engine: Engine | None, kv_cache_bits: int | None, draft_tokens: int | None
) -> None:
    own = Engine.VLLM if engine is None else engine

    assert settings(rendered(container, **as_declared(own))) == StartSettings(
        engine=engine,
        tensor_parallel=4,
        pipeline_parallel=2,
        longest_tokens=longest_tokens(MODEL, KEY, own, 2200),
        max_batch=48,
        tokens_per_step=4096,
        kv_cache_bits=kv_cache_bits,
        memory_share=0.8,
        speculates=None if draft_tokens is None else True,
        draft_tokens=draft_tokens,
        draft_method=None if draft_tokens is None else "NGram",
    )


def test_nim_1_tells_its_parallelism_and_triton_no_setting() -> None:
    assert settings(rendered(nim1.CONTAINER)) == StartSettings(tensor_parallel=4, pipeline_parallel=2)
    assert settings(rendered(triton.CONTAINER)) == StartSettings()


TRITON = ("tritonserver", "--model-repository=/models")


@pytest.mark.parametrize(
    ("start", "drain"),
    [
        pytest.param(of("--shutdown-timeout=45"), ("--shutdown-timeout", 45), id="vLLM"),
        pytest.param(of("--shutdown_timeout", "45"), ("--shutdown-timeout", 45), id="vLLM with underscores"),
        pytest.param(of("--shutdown-timeout", "0"), ("--shutdown-timeout", 0), id="vLLM told to abort"),
        pytest.param(of(), ("--shutdown-timeout", 0), id="vLLM as installed aborts"),
        pytest.param(of("--config=/a/file"), None, id="a file may say more"),
        pytest.param(of("--port=1", "$FURTHER"), None, id="a shell may say more"),
        pytest.param(of("--shutdown-timeout=$(SECONDS)"), None, id="another object says it"),
        pytest.param(of("--shutdown-timeout=1e9"), None, id="no number of seconds"),
        pytest.param(of(command=TRITON), ("--exit-timeout-secs", 30), id="Triton as installed"),
        pytest.param(of("--exit-timeout-secs=90", command=TRITON), ("--exit-timeout-secs", 90), id="Triton"),
        pytest.param(of(command=("trtllm-serve", "a/model")), None, id="trtllm-serve has none"),
        pytest.param(of(command=("python3", "-m", "sglang.launch_server")), None, id="SGLang has none"),
    ],
)
def test_the_limit_on_ending_answers_is_read(start: Words, drain: tuple[str, float] | None) -> None:
    found = started(start)

    assert found is not None
    assert found.drain == drain


@pytest.mark.parametrize("container", [vllm.CONTAINER, triton.CONTAINER], ids=["vLLM", "Triton"])
def test_the_limit_that_is_rendered_is_read_back(container: ContainerSpec) -> None:
    found = started(rendered(container, drain_seconds=105))

    assert found is not None
    assert found.drain is not None
    assert found.drain.seconds == 105


def test_nim_with_sglang_inside_is_read_in_its_words() -> None:
    start = rendered(nim2.CONTAINER, engine=Engine.SGLANG, **as_declared(Engine.SGLANG))

    assert settings(start).max_batch == 48
    assert settings(start).tokens_per_step == 4096
    assert settings(start).draft_tokens == 3


@pytest.mark.parametrize(
    ("start", "tensor_parallel"),
    [
        pytest.param(of("--tensor-parallel-size=4"), 4, id="with a sign"),
        pytest.param(of("--tensor-parallel-size", "4"), 4, id="as two words"),
        pytest.param(of("--tensor_parallel_size", "4"), 4, id="underscores"),
        pytest.param(of("-tp", "4"), 4, id="short"),
        pytest.param(of("-tp", "2", "-tp", "4"), 4, id="the last one counts"),
        pytest.param(of("-tp=2", "--tensor-parallel-size=4"), 4, id="by whatever name"),
        pytest.param(of("-tp=2", "--tensor-parallel-size=$A"), None, id="though it cannot be read"),
        pytest.param(of("-tp=$(GPUS)", GPUS="4"), 4, id="a variable of the pod"),
        pytest.param(of("-tp=$(GPUS)"), None, id="a variable that is not there"),
        pytest.param(of("-tp=four"), None, id="no number"),
        pytest.param(of("-tp=0"), None, id="none"),
        pytest.param(of("-tp"), None, id="no value"),
        pytest.param(of("-tp=4", command=("python3", "-m", "vllm.entrypoints.openai.api_server")), 4, id="module"),
        pytest.param(of("-tp=4", command=("/opt/venv/bin/vllm", "serve")), 4, id="in a folder"),
        pytest.param(Words("vllm/vllm-openai:v0.10.0", (), ("--model=a", "-tp=4")), 4, id="image"),
        pytest.param(Words("a:5000/b/vllm-openai@sha256:0", (), ("--model=a", "-tp=4")), 4, id="mirror"),
        pytest.param(shell("vllm serve a -tp 4"), 4, id="shell"),
        pytest.param(shell("set -e\nexport A=b; exec vllm serve a \\\n  -tp 4 2>&1 | tee log"), 4, id="script"),
        pytest.param(shell("# don't\nvllm serve a --hf-overrides '{\"a\": 1}' -tp 4 && echo -tp 8"), 4, id="quotes"),
        pytest.param(shell("if a; then vllm serve a -tp 4; else ray start -tp 8; fi"), 4, id="leader or worker"),
        pytest.param(shell("vllm serve a -tp $GPUS"), None, id="a variable of the shell"),
        pytest.param(shell("vllm serve a -tp $(nvidia-smi -L | wc -l)"), None, id="a command's answer"),
        pytest.param(of("--tp=4", command=("python3", "-m", "sglang.launch_server")), 4, id="SGLang"),
        pytest.param(of("--tp_size", "4", command=("mpirun", "-n", "4", "trtllm-serve", "a")), 4, id="under mpirun"),
        pytest.param(of("-tp=4", command=("nim-serve",), NIM_TENSOR_PARALLEL_SIZE="2"), 4, id="NIM's own words win"),
        pytest.param(
            of(command=(), NIM_TENSOR_PARALLEL_SIZE="2", NIM_PASSTHROUGH_ARGS="-tp 4"), 4, id="passed on wins"
        ),
    ],
)
def test_a_flag_is_read_as_the_server_reads_it(start: Words, tensor_parallel: int | None) -> None:
    assert settings(start).tensor_parallel == tensor_parallel


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(Words(), id="nothing"),
        pytest.param(of(command=("python", "server.py")), id="another program"),
        pytest.param(of(command=("sleep", "vllm")), id="half a start"),
        pytest.param(Words("nginx", (), ("--tensor-parallel-size=4",)), id="another image"),
        pytest.param(shell("vllm serve a -tp 4; vllm serve b -tp 2"), id="two servers"),
        pytest.param(shell("vllm serve 'a"), id="a quotation without an end"),
        pytest.param(shell(""), id="an empty script"),
        pytest.param(Words(command=("bash", "-c")), id="no script"),
        pytest.param(of("x" * MOST_CHARACTERS), id="too long"),
        pytest.param(of(*["$(A)"] * 1000, A="a" * 500), id="too long when filled in"),
    ],
)
def test_a_start_that_cannot_be_read_says_nothing(start: Words) -> None:
    assert started(start) is None


@pytest.mark.parametrize(
    ("start", "is_left"),
    [
        pytest.param(of(), True, id="not given"),
        pytest.param(of("--max-num-seqs=8"), False, id="given"),
        pytest.param(of("--max-num-seqs=$A"), False, id="filled in by a shell"),
        pytest.param(of("--config=a.yaml"), False, id="a file may say it"),
        pytest.param(shell("vllm serve a $FLAGS"), False, id="a word may say it"),
        pytest.param(shell("vllm serve a -tp $(gpus) --max-num-seqs 8"), False, id="cut off by an answer"),
        pytest.param(shell("vllm serve a -tp=$(gpus) --max-num-seqs 8"), False, id="cut off behind a sign"),
        pytest.param(shell("vllm serve a -tp `gpus`"), False, id="cut off by an answer of old"),
    ],
)
def test_only_what_nothing_may_say_is_left_to_the_engine(start: Words, is_left: bool) -> None:
    found = started(start)

    assert found is not None
    assert ("max_batch" in found.left) is is_left


def test_a_cache_that_the_engine_chooses_is_left_to_it() -> None:
    found = started(of("--kv-cache-dtype=auto"))

    assert found is not None
    assert found.given.kv_cache_bits is None
    assert "kv_cache_bits" in found.left


@pytest.mark.parametrize(
    ("flags", "drafts"),
    [
        ((), (None, None)),
        (('--speculative-config={"method": "ngram", "num_speculative_tokens": 5}',), (True, 5)),
        (("--speculative-config.method=ngram", "--speculative-config.num_speculative_tokens=5"), (True, 5)),
        (("--speculative-model=a", "--num-speculative-tokens=5"), (True, 5)),
        (("--speculative-config={",), (True, None)),
        (("--speculative-config=[1]",), (True, None)),
        (("--speculative-config=" + "[" * 5000,), (True, None)),
        (("--speculative-config=" + "9" * 5000,), (True, None)),
        (('--speculative-config={"num_speculative_tokens": {"a": 1}}',), (True, None)),
    ],
)
def test_speculation_is_read_in_every_way_of_vllm(flags: tuple[str, ...], drafts: tuple[bool, int]) -> None:
    found = settings(of(*flags))

    assert (found.speculates, found.draft_tokens) == drafts


def test_the_drafts_of_a_tree_are_no_number_of_tokens() -> None:
    found = settings(
        of("--speculative-algorithm=EAGLE", "--speculative-num-draft-tokens=4", command=("sglang", "serve"))
    )

    assert (found.speculates, found.draft_tokens) == (True, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [("64", 64), ("32k", 32_000), ("32K", 32_768), ("25.6k", 25_600), ("1m", 1_000_000), ("-1", None), ("1.5", None),
     ("", None), ("9999999999", None), ("1e9", None), ("٣", None), ("0", None)],
)  # fmt: skip
def test_a_count_is_read_as_vllm_writes_it(text: str, value: int | None) -> None:
    assert whole(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("0.9", 0.9), (".9", 0.9), ("1", 1.0), ("0", None), ("1.5", None), ("nan", None), ("-1", None)]
)
def test_a_share_is_between_none_and_all(text: str, value: float | None) -> None:
    assert share(text) == value


HOSTILE = st.text(
    st.sampled_from("-=$()`'\"\\#;&|\n{}[]:, .%0123456789abcdefghijklmnopqrstuvwxyzTP_/é\x00\u202e"), max_size=60
) | st.sampled_from(
    [
        "vllm",
        "serve",
        "vllm serve a -tp 2",
        "trtllm-serve",
        "bash",
        "-c",
        "--tp_size",
        "--max-num-seqs",
        "$(A)",
        "nim-serve",
    ]
)
NAMES = st.sampled_from(["A", "NIM_PASSTHROUGH_ARGS", "NIM_TENSOR_PARALLEL_SIZE", "NIM_MAX_MODEL_LEN"])
IMAGES = st.sampled_from(["", "vllm-openai", "a/vllm-openai:b@c"]) | HOSTILE


@given(IMAGES, st.lists(HOSTILE, max_size=6), st.lists(HOSTILE, max_size=8), st.dictionaries(NAMES, HOSTILE))
def test_any_words_give_bounded_numbers_or_nothing(
    image: str, command: list[str], arguments: list[str], environment: Mapping[str, str]
) -> None:
    found = started(Words(image, command, arguments, environment))

    assert found is None or isinstance(found, Started)
    if found is not None:
        counts = (found.given.tensor_parallel, found.given.max_batch, found.given.longest_tokens)
        assert all(value is None or 0 < value <= 2**60 for value in counts)
        assert found.given.memory_share is None or 0 < found.given.memory_share <= 1
        assert all(getattr(found.given, name) is None for name in found.left), "what is left is not given"


def test_no_two_servers_have_the_same_start() -> None:
    starts = [start for container in CONTAINERS if container.options for start in container.options.starts]

    assert len(set(starts)) == len(starts)
