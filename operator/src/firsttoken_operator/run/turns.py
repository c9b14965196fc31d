"""Turns: namespaces get equal shares of what the work costs, and in each the first that came is the first.

A namespace is charged the CPU seconds that its work took, and the one that was charged least is next (start-time fair
queuing). One that begins to wait starts at the charge of those who wait, so that rest earns no credit; one that was
charged more than they keeps its debt for as long as anything waits.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Generic, TypeVar

Job = TypeVar("Job")


class Turns(Generic[Job]):
    """Jobs that wait, each known by a uid of its own."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, Job]] = {}
        """Jobs by namespace, then by uid in order of arrival."""
        self._charged_seconds: dict[str, float] = {}
        self._level_seconds = 0.0
        """Charge of the namespace that was served last."""

    def put(self, namespace: str, uid: str, job: Job) -> None:
        """Queue a job, in the place of the one that waits under this uid where there is one."""
        if namespace not in self._waiting:
            self._waiting[namespace] = {}
            charged = self._charged_seconds.get(namespace, 0.0)
            self._charged_seconds[namespace] = max(charged, self._level_seconds)
        self._waiting[namespace][uid] = job

    def keep(self, uids: Set[str]) -> None:
        """Drop the jobs of all others."""
        for namespace, jobs in list(self._waiting.items()):
            for uid in jobs.keys() - uids:
                del jobs[uid]
            if not jobs:
                del self._waiting[namespace]

    def take(self) -> tuple[str, Job] | None:
        """Namespace and job of the next one; None: nothing waits, and all debts are forgotten."""
        if not self._waiting:
            self._charged_seconds.clear()
            self._level_seconds = 0.0
            return None
        namespace = min(self._waiting, key=self._charged_seconds.__getitem__)
        self._level_seconds = self._charged_seconds[namespace]
        jobs = self._waiting[namespace]
        job = jobs.pop(next(iter(jobs)))
        if not jobs:
            del self._waiting[namespace]
        return namespace, job

    def charge(self, namespace: str, cpu_seconds: float) -> None:
        """Charge what a job of the namespace took."""
        self._charged_seconds[namespace] += cpu_seconds
