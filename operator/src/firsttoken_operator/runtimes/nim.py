"""NVIDIA NIM for LLMs, whose image's tag tells which of the two it is."""

from firsttoken_operator.runtimes import nim1, nim2
from firsttoken_operator.runtimes.spec import RuntimeSpec

SPEC = RuntimeSpec("NIM", (nim2.RELEASE, nim1.RELEASE))
