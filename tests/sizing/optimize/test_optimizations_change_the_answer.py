"""Declarations beside the plain model and engine move the answer the way they are known to, and say so."""

from dataclasses import replace

import pytest

from firsttoken_sizing import Basis, Engine, size
from firsttoken_sizing.workload import Batching, Sparsity, SpeculativeDecoding
from tests.fixtures.worked_examples import call_center, call_center_profile


def test_sparse_weights_leave_room_for_the_cache_and_carry_more() -> None:
    plain, sparse = size(call_center()), size(replace(call_center(), sparsity=Sparsity.TWO_OF_FOUR))

    assert plain.memory is not None
    assert sparse.memory is not None
    assert sparse.memory.weights_gib == pytest.approx(plain.memory.weights_gib * 5 / 8)
    assert sparse.requests_per_second_per_replica > 1.1 * plain.requests_per_second_per_replica
    assert sparse.basis is Basis.EXTRAPOLATED
    assert "2:4 sparsity" in sparse.reason


def test_accepted_drafts_shorten_the_time_between_tokens() -> None:
    drafts = SpeculativeDecoding(draft_tokens=3, acceptance_percent=80)
    plain, faster = size(call_center()), size(replace(call_center(), speculative_decoding=drafts))

    assert plain.table is not None
    assert faster.table is not None
    light = float(plain.table.rates[0])
    plain_itl, faster_itl = plain.table.at(light).itl.mean, faster.table.at(light).itl.mean
    assert plain_itl is not None
    assert faster_itl is not None
    assert faster_itl < 0.6 * plain_itl
    assert faster.basis is Basis.EXTRAPOLATED


def test_drafts_that_are_never_right_cost_time() -> None:
    drafts = SpeculativeDecoding(draft_tokens=4, acceptance_percent=0)
    plain, slower = size(call_center()), size(replace(call_center(), speculative_decoding=drafts))

    assert slower.requests_per_second_per_replica <= plain.requests_per_second_per_replica


def test_measured_points_of_the_plain_model_do_not_answer_for_the_optimized_one() -> None:
    request = replace(call_center(), profiles=(call_center_profile(),), sparsity=Sparsity.TWO_OF_FOUR)

    assert size(request).basis is Basis.EXTRAPOLATED


def test_chunks_on_an_engine_that_is_installed_without_are_no_fit() -> None:
    chunked = replace(call_center(), batchings=(Batching.CHUNKED_PREFILL,))

    assert size(chunked).basis is Basis.EXTRAPOLATED
    assert "chunked prefill" in size(chunked).reason
    assert "chunked prefill" not in size(replace(chunked, engine=Engine.VLLM)).reason
