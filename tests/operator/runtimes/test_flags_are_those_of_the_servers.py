"""Every flag that a server may be given is one that its own parser knows: names as its release has them.

The lists are of vLLM's and SGLang's wheels (`EngineArgs` and the arguments of its frontend; the fields of `arg_groups`)
and of TensorRT-LLM's `commands/serve.py`. A real Triton is started with its own in `tests/engines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firsttoken_operator.runtimes import sglang, trtllm_serve, vllm
from firsttoken_operator.runtimes.spec import ContainerSpec

FLAGS = Path(__file__).parents[2] / "fixtures/flags"


def read(container: ContainerSpec) -> Iterator[str]:
    """The first name of each setting that is read of a start; the others are its short ones."""
    options = container.options
    assert options is not None
    for names in (
        *(options.tensor_parallel, options.pipeline_parallel, options.longest_tokens, options.max_batch),
        *(options.tokens_per_step, options.kv_cache_bits, options.memory_share),
    ):
        yield from names[:1]


@pytest.mark.parametrize(
    ("container", "release"),
    [
        (vllm.CONTAINER, "vllm-0.32.0"),
        (sglang.CONTAINER, "sglang-0.5.23"),
        (trtllm_serve.CONTAINER, "trtllm-serve-00209af"),
    ],
    ids=["vLLM", "SGLang", "trtllm-serve"],
)
def test_the_parser_of_the_server_knows_each_flag(container: ContainerSpec, release: str) -> None:
    known = set((FLAGS / f"{release}.txt").read_text().split())

    assert len(known) > len(container.flags)
    assert {*container.flags, *container.settable} - known == set()
    assert {*read(container)} - {flag.lstrip("-").replace("-", "_") for flag in known} == set()
