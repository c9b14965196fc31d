"""Answers that show themselves in a notebook: one line as text, a table as HTML, rows for pandas.

Kept apart from `report`, which knows the answers: it is loaded when one is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


class Answer:
    """Base of what a notebook shows."""

    __slots__ = ()

    def __repr__(self) -> str:
        from firsttoken_sizing.report.notebook import line

        return f"<{line(self)}>"

    def _repr_html_(self) -> str:
        """The table that Jupyter shows."""
        from firsttoken_sizing.report.notebook import html

        return html(self)

    def to_rows(self) -> list[dict[str, object]]:
        """Rows of plain values under names with units (`ttft_p95_ms`), None for what is not known; without pandas."""
        from firsttoken_sizing.report.notebook import rows

        return rows(self)

    def to_frame(self) -> pandas.DataFrame:
        """The rows as a DataFrame. Raises `ModuleNotFoundError` that says what to install where pandas is missing."""
        try:
            import pandas
        except ModuleNotFoundError:
            advice = "to_frame needs pandas: pip install 'firsttoken[notebook]'; to_rows gives the same without it"
            raise ModuleNotFoundError(advice, name="pandas") from None
        return pandas.DataFrame(self.to_rows())
