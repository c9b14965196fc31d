"""Observation: the cluster from watch events, live metrics from Prometheus, together one frozen snapshot a tick.

One tick: a `Collector` reads each source and `gateway.ask` asks it for the counter of its gateway, `measure` each
resource from the reading and the store's live pods, then `build_snapshot`. Nothing is decided or written here.

What is named here needs no package but those of the base install: replay judges by the same `measure`. The adapters
that speak HTTP are `observe.prometheus` and `observe.history`.
"""

from firsttoken_operator.observe.collect import Collector, PodSample, SourceReading, unavailable
from firsttoken_operator.observe.freshness import LivePod, MeasureSettings
from firsttoken_operator.observe.measure import measure
from firsttoken_operator.observe.store import Store

__all__ = ["Collector", "LivePod", "MeasureSettings", "PodSample", "SourceReading", "Store", "measure", "unavailable"]
