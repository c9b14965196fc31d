"""Declared peaks of all deployments against their pool: known before anything starts, with what to expect then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import judge_pool, peaks
from firsttoken_operator.domain import Judgement, PoolSnapshot, Reason, ResourceSnapshot, Sized, TargetMissing, Tenant
from tests.operator.decide.builders import POLICY, SIZED, lost, resource
from tests.operator.decide.test_gpus_are_shared_fairly import servers

POOL = PoolSnapshot("h100", 64, 64, on_prem=True, scale_down_limit_percent=20, scale_down_limit_window_seconds=600)
ABSENT = TargetMissing(Reason.TARGET_NOT_FOUND, "nothing runs yet")


def member(name: str, replicas: int, gpus: int = 1, **changes: object) -> ResourceSnapshot:
    sized = replace(
        SIZED, configuration=replace(SIZED.configuration, tensor_parallel=gpus),
        replicas_for_declared_peak=replicas, peak_requests_per_second=5.0 * replicas,
    )  # fmt: skip
    base = resource(ABSENT, lost(), uid=name, name=name, pool="h100", sized=sized)
    return replace(base, **changes)  # type: ignore[arg-type]


def available(*members: ResourceSnapshot, pool: PoolSnapshot = POOL) -> Judgement:
    return judge_pool(pool, (), peaks(pool, members))[0]


def test_the_condition_says_what_lacks_and_what_to_expect_of_whom() -> None:
    batch = member("batch-summaries", 40)
    said = available(member("chat", 16, gpus=4, priority=10), replace(batch, priority=0), pool=replace(POOL))

    assert (said.holds, said.reason) == (False, Reason.PEAK_ABOVE_POOL)
    # The minimum of two comes first, and leaves 62 GPUs: 15 replicas of 4, and 2 GPUs more.
    assert said.message == (
        "peak needs 104 GPUs, pool has 64, short 40; at 64 expect P95 TTFT above 1 s for call-center/batch-summaries, "
        "P95 TTFT 0.33 s for call-center/chat"
    )


def test_it_is_told_what_a_little_less_means() -> None:
    sized = member("a", 20).sized
    assert isinstance(sized, Sized)
    expected = sized.table.at(100 / 16, 16).ttft.p95

    assert expected is not None
    assert available(member("a", 20), pool=replace(POOL, budget_gpus=16)).message == (
        f"peak needs 20 GPUs, pool has 16, short 4; at 16 expect P95 TTFT {expected / 1000:.2g} s for call-center/a"
    )


@pytest.mark.parametrize(
    ("pool", "members"),
    [
        (POOL, [member("a", 64)]),
        (replace(POOL, budget_gpus=None, is_elastic=True), [member("a", 640)]),
        (POOL, [member("a", 640, policy=replace(POLICY, max_replicas=64))]),
    ],
    ids=["it fits", "nodes come without end", "its own maximum"],
)
def test_where_all_fit_nothing_is_missing(pool: PoolSnapshot, members: list[ResourceSnapshot]) -> None:
    assert available(*members, pool=pool).reason is Reason.AVAILABLE


def test_a_quota_and_servers_count_at_the_peak_too() -> None:
    quota = replace(POOL, tenants=(Tenant("t", quota_gpus=16),), tenant_names={"call-center": "t"})
    fragmented = replace(POOL, servers=servers(*[6] * 8, gpus=6))

    for pool, about, need, text in (
        (quota, member("a", 20), 20, "16 of 20 replicas"), (fragmented, member("a", 9, gpus=4), 36, "8 of 9 replicas"),
    ):  # fmt: skip
        assert isinstance(about.sized, Sized)
        unknown = replace(about, sized=replace(about.sized, peak_requests_per_second=None))
        said = available(unknown, pool=pool)
        assert said.reason is Reason.PEAK_ABOVE_POOL
        assert said.message.endswith(f", and quotas or servers give less; at {need} expect {text} for call-center/a")


def test_what_is_short_now_is_said_first() -> None:
    unknown = replace(POOL, budget_gpus=None, inventory_gpus=None)

    assert available(member("a", 640), pool=unknown).reason is Reason.POOL_INVENTORY_UNKNOWN


def test_small_replicas_beside_a_large_one_do_not_make_a_pool_short_that_holds_them_all() -> None:
    # Twelve of sixteen GPUs. A large one that starts after small ones may find no server; at rest all have theirs.
    pool = replace(POOL, budget_gpus=16, servers=servers(8, 8))
    small = member("small", 8, policy=replace(POLICY, min_replicas=0))

    assert available(member("large", 1, gpus=4, policy=replace(POLICY, min_replicas=0)), small, pool=pool).holds
    assert not available(member("large", 3, gpus=4, policy=replace(POLICY, min_replicas=0)), small, pool=pool).holds
