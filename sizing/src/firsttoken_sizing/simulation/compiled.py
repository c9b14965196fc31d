"""Compiles functions with numba where it is installed; elsewhere they stay plain Python.

The results are the same, the speed is not: compiled, one core simulates hundreds of thousands of requests a second,
plain Python a few thousand (benchmarks/speed.py). Imported only when something is simulated: numba takes a second or
two to import and to read its cache.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TypeVar, cast

from firsttoken_sizing.simulation import kernel

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


def _compiled_kernel() -> dict[str, Callable[..., None]]:
    """The functions of the kernel, compiled so that they call each other's compiled form; the module stays plain."""
    namespace = dict(vars(kernel))
    for name, function in vars(kernel).items():
        if isinstance(function, FunctionType) and function.__module__ == kernel.__name__:
            namespace[name] = compiled(FunctionType(function.__code__, namespace, name))
    return namespace


run = _compiled_kernel()["run"]
"""`kernel.run`, compiled."""
