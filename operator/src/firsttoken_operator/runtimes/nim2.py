"""NVIDIA NIM for LLMs 2.x and 3.x: vLLM or SGLang behind a proxy, told what was sized as flags of the engine.

`NIM_PASSTHROUGH_ARGS` goes before every variable and every tag of the profile (docs.nvidia.com, NIM for LLMs 2.0,
advanced configuration). The profile still chooses the checkpoint, and with it the precision.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from firsttoken_operator.runtimes import nim1, sglang, vllm
from firsttoken_operator.runtimes.spec import ServedReplica, ServerRelease, Start
from firsttoken_sizing.engines import Engine

_PASSTHROUGH = "NIM_PASSTHROUGH_ARGS"


def _start(served: ServedReplica) -> Start:
    flags = sglang.sized_flags(served) if served.engine is Engine.SGLANG else vllm.sized_flags(served)
    told = shlex.join((*flags, *served.flags))
    return Start(environment={**nim1.environment(served), _PASSTHROUGH: told})


CONTAINER = replace(
    nim1.CONTAINER,
    owned=(*nim1.CONTAINER.owned, _PASSTHROUGH),
    settable=vllm.CONTAINER.settable,
    retired=vllm.CONTAINER.retired,
    start=_start,
)
RELEASE = ServerRelease((2, 0), (Engine.VLLM, Engine.SGLANG), CONTAINER)
