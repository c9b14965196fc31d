"""The commands and flags that the chart's admission policy allows are those of the runtimes."""

from __future__ import annotations

from tools.starts import FILE, text


def test_the_file_is_up_to_date() -> None:
    assert FILE.read_text() == text(), "run: python -m tools.starts"
