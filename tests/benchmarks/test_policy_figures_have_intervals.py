from __future__ import annotations

import pytest

from policies.intervals import interval, over_percent


def test_the_interval_is_students() -> None:
    # Five values with mean 3 and standard deviation sqrt(2.5); t(0.975, 4) = 2.776.
    found = interval([1, 2, 3, 4, 5])

    assert found.mean == pytest.approx(3)
    assert found.half_width == pytest.approx(2.776 * (2.5 / 5) ** 0.5, rel=1e-3)
    assert found.count == 5


def test_one_value_has_no_interval() -> None:
    assert interval([4.2]).half_width is None


def test_ratios_are_paired_by_seed() -> None:
    ours, best = {1: 110.0, 2: 220.0, 4: 999.0}, {1: 100.0, 2: 200.0, 3: 1.0}

    found = over_percent(ours, best)

    assert found is not None
    assert found.mean == pytest.approx(10)
    assert found.half_width == pytest.approx(0, abs=1e-9)
    assert found.count == 2


def test_no_seed_in_common_is_no_ratio() -> None:
    assert over_percent({1: 1.0}, {2: 1.0}) is None
