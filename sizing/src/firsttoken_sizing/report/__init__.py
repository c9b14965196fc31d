"""Sizings for machines (JSON). Computes nothing.

The table for people is in `report.table`, imported by those who print: it needs rich, which takes time to load.
"""

from firsttoken_sizing.report.document import latency_json, predictions_json, sizing_json

__all__ = ["latency_json", "predictions_json", "sizing_json"]
