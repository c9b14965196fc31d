"""The replica of the demo that is no emulation: a real Triton, whose model takes as long for a step as they do."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from firsttoken_lab.emulate.fleet import ReplicaSpec
from firsttoken_operator.cli.emulate import replica_spec
from firsttoken_operator.families import TRITON
from firsttoken_operator.families.triton import SUCCESS
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.simulation.fleet import coefficients
from tools.cluster import SetupError
from tools.engines import Triton, missing

MODEL = "llm"
REPOSITORY = Path(__file__).with_name("triton")
LIKEWISE = ("--runtime", TRITON.runtime, "--without-ttft")
"""Options of the replicas beside it: 2.51 tells no TTFT, and a fleet of which a part does is not given back."""


class RealTriton:
    """A Triton that is one replica of the scaled fleet."""

    def __init__(self, triton: Triton) -> None:
        self._metrics_url = f"http://{triton.metrics_address}/metrics"
        self.options = (*LIKEWISE, "--real", f"{triton.url}/v2/models/{MODEL}/generate_stream", self._metrics_url)
        """Options of the fleet that it is a part of."""

    def counted(self) -> int | None:
        """Requests that it counts itself; None: it does not say."""
        with suppress(OSError):
            with urllib.request.urlopen(self._metrics_url, timeout=5) as answer:
                lines = answer.read().decode().splitlines()
            return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{SUCCESS}{{"))
        return None


@contextmanager
def real_triton(question: SizingRequest, folder: Path) -> Iterator[RealTriton]:
    """A Triton that works like a replica of the size that answers; `folder` takes its files. Raises `SetupError`."""
    if reason := missing():
        raise SetupError(f"RUNTIME={TRITON.runtime} plays with a real Triton, which does not run here: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    spec = replica_spec(question, runtime=TRITON.runtime)
    with Triton(models(spec, folder / "repository"), folder) as triton:
        yield RealTriton(triton)


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
