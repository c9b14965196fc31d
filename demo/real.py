"""The replica of the demo that is no emulation: a real Triton, or a real vLLM.

The Triton's model takes as long for a step as the emulated engines do. The vLLM has a model of random weights, as small
as a CPU needs: its latencies are not those of the size that answers, so it gets a part of what others get, and is held
to what it says of them.
"""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from demo.declared import QUICK_TO_DRAIN
from firsttoken_lab.emulate.fleet import ReplicaSpec
from firsttoken_lab.emulate.real import COMPLETIONS, GENERATE_STREAM
from firsttoken_operator.cli.emulate import replica_spec
from firsttoken_operator.families import TRITON, VLLM
from firsttoken_operator.families.triton import SUCCESS
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.simulation.fleet import coefficients
from tools.cluster import SetupError, under_way
from tools.engines import Triton, missing
from tools.engines.server import Server
from tools.engines.vllm import SMALLEST, Vllm

MODEL = "llm"
REPOSITORY = Path(__file__).with_name("triton")
DECLARED = QUICK_TO_DRAIN
"""Declared of both fleets, beside what every demo declares."""
VLLM_SHARE = 0.05
"""Share of a replica's requests that a vLLM beside all else on two cores answers in time."""
VLLM_SLOTS, VLLM_FLAGS = 16, ("--stream-interval=100",)
"""Its API would be the most expensive part of the demo if each token were an event of its own."""
CONTEXT_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of server that a replica can be. `likewise`: options of the emulated ones beside it."""

    runtime: str
    name: str
    likewise: tuple[str, ...]
    path: str
    """Path of its API at which it streams."""
    counter: str
    """Requests that it counts."""
    ttft: str = ""
    """Its histogram of TTFT, in seconds; empty: it has none."""
    share: float = 1.0
    """Share of the requests of another replica that go to it."""

    @property
    def is_paced(self) -> bool:
        """True: it takes as long for a step as the emulated ones do."""
        return self.runtime == TRITON.runtime


KINDS = {
    kind.runtime: kind
    for kind in (
        Kind(
            TRITON.runtime,
            "Triton",
            # 2.51 tells no TTFT, and a fleet of which a part does is not given back.
            ("--runtime", TRITON.runtime, "--without-ttft"),
            f"/v2/models/{MODEL}{GENERATE_STREAM}",
            SUCCESS,
        ),
        Kind(
            VLLM.runtime,
            "vLLM",
            ("--runtime", VLLM.runtime),
            COMPLETIONS,
            "vllm:request_success_total",
            ttft=VLLM.ttft,
            share=VLLM_SHARE,
        ),
    )
}


class RealServer:
    """A server that is one replica of the scaled fleet."""

    def __init__(self, kind: Kind, server: Server) -> None:
        self.kind = kind
        self._metrics_url = f"http://{server.metrics_address}/metrics"
        real = ("--real", f"{server.url}{kind.path}", self._metrics_url, "--real-share", f"{kind.share:g}")
        self.options = (*kind.likewise, *real)
        """Options of the fleet that it is a part of."""

    def counted(self) -> int | None:
        """Requests that it counts itself; None: it does not say."""
        samples = self._samples()
        name = self.kind.counter.removesuffix("_total")
        # NB: the parser puts `_total` behind every counter.
        return None if samples is None else int(sum(value for found, _, value in samples if found == f"{name}_total"))

    def ttft_bucket(self, share: float) -> tuple[float, float] | None:
        """Bounds, in milliseconds, between which its own histogram reaches this share of first tokens; None: none."""
        samples = self._samples() if self.kind.ttft else None
        if not samples:
            return None
        by_bound: dict[float, float] = {}
        for name, labels, value in samples:
            if name == f"{self.kind.ttft}_bucket":
                by_bound[float(labels["le"])] = by_bound.get(float(labels["le"]), 0.0) + value
        low = 0.0
        for bound, seen in sorted(by_bound.items()):
            if seen and seen >= share * max(by_bound.values()):
                return 1000 * low, 1000 * bound
            low = bound
        return None

    def _samples(self) -> list[tuple[str, Mapping[str, str], float]] | None:
        with suppress(OSError):
            with urllib.request.urlopen(self._metrics_url, timeout=5) as answer:
                page = answer.read().decode()
            return [
                (sample.name, sample.labels, sample.value)
                for family in text_string_to_metric_families(page)
                for sample in family.samples
            ]
        return None


@contextmanager
def real_server(kind: Kind, question: SizingRequest, folder: Path) -> Iterator[RealServer]:
    """A real server of this kind that is one replica of the size that answers; `folder` takes its files.

    Raises `SetupError` where it does not run here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    server: Server
    if kind.runtime == TRITON.runtime:
        if reason := missing():
            raise SetupError(f"RUNTIME={kind.runtime} plays with a real Triton, which does not run here: {reason}")
        spec = replica_spec(question, runtime=kind.runtime)
        server = Triton(models(spec, folder / "repository"), folder)
    else:
        server = Vllm(folder, slots=VLLM_SLOTS, flags=VLLM_FLAGS, sizes=SMALLEST, context=CONTEXT_TOKENS)
    with ExitStack() as running:
        with under_way(f"a real {kind.name}"):
            running.enter_context(server)
        yield RealServer(kind, server)


def models(spec: ReplicaSpec, folder: Path) -> Path:
    """Write the model repository of a replica like this into the folder, and return it."""
    shutil.copytree(REPOSITORY, folder, dirs_exist_ok=True)
    step = coefficients(spec.model)
    times = {
        "batch": step.batch.tolist(),
        "context": step.context.tolist(),
        "prefill": step.prefill,
        "prefill_squared": step.prefill_squared,
        "max_batch": spec.model.max_batch,
        "tokens_per_step": spec.settings.scheduler.tokens_per_step,
    }
    (folder / MODEL / "1" / "times.json").write_text(json.dumps(times), encoding="utf-8")
    return folder
