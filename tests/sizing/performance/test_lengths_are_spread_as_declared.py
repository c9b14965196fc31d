from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.lengths import Lengths, Spread, lengths_of
from firsttoken_sizing.workload import Workload


def quantile(spread: Spread, share: float) -> float:
    """Multiple of the mean below which so many requests lie, between the middles of the strata."""
    middles = np.cumsum(spread.shares) - np.array(spread.shares) / 2
    return float(np.exp(np.interp(share, middles, np.log(spread.multiples))))


def test_without_a_declared_spread_every_request_has_the_mean_lengths() -> None:
    lengths = lengths_of(Workload(2000, 200, cached_input_percent=25))

    assert lengths == Lengths(2000, 1500, 200)
    assert lengths.is_fixed
    assert lengths.running_context_tokens == lengths.context_tokens


@pytest.mark.parametrize("ratio", [1.2, 2, 4, 10])
def test_a_log_normal_length_has_the_declared_mean_and_p99(ratio: float) -> None:
    spread = lengths_of(Workload(2000, 200, input_tokens_p99=2000 * ratio)).input_spread

    assert np.dot(spread.shares, spread.multiples) == pytest.approx(1)
    assert quantile(spread, 0.99) == pytest.approx(ratio, rel=0.05)


def test_quantiles_are_kept_relative_to_the_mean() -> None:
    # Those of a log-normal length with a mean of 1000 and a deviation of 0.8 of its logarithm.
    declared = ((0.5, 726.1), (0.9, 2024.1), (0.99, 4669.0))
    spread = lengths_of(Workload(2000, 1000, output_token_quantiles=declared)).output_spread

    assert np.dot(spread.shares, spread.multiples) == pytest.approx(1)
    for share, tokens in declared:
        assert quantile(spread, share) == pytest.approx(tokens / 1000, rel=0.05)


def test_means_of_the_lengths_do_not_depend_on_their_spread() -> None:
    lengths = lengths_of(Workload(2000, 200, input_tokens_p99=8000, output_tokens_p99=1000))

    assert (lengths.input_tokens, lengths.decode_steps, lengths.context_tokens) == (2000, 199, 2100)
    # Long answers run longer, so they are more than their share of those that run.
    assert lengths.running_context_tokens > 1.03 * lengths.context_tokens


@given(
    st.lists(
        st.tuples(st.floats(0.001, 0.999), st.floats(1, 1e6)), min_size=2, max_size=6, unique_by=lambda pair: pair[0]
    ),
    st.floats(1, 1e6),
)
def test_any_rising_quantiles_give_a_spread_around_the_mean(pairs: list[tuple[float, float]], mean: float) -> None:
    shares = sorted(share for share, _ in pairs)
    tokens = sorted(tokens for _, tokens in pairs)
    spread = lengths_of(Workload(mean, 10, input_token_quantiles=tuple(zip(shares, tokens, strict=True)))).input_spread

    assert np.dot(spread.shares, spread.multiples) == pytest.approx(1)
    assert sum(spread.shares) == pytest.approx(1)
    assert min(spread.multiples) >= 0


@pytest.mark.parametrize(
    "workload",
    [Workload(100, 10, input_tokens_p99=1600), Workload(100, 10, input_token_quantiles=((0.5, 200.0),))],
    ids=["P99 of sixteen times the mean", "median above the mean"],
)
def test_what_no_log_normal_length_has_is_refused(workload: Workload) -> None:
    with pytest.raises(InvalidInput, match="input") as refused:
        lengths_of(workload)

    assert refused.value.field.startswith("traffic.inputToken")
    assert "traffic.inputTokenQuantiles" in refused.value.fix
