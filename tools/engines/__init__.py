"""Real inference servers on this machine's CPU, for tests: each from package registries, in an environment of its own.

They are no part of the product and of no use for speed: what they show is what such a server counts, and when.
"""

from tools.engines.triton import Triton, missing, triton

__all__ = ["Triton", "missing", "triton"]
