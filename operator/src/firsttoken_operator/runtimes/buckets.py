"""Bounds of a TTFT histogram: those that the server has, and the limit, so that what is late is counted exactly."""

from __future__ import annotations


def with_limit(bounds_seconds: tuple[float, ...], limit_seconds: float | None) -> tuple[float, ...]:
    """The bounds with the limit among them; the same where there is none, or it is one of them."""
    return bounds_seconds if limit_seconds is None else tuple(sorted({*bounds_seconds, limit_seconds}))
