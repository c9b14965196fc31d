"""Fleets that never change: what a team buys that looks at its peak once."""

from __future__ import annotations

from firsttoken_lab.replay.policies.view import View


class Static:
    """The same number of replicas all the time."""

    interval_seconds = 3600.0

    def __init__(self, name: str, replicas: int) -> None:
        """`name`: which static fleet it is; `replicas`: its size."""
        self.name, self._replicas = name, replicas

    def initial(self) -> int:
        """Its size."""
        return self._replicas

    def desired(self, view: View) -> int:
        """Its size."""
        return self._replicas
