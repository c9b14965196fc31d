"""A size carries the settings of the engine that it holds for, as the resource declares them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.domain import Sized
from firsttoken_operator.run.question import answers, better
from firsttoken_operator.runtimes.settings import SizedSettings
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.optimize import alternatives, size
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import Limit, Percentile, Routing
from tests.operator.act.objects import infd

DECLARED = {"maxBatchSize": 48, "maxBatchedTokens": 4096, "gpuMemoryPercent": 80}


def sized(**sizing: Any) -> SizedSettings:
    hardware = {"gpus": ["H100-SXM-80GB"], "tensorParallel": 2}
    document = infd(hardware=hardware, sizing={"arrivals": "ClosedLoop"} | sizing)
    request = sizing_request(InferenceDeployment.model_validate(document), {}, ())
    (found, *_) = (answer.sized for answer in answers(request, "chat").values())
    assert isinstance(found, Sized)
    assert found.settings is not None
    return found.settings


@pytest.mark.parametrize("engine", Engine)
def test_settings_are_as_declared_else_those_of_the_engine(engine: Engine) -> None:
    found = sized(engine=engine.value, engineSettings=DECLARED)
    told = (found.told.max_batch, found.told.tokens_per_step, found.told.memory_share)

    assert told == (48, 4096, 0.8)
    assert (found.told.engine, found.told.tensor_parallel, found.told.longest_tokens) == (engine, 2, 2200)
    assert found.as_installed == sized(engine=engine.value).as_installed
    assert found.as_installed.max_batch == 256
    assert found.as_installed.tensor_parallel == 1, "without a flag an engine takes one GPU"


def test_drafts_are_those_that_are_declared() -> None:
    found = sized(engine="vLLM", speculativeDecoding={"draftTokens": 3, "acceptancePercent": 60})

    assert (found.told.speculates, found.told.draft_tokens) == (True, 3)
    assert (found.as_installed.speculates, found.as_installed.draft_tokens) == (False, None)


def test_what_is_scaled_down_by_has_the_hits_of_one_replica() -> None:
    document = infd(hardware={"gpus": ["H100-SXM-80GB"], "tensorParallel": 2})
    request = sizing_request(InferenceDeployment.model_validate(document), {}, ())
    cached = {"cached_input_percent": 60.0, "prefixes_in_use": 300, "routing": Routing.PREFIX_AWARE}
    request = replace(request, workload=replace(request.workload, peak_requests_per_second=400.0, **cached))

    (answer, *_) = answers(request, "chat").values()

    assert isinstance(answer.sized, Sized)
    careful, of_the_peak = size(replace(request, fewest_replicas=1)), size(request)
    assert answer.sized.replicas_for_declared_peak == careful.replicas
    assert careful.requests_per_second_per_replica < of_the_peak.requests_per_second_per_replica


def test_pools_apart_are_not_searched_for_where_nothing_is_read_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a report shows them: of 1,000,000 requests/s the search took more memory than all else."""
    searched: list[object] = []
    monkeypatch.setattr(alternatives, "disaggregated", lambda *asked: searched.append(asked))
    document = infd(hardware={"gpus": ["H100-SXM-80GB"], "tensorParallel": 2})
    request = sizing_request(InferenceDeployment.model_validate(document), {}, ())
    request = replace(
        request,
        workload=replace(request.workload, peak_requests_per_second=1e6),
        sla=replace(request.sla, inter_token_latency=Limit(100, Percentile.P95)),
    )

    (answer, *_) = answers(request, "chat").values()
    pinned = replace(request, pinned=ConfigurationKey(request.model, "H100-SXM-80GB", "FP8", 2))
    better(pinned, answer)

    assert isinstance(answer.sized, Sized)
    assert not searched
    assert size(request).feasible
    assert searched, "the report asks for them"
