"""One burst, once through the operator on a real API server and once through `firsttoken replay`: the same sizes.

The tolerance is one replica and one interval of the loop. Nothing here knows the law: what is held against each other
are its two surroundings, the observed cluster and the simulated one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from demo.scenario import Scenario
from firsttoken_operator.api.convert import sizing_request
from firsttoken_operator.api.documents import load_documents
from firsttoken_operator.cli.emulate import replica_spec
from tests.e2e.beside_replay import Inputs, operate, replay
from tests.e2e.burst import Burst, write_resource
from tests.e2e.trajectories import Trajectory, differences

LATENESS_SECONDS = 0.5
# NB: no duration of the policy is a whole number of ticks of 15 s, nor are the holds that it makes of the window and
# some ticks: what falls on a tick is decided by the jitter of a clock, now on this side of it and then on the other.
SCENARIO = Scenario(cold_start_seconds=100, rate_window_seconds=55)
SCALING = {"scaleDownStabilizationSeconds": 128, "scaleDownStepPercent": 20}
# A scale-down takes two of the burst's replicas: one that is left out is seen.
TOLERATED_REPLICAS = 1
# It begins when the operator trusts the first pods: a window, a scrape and 8.5 s after they are ready, which no scale
# divides. A replay trusts them after a window.
BURST = Burst(
    requests_per_second=28.54, times=2, begin_seconds=17, end_seconds=36, ramp_seconds=2, seconds=66,
    input_tokens=2000, output_tokens=200, length_variation=0.3,
)  # fmt: skip


def inputs_of(burst: Burst, folder: Path, scenario: Scenario = SCENARIO) -> Inputs:
    folder.mkdir(exist_ok=True)
    inputs = Inputs(folder / "same.yaml", folder / "same.csv", burst.seconds, scenario)
    write_resource(inputs.resource, SCALING)
    burst.write(inputs.trace, inputs.seed)
    return inputs


def found(**trajectories: Trajectory) -> list[str]:
    tick_seconds = SCENARIO.tick_wall_seconds
    until = BURST.seconds - tick_seconds
    every = differences(trajectories, end_seconds=until, replicas=TOLERATED_REPLICAS, interval_seconds=tick_seconds)
    return [str(difference) for difference in every]


@pytest.mark.cluster
@pytest.mark.slow
def test_a_burst_is_answered_with_the_same_sequence_of_sizes(tmp_path: Path) -> None:
    inputs = inputs_of(BURST, tmp_path)
    operated = operate(inputs)
    replayed = replay(inputs, operated.first_tick_seconds)
    print("operator:", *operated.log, "replay:", *replayed.log, sep="\n")

    assert operated.lateness_p99_seconds <= LATENESS_SECONDS, "the machine is too slow for the emulated fleet"
    sizes = replayed.trajectory.sizes
    assert max(sizes) >= 1.5 * sizes[0], "the burst needs more replicas"
    assert sizes[-1] < max(sizes), "and gives some back before the end"
    assert not found(operator=operated.trajectory, replay=replayed.trajectory), (
        f"{operated.trajectory} | {replayed.trajectory}"
    )


def test_the_emulated_replica_is_the_replayed_one(tmp_path: Path) -> None:
    inputs = inputs_of(BURST, tmp_path)
    documents = load_documents(inputs.resource)
    request = sizing_request(documents.deployments[0], documents.pools, documents.benchmarks)
    emulated, replayed = replica_spec(request, runtime="vllm"), inputs.setting().subject

    assert emulated.model == replayed.step
    assert emulated.settings.kv_cache_tokens == replayed.settings.kv_cache_tokens
    assert emulated.settings.scheduler.tokens_per_step == replayed.settings.scheduler.tokens_per_step
    assert request.workload.routing is replayed.settings.routing


@pytest.mark.slow
def test_other_inputs_would_be_seen(tmp_path: Path) -> None:
    trajectory = replay(inputs_of(BURST, tmp_path)).trajectory
    smaller, earlier = replace(BURST, times=1.5), replace(BURST, begin_seconds=BURST.begin_seconds - 3)

    assert not found(replay=trajectory, again=replay(inputs_of(BURST, tmp_path)).trajectory)
    assert found(replay=trajectory, other=replay(inputs_of(smaller, tmp_path / "smaller")).trajectory)
    assert found(replay=trajectory, other=replay(inputs_of(earlier, tmp_path / "earlier")).trajectory)
