"""Compiles the functions of the event loop with numba where it is installed; elsewhere they stay plain Python.

The results are the same, the speed is not: compiled, one core simulates hundreds of thousands of requests a second,
plain Python a few thousand (benchmarks/speed.py). Imported by the event loop only, and that only when something is
simulated: numba takes a second or two to import and to read its cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., object])

try:
    import numba
except ModuleNotFoundError:
    IS_COMPILED = False
else:
    IS_COMPILED = True


def compiled(function: Function) -> Function:
    """The function as machine code, kept on disk between processes where a folder for it can be written."""
    if not IS_COMPILED:
        return function
    try:
        return cast(Function, numba.njit(cache=True)(function))
    except RuntimeError:
        # NB: with a read-only installation and no home folder numba refuses to cache instead of compiling without.
        return cast(Function, numba.njit(function))
