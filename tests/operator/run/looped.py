"""A loop over a fake API server, and what it is made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from firsttoken_operator.act.events import EventRecorder
from firsttoken_operator.act.pool_status import PoolPublisher
from firsttoken_operator.act.publish import Publisher
from firsttoken_operator.act.queue import WriteQueue
from firsttoken_operator.act.render import Renderer
from firsttoken_operator.act.scale import ScaleWriter
from firsttoken_operator.observe.store import Store
from firsttoken_operator.run.health import Heartbeats
from firsttoken_operator.run.history import Histories
from firsttoken_operator.run.lookout import Lookout
from firsttoken_operator.run.loop import Loop, Parts
from firsttoken_operator.run.measuring import Measuring
from firsttoken_operator.run.metrics import OperatorMetrics
from firsttoken_operator.run.rendering import Rendered
from firsttoken_operator.run.settings import Settings
from firsttoken_operator.run.sizer import Sizer
from firsttoken_operator.run.victims import Victims

QUEUES: list[WriteQueue] = []
"""Those of the test that runs: closed at its end."""


def looped(
    cluster: Any,
    store: Store,
    settings: Settings | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    deadline_seconds: float = 15.0,
    sizer: Sizer | None = None,
    leads: Callable[[], bool] = lambda: True,
    renders: bool = False,
    chooses_victims: bool = False,
) -> tuple[Loop, Parts]:
    """A loop that reads no Prometheus."""
    settings = settings or Settings()
    writes = WriteQueue(deadline_seconds=deadline_seconds, clock=clock)
    QUEUES.append(writes)
    recorder = EventRecorder(cluster, writes)
    rendered = Rendered(Renderer(cluster, writes), monitor_labels={}, scrape_interval_seconds=15)
    measuring = Measuring(settings)
    lookout = Lookout(measuring.names, measuring.arriving, settings.timing.tick_seconds, clock)
    parts = Parts(
        store=store, writes=writes, measuring=measuring, lookout=lookout, histories=Histories({}, settings.timing),
        sizer=sizer or Sizer(), writer=ScaleWriter(cluster, writes), publisher=Publisher(cluster, recorder, writes),
        recorder=recorder, pools=PoolPublisher(cluster, writes), metrics=OperatorMetrics(),
        heartbeats=Heartbeats(15.0, clock(), synced=True), leads=leads,
        rendered=rendered if renders else None, victims=Victims(cluster, writes) if chooses_victims else None,
    )  # fmt: skip
    return Loop(settings, parts, clock), parts
