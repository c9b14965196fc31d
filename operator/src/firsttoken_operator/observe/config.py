"""Every constant by which signals are believed or read: what it is, in which unit, and where the value comes from.

The words for where a value comes from are those of `estimate.config`. `DEFAULT` is what ships; it is passed down with
`MeasureSettings`. Limits of protocols, time-outs and bounds of what a number may be are no part of it: no figure that
is shown depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessConfig:
    """Constants of `freshness`: how far a pod's samples are believed."""

    timestamp_resolution_seconds: float = 1.0
    """Excess of a pod's apparent age over its own at most. Derived: condition times are in whole seconds."""
    discovery_seconds: float = 7.5
    """Time for which a new pod may stay unknown to Prometheus. Derived: it passes a changed list of
    targets on to its scraper every 5 s, half of that earlier or later."""
    margin_seconds: float = 0.5
    """Added to ages for the journey from the scrape to the query. Chosen."""
    stale_after_scrapes: float = 2.5
    """Scrape intervals beyond which a sample is stale. Chosen: two scrapes were missed, and half an interval is
    left for scatter."""
    overdue_after_scrapes: float = 1.5
    """Scrape intervals beyond which the last scrape failed, or did not come. The same for one."""
    complete_share: float = 2 / 3
    """Share of a window's samples that fills it after its start. Chosen: counters lose nothing in a gap."""
    least_samples: int = 2
    """Samples of a window, however short. Derived: of one there is no rate."""
    least_scaled_samples: int = 3
    """Samples from which on a young pod's rate is scaled to the time that it covers. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokenConfig:
    """Constants of `ttft`: percentiles and late shares from buckets."""

    least_requests: int = 20
    """Requests in a window; a tail percentile of fewer says nothing. Chosen: one of 20 is 5 %."""
    least_late_requests: float = 0.5
    """Requests that stand for none where a logarithm needs a number. Chosen: with fewer than one seen late, half."""
    thinnest_tail: float = 0.01
    """Share of a bucket's requests that stands for it at most. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsConfig:
    """Constants of `readiness`: what a start is, and which of them foretell the next."""

    kept: int = 50
    """Starts kept of one Deployment. Chosen."""
    longest_seconds: float = 3600.0
    """Time after being scheduled beyond which a pod that is Ready lost its readiness in between: that was no start.
    Chosen: the largest models load in half of it."""
    pull_seconds: float = 10.0
    """A container that begins later than this after its sandbox was ready had to wait for its image. Chosen: making a
    container takes a second or two and times are whole seconds; pulling the many gigabytes of an inference runtime
    takes minutes."""
    kept_nodes: int = 200
    """Nodes that came for pods, whose waits are kept, of one pool. Chosen: a few bursts of a large one."""
    kept_nodes_of_namespace: int = 50
    """Nodes among these that came for the pods of one namespace. Chosen: a quarter, so that four are heard beside
    each other."""
    longest_node_seconds: float = 900.0
    """Wait for a node beyond which a gate, a queue or a sold-out cloud was waited for, and not a node. Chosen: as long
    as one is waited for where nothing is known."""
    foretelling: int = 5
    """Last starts of which the slowest kind is the kind of the next one. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveConfig:
    """Constants of all of `observe`."""

    freshness: FreshnessConfig = FreshnessConfig()
    first_token: FirstTokenConfig = FirstTokenConfig()
    starts: StartsConfig = StartsConfig()
    preempted_seconds: float = 1800.0
    """Time for which a pod is remembered that had to end for one of a higher PriorityClass: pods that find no node lack
    the place that it lost. Chosen: as nodes and pods that were lost."""
    mount_seconds: float = 123.0
    """Time that a pod may have a node and no volumes before that is told of. The same as the kubelet's, which then says
    so in an Event and tries again (`podAttachAndMountTimeout` of Kubernetes 1.36)."""
    kept_refusals: int = 200
    """Events of refused pods that are kept of one namespace, whose tenants may write them, too. Chosen: far more than
    it has StatefulSets."""
    refusal_ahead_seconds: float = 60.0
    """Most that the time of such an Event may be ahead of the clock here. Chosen: more than clocks of a cluster differ.
    One that says a later time was written by hand, and would count until the API server forgets it."""
    partial_coverage: float = 0.99
    """Most that an answer can claim which Prometheus itself calls incomplete, or whose window has a gap. Chosen just
    below all: how much is missing is not said, and what is not all of it may raise replicas and not lower them."""


DEFAULT = ObserveConfig()
