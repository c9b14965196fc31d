"""Needs of a server's image stand in its file: no other module names its variables, its flags or its paths."""

from __future__ import annotations

import pytest

from firsttoken_operator.runtimes import CONTAINERS, nim1, nim2, sglang, triton, trtllm_serve, vllm
from firsttoken_operator.runtimes.spec import ContainerSpec
from tests.fixtures.source import strings
from tests.operator.runtimes.replicas import served

FILES = [
    (module.CONTAINER, module.__name__.replace(".", "/") + ".py")
    for module in (nim1, nim2, vllm, sglang, trtllm_serve, triton)
]
NAMES = [file.rpartition("/")[2] for _, file in FILES]
SHARED = "firsttoken_operator/runtimes/"
COMMON = {"/health", "HOME", "USER"}
"""Words that mean the same to other programs, of which some are ours."""
OURS = "firsttoken_operator/cli/"
"""Programs of our own, whose flags have the names that such flags have."""


def test_every_container_has_a_file() -> None:
    assert all(any(container is known for known, _ in FILES) for container in CONTAINERS)
    assert len(CONTAINERS) == len(FILES)


@pytest.mark.parametrize("container", [container for container, _ in FILES], ids=NAMES)
def test_the_facts_of_an_image_are_named_among_the_runtimes_only(container: ContainerSpec) -> None:
    facts = {
        *(container.cache_path, container.ready_path, container.live_path),
        *(container.secret_variable, *container.owned, *container.defaults),
        *container.flags,
    } - COMMON
    named = {(module, text) for module, text in strings() if text in facts and not module.startswith(OURS)}

    assert {text for _, text in named} == facts
    assert all(module.startswith(SHARED) for module, _ in named)


@pytest.mark.parametrize(("container", "file"), FILES, ids=NAMES)
def test_a_flag_is_named_in_the_file_of_its_server_only(container: ContainerSpec, file: str) -> None:
    shared = {flag for other in CONTAINERS if other is not container for flag in (*other.flags, *other.settable)}
    own = {*container.flags, *container.settable} - shared - COMMON
    named = {(module, text) for module, text in strings() if text in own and not module.startswith(OURS)}

    assert {module for module, _ in named} <= {file}


@pytest.mark.parametrize("container", [container for container, _ in FILES], ids=NAMES)
def test_a_start_sets_every_variable_and_no_flag_beside_those_that_it_says(container: ContainerSpec) -> None:
    start = container.start(served(container))
    given = [word.partition("=")[0] for word in start.arguments if word.startswith("-")]

    assert set(start.environment) == set(container.owned)
    assert not set(container.defaults) & set(container.owned)
    assert start.command == container.command
    assert set(given) <= set(container.flags)
    assert not set(container.flags) & set(container.settable)
