"""Answers for machines (JSON), for people (tables) and as pictures. Nothing here changes an answer.

Tables are in `table` and `curve_table`, pictures in `plotly_page` and `matplotlib_png`: imported by those who need
them, because rich, plotly and matplotlib take time to load.
"""

from firsttoken_sizing.report.document import latency_json, predictions_json, sizing_json

__all__ = ["latency_json", "predictions_json", "sizing_json"]
