"""Every constant of the law, by estimator: what it is, in which unit, and where the value comes from.

Where a value comes from is one of:

- *measured*: on the simulator or on recorded traffic, as said there;
- *tuned*: chosen by the policy benchmark (`benchmarks/policy.py`: three recorded weeks, three hours, four episodes);
- *derived*: follows from a formula or from another constant;
- *a peer's*: the default of another autoscaler;
- *chosen*: by judgment, and not tuned. Nothing is known of how sharply results depend on it unless it is said.

Those of the forecast are in `forecast_config`. `DEFAULT` is what ships. A config is passed explicitly from `decide`
downwards, so that a benchmark can vary it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from firsttoken_operator.estimate.forecast_config import ForecastConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandConfig:
    """Constants of `demand`: what one live request costs in requests of the declared lengths."""

    most_request_cost: float = 8.0
    """Declared requests. One that costs more, or less than this part of one, is a fault of the counters. Chosen."""
    long_prompt_exponent: float = 0.4
    """Power of the prompt's length, in declared ones, by which a longer request costs more than its tokens: it holds up
    those behind it for longer, and the limit stays. Measured: simulated replicas of a 70B model, full of prompts
    1.4 and 2 times as long as declared, keep an SLA of P99 up to 0.86 and 0.76 of the declared utilization."""
    smoothing_windows: float = 1.0
    """Rate windows; time constant of the cost. Chosen short: lengths may double in minutes, the first answers that end
    are the short ones, and the filter of the level takes out the rest of their scatter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpeedConfig:
    """Constants of `replica_speed`."""

    least_speed: float = 0.4
    """Share of the modeled speed. What is measured below is an outlier: metrics that do not belong together. Chosen."""
    most_speed: float = 2.5
    """The same above; derived, 1 / `least_speed`."""
    least_requests: float = 8.0
    """Requests in all replicas; fewer are a matter of chance. Chosen."""
    most_queued_share: float = 0.1
    """Waiting requests as a share of running ones; more are an overload, where Little's law does not hold. Chosen."""
    memory_seconds: float = 3600.0
    """Time of which measurements are averaged. Chosen."""
    prior_seconds: float = 300.0
    """Prior weight of the modeled speed: measurements of so long count as much. Chosen."""
    model_error: float = 0.1
    """Natural logarithm; the uncertainty bound. A deviation within it is no other speed: live requests are not all of
    one length, as the model takes them to be. Chosen."""
    bisections: int = 10
    """Halvings of the interval that holds the slowness; derived: its logarithm is then known to 0.2 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissRateConfig:
    """Constants of `miss_rate`: what a window says of first tokens beyond the limit."""

    least_requests: int = 50
    """Requests in a window; a tail of fewer is noise. Chosen: one late of them is 2 %, twice what P99 allows."""
    most_uncertain_share: float = 0.5
    """Share that may have been late, from which on only what is certain counts: the limit lies in the bucket of most
    requests. Chosen; without it the wide buckets of NIM 1.x clamped the factor at its least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IrreducibleMissConfig:
    """Constants of `irreducible_misses`: what is late whatever the number of replicas."""

    idle_utilization: float = 0.5
    """Share of the sized capacity, up to which a replica counts as one without a queue. Chosen."""
    quiet_windows: float = 2.0
    """Rate windows without a request waiting before a replica counts as idle. Derived: a request that waited in the
    last window is late in this one."""
    memory_requests: float = 5000.0
    """Requests on idle replicas that the average stands on. Chosen."""
    memory_seconds: float = 14400.0
    """Least time constant of the average. Chosen: one bad minute of a quiet night must not excuse misses for a day."""
    prior_requests: float = 500.0
    """Prior weight of "none is late". Chosen."""
    blocked_requests: float = 1.0
    """Made late by one prompt that is late by itself, on full replicas: those behind it. Chosen."""
    most_foretold_share: float = 0.5
    """Share of all requests that the length of prompts excuses at most. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBudgetConfig:
    """Constants of `error_budget`: the SLO violations of about the last day, against those that the SLA allows."""

    set_point_share: float = 0.38
    """Share of the violations that the SLA allows: so many are aimed at. Tuned: over three recorded weeks with P99
    0.38 keeps 99.51 % inside at +22 % GPU-hours over the clairvoyant, 0.6 some 99.15 % at +13 % (one seed). The rest is
    the margin for slow starts, a wrong sizing, and jumps that this day did not have."""
    least_reducible_share: float = 0.5
    """Share of the violations that the SLA allows: so much is left to aim at where most are irreducible. Chosen."""
    memory_seconds: float = 43200.0
    """Time constant with which a violation is forgotten. Chosen: about a day in all."""
    prior_requests: float = 1000.0
    """Prior weight of "violations are as aimed at", in requests: a few late ones are no bad day. Chosen."""
    gain_slope: float = 5.0
    """Budget gain for each budget that was consumed too little or too much. Chosen."""
    least_gain: float = 0.25
    """Multiple of the set-point on full replicas, while the day has consumed too much. Chosen."""
    most_gain: float = 3.0
    """The same while it has consumed little. Chosen."""
    reserve_per_budget: float = 0.05
    """Share of the capacity that is left free for each budget beyond the first. Chosen; 2 to 6 times
    as much was tried for starts of 600 s on the week that jumps most, and gained little (98.8 % at most)."""
    most_reserve: float = 0.3
    """Share of the capacity, left free at most. Chosen."""
    longer_hold_budgets: float = 3.0
    """Budgets from which on the stabilization window grows in proportion. Chosen."""
    most_window_multiplier: float = 12.0
    """Stabilization windows that a size is held at most; an hour at 300 s, six where starts take 30 minutes. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCapacityConfig:
    """Constants of `tail_capacity`: corrections of what a replica carries, from the miss rate of full replicas."""

    least_factor: float = 0.5
    """Share of the sized capacity; at it the factor is clamped (`Pegged`). Chosen; 0.35 was tried for starts of 600 s
    and gained little."""
    most_factor: float = 2.0
    """The same above; derived, 1 / `least_factor`."""
    first_gain_per_hour: float = 0.6
    """Growth (natural logarithm) in the first hour of full replicas without a violation; later it falls as 1 / hours,
    as stochastic approximation asks (Robbins and Monro 1951). Chosen."""
    least_gain_per_hour: float = 0.15
    """Growth that it does not fall below, so that a capacity that changes is followed. Chosen."""
    first_step_down: float = 0.02
    """Natural logarithm; most that one rate window lowers the factor, in the first of a row. Chosen: most such windows
    are load that rises faster than it is measured, of which the capacity knows nothing."""
    later_step_down: float = 0.1
    """The same from `first_windows` on. Chosen."""
    first_windows: float = 3.0
    """Rate windows in a row above the set-point before they count in full. Chosen."""
    least_utilization: float = 0.75
    """Share of the corrected capacity, below which a replica says nothing of how large it is. Chosen."""
    full_utilization: float = 0.95
    """Utilization from which on a window counts in full. Chosen below the knee: simulated replicas have 0.4 % late at
    0.9 and all at 1.1."""
    overload_utilization: float = 1.1
    """Utilization above which replicas are too few: demand answers that, and it says nothing of the model. Measured, as
    above."""
    growth_least_utilization: float = 0.95
    """`least_utilization` where a factor would go beyond what was sized or learned: misses do not warn before a replica
    is saturated, so one that has room and no miss may be just below. Measured, as above: the knee is that sharp."""
    growth_full_utilization: float = 1.05
    """The same of `full_utilization`."""
    clear_violations: float = 2.0
    """Multiples of the violations that the SLA allows, that count in full even on replicas with room. Chosen."""
    speed_wait_seconds: float = 900.0
    """Time that an update waits for the speed of the replicas, whose error would else count twice. Chosen."""
    most_error_signal: float = 2.0
    """Windows without a violation that one counts for where even fewer were late than is irreducible. Chosen."""
    least_fast_correction: float = 0.75
    """Factor down to which a bad hour takes capacity for now, before the slow correction follows. Chosen: an hour of
    jumps must not cost a day of GPUs, nor a quiet night the next jump."""
    slow_share: float = 0.2
    """Share of what an update leaves over beyond the fast correction, after the first hours; at first all of it. Chosen
    low: on the recorded weeks most was gained by keeping the factor still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLoadConfig:
    """Constants of `target_load`: what the replicas are sized for."""

    certain_deviations: float = 2.0
    """Deviations of chance, by which one window above the level proves that it has risen. Chosen."""
    most_held_start_seconds: float = 1800.0
    """Length of a start up to which a size is held for as long. Chosen: a start of more is a fault."""
    over_provisioning_miss_rate: float = 0.1
    """Miss rate from which on a fleet is over-provisioned by it. Measured on a prototype: that from 10 % on gains
    0.45 points of attainment on spikes."""
    most_over_provisioning: float = 0.5
    """Share of the fleet that is added for its misses at most. Chosen."""
    least_deadband: float = 0.05
    """Share of the load that a smaller fleet must still carry. Measured on a prototype: without hold and deadband up to
    1.4 points of attainment are lost."""
    deadband_deviations: float = 0.75
    """The same in deviations of chance of one window's rate. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessConfig:
    """Constants of `witnesses`: how fast up, and what has to agree beyond that."""

    scale_up_percent: int = 100
    """Percent of the replicas that one step adds at most, and one rate window on the word of one signal. A peer's:
    that of the Kubernetes HPA in 15 s."""
    scale_up_replicas: int = 4
    """Replicas that may be added in any case. A peer's, as above."""
    early_share: float = 1 / 15
    """Share of an interval by which a tick may come early and its window still be another one. Chosen: a second of the
    default, in which no more than one sample is shared, and no increase."""
    step_share: float = 0.5
    """Share of an interval within which ticks are of one step. Chosen: a tick that comes early is no reason to double
    twice in what was to be one interval."""
    late_share: float = 0.1
    """Share of first tokens from which on they are a witness. Chosen: that of `over_provisioning_miss_rate`, from
    which on they are a reason to grow by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """Constants of `memory`."""

    most_ticks_per_step: float = 2.0
    """Intervals by which one tick advances the logical clock at most, whatever the machine's clock did. Chosen."""
    decreases_seconds: float = 3600.0
    """Time for which decreases are remembered; derived: longer than any pool's window of the scale-down rate limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionConfig:
    """Constants of `decide`, which reads the estimates: what vetoes down."""

    settling_ticks: int = 2
    """Ticks to wait after a change and a whole rate window before lowering. Chosen: what was scraped then is seen."""
    scale_down_limit_percent: int = 20
    """Percent of the GPUs of all deployments without a pool that may be given back by several of them within the
    window of the rate limit. Chosen: the default of a pool."""
    rollout_deadline_seconds: float = 1800.0
    """Without a pod that became ready, after which a rollout no longer holds a size: it is paused or stuck. Chosen:
    three times the default of a Deployment's `progressDeadlineSeconds`."""
    most_lost_percent: int = 20
    """Percent of the pods of a deployment, or of the nodes of a pool, of which more that stop being ready at once hold
    every size. Chosen: as Karpenter, which then replaces no unhealthy node."""
    lost_deadline_seconds: float = 1800.0
    """Time after which what is not ready again holds nothing any more: it is gone. Chosen: as a rollout."""
    least_start_deadline_seconds: float = 900.0
    """Time for which a pod is credited as starting in any case: starts on nodes that have the image say nothing of one
    that must pull it, and a pod given up too early is ordered twice. Chosen: an image and a large model over a
    network."""
    start_deadline_slack: float = 1.25
    """Multiple of the slowest start seen, from which on a pod that starts is stuck. Chosen."""
    unknown_provisioning_deadline_seconds: float = 900.0
    """Time for which nodes are waited for in a pool of which none was seen to come for a pod. Chosen: the default of
    cluster-autoscaler's `--max-node-provision-time`."""
    least_provisioning_deadline_seconds: float = 300.0
    """The same at least where some were seen. Chosen: clouds take 90 to 240 s."""
    provisioning_deadline_slack: float = 2.0
    """Multiple of the slowest node that was seen to come, after which the next one is overdue. Chosen."""
    most_provisioning_deadlines: float = 3.0
    """The same times after which a pod is overdue though nodes came for others. Chosen: those of a burst come one after
    the other, and in a busy pool some node always has just come."""
    most_replaced_percent: int = 25
    """Percent of the replicas needed for which stuck pods are ordered again at most. Chosen: where all pods of a first
    start are slow, others would be too."""
    most_kv_percent: float = 90.0
    """Percent that KV caches of the smaller fleet may hold; engines preempt requests when they are full. Chosen."""
    low_resolution_sla_share: float = 0.9
    """Share of the limit, up to which the model has to predict TTFT where a histogram cannot tell. Chosen."""
    low_resolution_mean_ratio: float = 1.2
    """Ratio of the measured mean of TTFT, which is exact, to the predicted one, up to which the model is trusted there.
    Chosen."""
    foreign_writes_for_conflict: int = 2
    """Within the conflict window, from which on replicas have two writers. Chosen: one is a correction by hand."""
    most_quiet_seconds: float = 21600.0
    """Time that a conflict with a writer that comes back each time is waited out at most. Chosen: four tries a day."""
    conflict_memory_seconds: float = 86400.0
    """Time after the last foreign write, until a conflict is the first one again. Chosen above `most_quiet_seconds`."""
    same_memory_share: float = 0.005
    """Difference of two shares of a GPU's memory, below which they are the same. Chosen: half of the percent in which
    they are declared."""
    own_write_unseen_seconds: float = 90.0
    """Time after our own write in which the watch may still show replicas from before it: one whose connection is half
    open delivers nothing until it times out. Chosen above that time-out; not divided by the time scale."""
    most_scheduling_seconds: float = 60.0
    """Age of a pod without a node after which it waits for more than a scheduler that could place it: a volume.
    Chosen; not divided by the time scale."""
    rounding: float = 1e-9
    """Relative; a rate above the capacity by less is one at it. Chosen."""
    least_share_said: float = 0.05
    """A smaller difference is not mentioned in the message of a decision. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatorConfig:
    """Every constant of the law."""

    demand: DemandConfig = DemandConfig()
    replica_speed: ReplicaSpeedConfig = ReplicaSpeedConfig()
    miss_rate: MissRateConfig = MissRateConfig()
    irreducible_misses: IrreducibleMissConfig = IrreducibleMissConfig()
    error_budget: ErrorBudgetConfig = ErrorBudgetConfig()
    tail_capacity: TailCapacityConfig = TailCapacityConfig()
    forecast: ForecastConfig = field(default_factory=ForecastConfig)
    target_load: TargetLoadConfig = TargetLoadConfig()
    witnesses: WitnessConfig = WitnessConfig()
    memory: MemoryConfig = MemoryConfig()
    decision: DecisionConfig = DecisionConfig()


DEFAULT = EstimatorConfig()
