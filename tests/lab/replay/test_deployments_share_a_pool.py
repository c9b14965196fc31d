"""Deployments that are played together: the operator's decision, its ledger, and GPUs rented for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from firsttoken_lab.replay.play import Played, play
from firsttoken_lab.replay.policies.ours import Ours
from firsttoken_lab.replay.rented import RentedGPUs
from firsttoken_lab.replay.setting import Setting
from firsttoken_lab.replay.together import Sharer, play_together
from firsttoken_operator.domain import PoolSnapshot, Tenant
from tests.lab.replay.worlds import traffic

BUSY, QUIET = [(300.0, 30.0), (900.0, 120.0)], [(1200.0, 30.0)]
POOL = PoolSnapshot(
    "pool", budget_gpus=14, inventory_gpus=14, on_prem=True, scale_down_limit_percent=20,
    scale_down_limit_window_seconds=600.0,
)  # fmt: skip


def sharers(setting: Setting, *loads: list[tuple[float, float]]) -> list[Sharer]:
    """Deployments with these loads, each a tenant."""
    return [
        Sharer(
            f"d{number}", f"ns{number}", setting.sized, setting.policy, traffic(load, number + 1),
            setting.stage(90, 60.0, 0.0, 1), initial=5,
        )
        for number, load in enumerate(loads)
    ]  # fmt: skip


def asked(played: Sequence[Played]) -> Iterable[tuple[int, ...]]:
    """Replicas that all of them ask for, at each scrape."""
    return zip(*(one.trajectory.asked.tolist() for one in played), strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("standby", [0, 2])
def test_one_without_a_pool_plays_as_our_policy_does_alone(setting: Setting, standby: int) -> None:
    (sharer,) = sharers(setting, BUSY)
    sharer = replace(sharer, policy=replace(sharer.policy, standby=standby))
    policy = Ours(sharer.sized, sharer.policy)
    policy.initial = sharer.initial
    alone = play(policy, sharer.requests, sharer.stage)
    (together,) = play_together([sharer], None)

    assert together.changes == alone.changes
    assert len(together.changes) > 2
    assert bool(together.trajectory.standby_seconds[-1]) is bool(standby)
    np.testing.assert_array_equal(together.trajectory.standby_seconds, alone.trajectory.standby_seconds)
    np.testing.assert_array_equal(together.ttft_seconds, alone.ttft_seconds)


@pytest.mark.slow
def test_together_they_never_ask_for_more_than_the_pool_has_and_a_quota_is_kept(setting: Setting) -> None:
    both = sharers(setting, BUSY, QUIET)
    tenants = (Tenant("a", 7), Tenant("b", 7))
    parted = replace(POOL, tenants=tenants, tenant_names={"ns0": "a", "ns1": "b"})
    shared, in_parts = (list(asked(play_together(both, pool))) for pool in (POOL, parted))

    assert max(map(sum, shared)) == 14
    assert max(busy for busy, _ in shared) > 7
    assert max(busy for busy, _ in in_parts) == 7
    with pytest.raises(ValueError, match="are scraped together"):
        play_together([both[0], replace(both[1], stage=replace(both[1].stage, scrape_lag_seconds=1.0))], POOL)


@pytest.mark.slow
def test_a_replica_that_waits_for_a_node_starts_later_and_what_is_kept_warm_is_billed(setting: Setting) -> None:
    (sharer,) = sharers(setting, BUSY)
    cold, warm = RentedGPUs(300.0), RentedGPUs(300.0, warm=30)
    (late,), (early,) = (play_together([sharer], None, [gpus]) for gpus in (cold, warm))
    end = float(late.trajectory.at_seconds[-1])
    # The sixth replica: until it is ready both are the same, and starts are drawn alike.
    ready = [one.trajectory.at_seconds[np.argmax(one.trajectory.ready > 5)] for one in (late, early)]

    assert ready[0] == pytest.approx(ready[1] + 300.0, abs=15.0)
    assert cold.most < warm.most
    assert cold.billed_seconds(end) < late.replica_seconds, "a replica is created before its node has come"
    assert warm.billed_seconds(end) > early.replica_seconds


def test_rented_gpus_come_late_are_used_again_and_go_when_they_were_idle_for_long() -> None:
    gpus = RentedGPUs(provisioning_seconds=100.0, idle_seconds=600.0)
    gpus.begin(1)

    assert gpus.take(50.0) == 100.0
    gpus.give_back(200.0)
    gpus.advance(700.0)
    assert gpus.take(700.0) == 0.0, "the one that was given back is still there"
    gpus.give_back(800.0)
    gpus.advance(1399.0)
    assert gpus.billed_seconds(1399.0) == 1399.0 + (1399.0 - 150.0)
    gpus.advance(1400.0)
    assert gpus.billed_seconds(2000.0) == 2000.0 + (1400.0 - 150.0)
    assert gpus.most == 2


def test_the_bill_of_rented_gpus_may_begin_later() -> None:
    gpus = RentedGPUs(provisioning_seconds=100.0, idle_seconds=0.0, from_seconds=500.0)
    gpus.begin(3)
    for at_seconds in (400.0, 600.0):
        gpus.give_back(at_seconds)
        gpus.advance(at_seconds)

    assert gpus.billed_seconds(1000.0) == 100.0 + 500.0
    assert gpus.most == 2


def test_what_is_kept_warm_is_there_at_once_and_ordered_anew() -> None:
    gpus = RentedGPUs(provisioning_seconds=100.0, warm=2)

    assert [gpus.take(0.0) for _ in range(3)] == [0.0, 0.0, 100.0]
    gpus.advance(10.0)
    assert gpus.take(30.0) == 80.0, "on its way since the last time that it was looked for"
    assert gpus.most == 5
