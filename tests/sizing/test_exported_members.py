from __future__ import annotations

import firsttoken_sizing


def test_all_is_sorted_and_every_name_is_there() -> None:
    exported = firsttoken_sizing.__all__

    assert exported == sorted(exported)
    assert all(hasattr(firsttoken_sizing, name) for name in exported)
