"""Facts of one engine stand in its file: no other module names it, its aliases or its options."""

from __future__ import annotations

import ast
import re

import pytest

from firsttoken_sizing.engines import DEFAULT, Engine, is_called, proper_name
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.engines.spec import Setup
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import Batching
from tests.fixtures.source import modules, strings

HOME = "firsttoken_sizing/engines/"
TABLE = f"{HOME}__init__.py"
RUNTIMES = re.compile(r"firsttoken_operator/(families|runtimes)/")
"""Runtimes and metric families have files of their own, and are called like the engines inside."""
OWN_TOOLS = {
    "firsttoken_sizing/benchmarks/trtllm_bench.py": "the report of an engine's own benchmark, which has no other",
    "firsttoken_sizing/benchmarks/vllm_bench.py": "keys that people note with --metadata",
    "firsttoken_sizing/notebook/asked.py": "words of our own, some of which an engine has too",
}
KEY = ConfigurationKey("model", "gpu", "FP8")
SETUPS = [
    Setup(KEY, batching, Scheduler(), 1, kv_cache_bits=8, memory_share=0.9, prefix_caching=True)
    for batching in Batching
]


def options(engine: Engine) -> set[str]:
    return {name for setup in SETUPS for name in engine.spec.settings(setup)}


@pytest.mark.parametrize("engine", Engine)
def test_the_options_of_an_engine_are_named_in_engine_files_only(engine: Engine) -> None:
    # NB: a server's own flags may be called like the options of the engine inside.
    named = {(module, text) for module, text in strings() if text in options(engine) and not RUNTIMES.match(module)}

    assert {text for _, text in named} == options(engine)
    assert [leak for leak in named if not leak[0].startswith(HOME) and leak[0] not in OWN_TOOLS] == []


@pytest.mark.parametrize("engine", Engine)
def test_the_names_of_an_engine_stand_in_its_own_file_only(engine: Engine) -> None:
    names = {name.casefold() for name in (engine.value, *engine.spec.aliases, *engine.spec.labels)}
    homes = {module for module, text in strings() if text.casefold() in names and not RUNTIMES.match(module)}

    assert homes == {f"{HOME}{engine.name.lower()}.py"}


def test_no_module_asks_which_engine_it_has() -> None:
    asking = {
        module
        for module, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id == "Engine" and node.attr in Engine.__members__
    }

    assert {module for module in asking if not RUNTIMES.match(module)} <= {TABLE, *OWN_TOOLS}


def test_names_of_an_engine_are_told_apart() -> None:
    names = [alias for engine in Engine for alias in (*engine.spec.aliases, *engine.spec.labels)]

    assert len(set(names)) == len(names)
    for engine in Engine:
        for name in (engine.value, *engine.spec.aliases, *engine.spec.labels):
            assert [other for other in Engine if is_called(other, name)] == [engine], name
        assert {proper_name(label) for label in (engine.value, *engine.spec.labels)} == {engine.value}
    assert proper_name("an engine of my own") == "an engine of my own"
    assert DEFAULT in Engine
