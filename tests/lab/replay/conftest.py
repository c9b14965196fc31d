"""The README's deployment, as a replay plays it."""

from __future__ import annotations

from pathlib import Path

import pytest

from firsttoken_lab.replay.setting import Setting, setting_of
from firsttoken_operator.api.documents import load_documents

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/call-center.yaml"


@pytest.fixture(scope="module")
def setting() -> Setting:
    documents = load_documents(EXAMPLE)
    setting = setting_of(documents.deployments[0], documents.pools, documents.benchmarks)
    assert isinstance(setting, Setting)
    return setting
