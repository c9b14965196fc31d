"""The operator's own metrics: exact values where the status rounds them. Names are part of the public contract.

Gauges of a resource disappear with it. `desired_replicas` is what an HPA or KEDA may scale on in Advisory mode, so it
repeats the last decision while metrics are missing, and the last value while the target or the spec cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from firsttoken_operator.act.conditions import instant
from firsttoken_operator.act.pool_status import pool_figures
from firsttoken_operator.act.scorecard import NOTHING, Scorecard, Tally
from firsttoken_operator.api.conditions import ConditionStatus
from firsttoken_operator.api.scorecard import FLAPS
from firsttoken_operator.api.status import DecisionRecord, InferenceDeploymentStatus
from firsttoken_operator.domain import Decision, FleetSnapshot, Outcome, Reason, ResourceSnapshot, Sized, Target
from firsttoken_operator.run.series import CounterSeries, GaugeSeries
from firsttoken_sizing.performance.table import Operating
from firsttoken_sizing.workload import Percentile, Sla

_RESOURCE = ("namespace", "name")
_POOL_STATES = ("budget", "inventory", "charged", "free", "unmet")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60)


class OperatorMetrics:
    """All metrics of one operator process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        gauge, counter, single = self._gauge, self._counter, self._single
        self.desired = gauge("desired_replicas", "Replicas decided, whether or not the mode lets them be written")
        self.ready = gauge("ready_replicas", "Ready pods of the target")
        self.sized = gauge("sized_replicas", "Replicas sized for the declared peak")
        self.limit = gauge("limit_replicas", "Upper bound in force")
        self.unmet = gauge("unmet_gpus", "GPUs that a cap withheld")
        self.predicted = gauge("predicted_ttft_seconds", "TTFT at the SLA's percentile at the replicas decided")
        self.predicted_fewer = gauge("predicted_ttft_one_fewer_seconds", "The same at one replica fewer")
        self.predicted_more = gauge("predicted_ttft_one_more_seconds", "The same at one replica more")
        self.ttft_limit = gauge("ttft_limit_seconds", "The SLA's limit on TTFT")
        self.observed = gauge("observed_ttft_seconds", "Upper bound of the measured TTFT at the SLA's percentile")
        self.arrivals = gauge("arrival_requests_per_second", "Requests that arrived, over the rate window")
        self.capacity_factor = gauge("capacity_factor", "What a replica serves, as a multiple of what was sized")
        self.budget = gauge("error_budget_consumption", "Late requests of a day as a multiple of those aimed at")
        self.condition = gauge("condition", "1 where a condition is True, 0 where it is False", (*_RESOURCE, "type"))
        self.last_scaling = gauge(
            "last_scaling_timestamp_seconds", "When replicas last changed", (*_RESOURCE, "outcome", "reason")
        )
        self.attainment = gauge("slo_attainment_ratio", "Share of first tokens inside the TTFT limit, in seven days")
        self.budget_left = gauge("error_budget_remaining_ratio", "Part of seven days' error budget that is left")
        self.calibration_error = gauge("calibration_error_ratio", "Error of the predicted mean TTFT, in seven days")
        self.saved = gauge("gpu_hours_saved_versus_peak", "GPU-hours below the declared peak's fleet, in seven days")
        self.gpu_hours = counter("gpu_hours", "GPU time of the pods that held GPUs")
        self.judged = counter("slo_requests", "Requests whose first token was judged against the TTFT limit")
        self.late = counter("slo_late_requests", "Those whose first token came after it")
        self.allowed = counter("slo_allowed_late_requests", "Those that the percentile of the limit allows to be late")
        self.charged = counter("slo_charged_late_requests", "Late ones while a percentile allowed some")
        self.flaps = counter("flaps", FLAPS)
        self.pool_gpus = gauge("pool_gpus", f"GPUs of a pool by state: {', '.join(_POOL_STATES)}", ("pool", "state"))
        self.sizings_waiting = single("sizings_waiting", "Resources that wait for a size, or for a new one")
        self.leader = single("leader", "1 while this process may write")
        self.writes_paused = single("writes_paused", "1 while the switch keeps everything from being written")
        self.clock_ahead = single("clock_ahead_seconds", "How far the API server's clock is ahead of this machine's")
        self.last_tick = single("last_tick_timestamp_seconds", "When a tick of this process completed last")
        self.early_ticks = Counter(
            "firsttoken_early_ticks",
            "Ticks before they were due, for arrivals that rose or new sizes",
            registry=self.registry,
        )
        self.event_loop_lag = single("event_loop_lag_seconds", "Delay of the event loop at the last tick")
        self.decisions = counter("decisions", "Decisions taken", ("outcome", "reason"))
        self.queries = counter("source_queries", "Queries to a metric source", ("source", "outcome"))
        self.writes = counter("writes", "Writes to the API server", ("kind", "outcome"))
        self.writes_waiting = gauge("writes_waiting", "Writes that wait or are under way", ("kind",))
        self.lag = self._histogram("decision_lag_seconds", "From the time a tick was due to its decisions")
        self.cycle = self._histogram("cycle_duration_seconds", "One whole tick, with its scaling and rendering")
        self._seen: set[tuple[str, str]] = set()
        self._counted: dict[tuple[str, str], tuple[str, Tally]] = {}

    def render(self) -> bytes:
        """The exposition text. May be called in any thread: whatever is there all the time is in it."""
        return generate_latest(self.registry)

    def record_tick(self, snapshot: FleetSnapshot, decisions: Iterable[Decision]) -> None:
        """Publish what one tick saw and decided; forget resources and pools that are gone."""
        decisions = tuple(decisions)
        by_uid = {decision.uid: decision for decision in decisions}
        present: set[tuple[str, str]] = set()
        for resource in snapshot.resources:
            key = (resource.namespace, resource.name)
            present.add(key)
            self._record_resource(key, resource, by_uid.get(resource.uid))
        for key in self._seen - present:
            for metric in self._per_resource():
                metric.set(key, None)
            self._counted.pop(key, None)
        self._seen = present
        self._record_pools(snapshot, decisions)

    def record_scorecards(self, snapshot: FleetSnapshot, cards: Mapping[str, Scorecard]) -> None:
        """Publish what was counted so far of every resource of the snapshot, by uid."""
        for resource in snapshot.resources:
            card = cards.get(resource.uid)
            if card is not None:
                self._record_scorecard((resource.namespace, resource.name), resource.uid, card)

    def record_statuses(self, snapshot: FleetSnapshot, statuses: Mapping[str, InferenceDeploymentStatus]) -> None:
        """Publish the conditions and the last scaling of every resource of the snapshot, by uid; no others."""
        conditions, scalings = dict[tuple[str, ...], float](), dict[tuple[str, ...], float]()
        for resource in snapshot.resources:
            status = statuses.get(resource.uid)
            if status is None:
                continue
            key = (resource.namespace, resource.name)
            for each in status.conditions:
                if each.status is not ConditionStatus.UNKNOWN:
                    conditions[*key, each.type] = each.status is ConditionStatus.TRUE
            for last in status.decisions[:1]:
                if (at := instant(last.time)) is not None:
                    scalings[*key, _outcome(last), last.reason] = at.timestamp()
        self.condition.replace(conditions)
        self.last_scaling.replace(scalings)

    def record_failures(self, count: int) -> None:
        """Count resources that could not be decided."""
        if count:
            self.decisions.add(("error", Reason.DECISION_FAILED.value), count)

    def record_queries(self, totals: Mapping[tuple[str, str], int]) -> None:
        """Publish how many queries there were so far, by source and outcome."""
        self.queries.replace(totals)

    def record_writes(self, totals: Mapping[tuple[str, str], int], waiting: Mapping[str, int]) -> None:
        """Publish how many writes there were so far, by kind and outcome, and how many there are still to be."""
        self.writes.replace(totals)
        self.writes_waiting.replace({(kind,): count for kind, count in waiting.items()})

    def _record_resource(self, key: tuple[str, str], resource: ResourceSnapshot, decision: Decision | None) -> None:
        if resource.metrics.awaited:
            return
        target, sized = resource.target, resource.sized
        self.ready.set(key, target.ready if isinstance(target, Target) else None)
        self.sized.set(key, sized.replicas_for_declared_peak if isinstance(sized, Sized) else None)
        ttft = resource.metrics.ttft
        high = ttft.high_milliseconds if ttft else None
        self.observed.set(key, high / 1000 if high is not None else None)
        if decision is None:
            return
        self.decisions.add((decision.outcome.value, decision.reason.value), 1)
        if isinstance(target, Target):
            # NB: without a target nothing is decided and the decision has 0 replicas; an HPA must not follow that.
            self.desired.set(key, decision.to_replicas)
        self.limit.set(key, decision.limit)
        self.capacity_factor.set(key, decision.capacity_factor)
        self.budget.set(key, decision.late_budgets_spent)
        self.unmet.set(key, decision.unmet_replicas * decision.gpus_per_replica)
        self.arrivals.set(key, decision.arrival_requests_per_second)
        sla, at = sized.sla if isinstance(sized, Sized) else None, decision.prediction
        self.ttft_limit.set(
            key,
            sla.time_to_first_token.milliseconds / 1000 if sla and sla.time_to_first_token else None,
        )
        self.predicted_fewer.set(key, _ttft_seconds(at.n_minus_1 if at else None, sla))
        self.predicted.set(key, _ttft_seconds(at.n if at else None, sla))
        self.predicted_more.set(key, _ttft_seconds(at.n_plus_1 if at else None, sla))

    def _record_scorecard(self, key: tuple[str, str], uid: str, card: Scorecard) -> None:
        total, counted = card.total, card.counted
        self.attainment.set(key, total.attainment)
        self.budget_left.set(key, None if total.burn_rate is None else 1 - total.burn_rate)
        self.calibration_error.set(key, total.calibration_error)
        self.saved.set(key, total.saved_gpu_hours)
        # NB: one that was deleted and made anew begins at nothing, and a counter goes on.
        last_uid, last = self._counted.get(key, (uid, NOTHING))
        before = last if last_uid == uid else NOTHING
        if counted.hours > 0:
            self.gpu_hours.add(key, max(0.0, counted.gpu_hours - before.gpu_hours))
            self.flaps.add(key, counted.flaps - before.flaps)
        if counted.requests > 0:
            self.judged.add(key, max(0.0, counted.requests - before.requests))
            self.late.add(key, max(0.0, counted.late_requests - before.late_requests))
        if counted.late_requests_allowed > 0:
            self.allowed.add(key, max(0.0, counted.late_requests_allowed - before.late_requests_allowed))
            self.charged.add(key, max(0.0, counted.late_requests_charged - before.late_requests_charged))
        self._counted[key] = (uid, counted)

    def _record_pools(self, snapshot: FleetSnapshot, decisions: tuple[Decision, ...]) -> None:
        values: dict[tuple[str, ...], float] = {}
        for name, pool in snapshot.pools.items():
            figures = pool_figures(pool, snapshot, decisions)
            gpus = (pool.budget_gpus, pool.inventory_gpus, figures.charged, figures.free, figures.unmet)
            said = zip(_POOL_STATES, gpus, strict=True)
            values |= {(name, state): value for state, value in said if value is not None}
        self.pool_gpus.replace(values)

    def _per_resource(self) -> tuple[GaugeSeries, ...]:
        replicas = (self.desired, self.ready, self.sized, self.limit, self.unmet, self.arrivals)
        ttft = (self.predicted_fewer, self.predicted, self.predicted_more, self.observed, self.ttft_limit)
        learned = (self.capacity_factor, self.budget, self.attainment, self.calibration_error, self.saved)
        counted = (self.gpu_hours, self.judged, self.late, self.allowed, self.charged, self.flaps)
        return (*replicas, *ttft, *learned, self.budget_left, *counted)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = _RESOURCE) -> GaugeSeries:
        return GaugeSeries(f"firsttoken_{name}", text, labels, self.registry)

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = _RESOURCE) -> CounterSeries:
        return CounterSeries(f"firsttoken_{name}", text, labels, self.registry)

    def _single(self, name: str, text: str) -> Gauge:
        return Gauge(f"firsttoken_{name}", text, registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"firsttoken_{name}", text, registry=self.registry, buckets=_SECONDS)


def ttft_percentile(sla: Sla) -> Percentile:
    """The statistic of TTFT that is reported: the one the SLA limits, else P95."""
    return sla.time_to_first_token.percentile if sla.time_to_first_token else Percentile.P95


def _ttft_seconds(at: Operating | None, sla: Sla | None) -> float | None:
    """The predicted TTFT of one size at the percentile that is reported; None: not predicted."""
    milliseconds = at.ttft.at(ttft_percentile(sla)) if at and sla else None
    return milliseconds / 1000 if milliseconds is not None else None


def _outcome(change: DecisionRecord) -> str:
    return (Outcome.UP if change.to_replicas > change.from_replicas else Outcome.DOWN).value
