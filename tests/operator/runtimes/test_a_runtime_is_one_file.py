"""Needs of a runtime's image stand in its file: no other module names its variables or its paths."""

from __future__ import annotations

import pytest

from firsttoken_operator.runtimes import RENDERED, RuntimeType
from firsttoken_sizing.profile import ConfigurationKey
from tests.fixtures.source import strings

KEY = ConfigurationKey("a model", "H100-SXM-80GB", "FP8", tensor_parallel=4, pipeline_parallel=2)


@pytest.mark.parametrize("runtime", RENDERED)
def test_the_facts_of_an_image_are_named_in_its_own_file_only(runtime: RuntimeType) -> None:
    container = RENDERED[runtime]
    facts = {
        *(container.cache_path, container.ready_path, container.live_path, container.metrics_path),
        *(container.secret_variable, container.setting_pattern, *container.owned, *container.defaults),
    }
    named = {(module, text) for module, text in strings() if text in facts}

    assert {text for _, text in named} == facts
    assert {module for module, _ in named} == {f"firsttoken_operator/runtimes/{runtime.name.lower()}.py"}


@pytest.mark.parametrize("runtime", RENDERED)
def test_the_operator_sets_every_variable_that_it_keeps_for_itself(runtime: RuntimeType) -> None:
    container = RENDERED[runtime]

    assert set(container.environment(8000, KEY)) == set(container.owned)
    assert not set(container.defaults) & set(container.owned)
