"""Replicas that are asked for and never run keep no GPU from others: refused, gated, without a tenant, over a quota."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_operator.decide import Ledger, Memory, decide
from firsttoken_operator.domain import (
    FleetSnapshot,
    Hindrances,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Tenant,
)
from tests.operator.decide.builders import POLICY, TICK_SECONDS, metrics, resource, target
from tests.operator.decide.test_gpus_are_shared_fairly import servers

POOL = PoolSnapshot(
    "h100", 64, 64, on_prem=True, scale_down_limit_percent=20, scale_down_limit_window_seconds=600,
    servers=servers(*[4] * 8),
)  # fmt: skip
SHARED = replace(POOL, servers=None, tenants=(Tenant("web", quota_gpus=40),), tenant_names={"web": "web"})
PAUSED = replace(POLICY, mode=ScalingMode.PAUSED)


def asking(replicas: int, namespace: str = "other", **pods: object) -> ResourceSnapshot:
    """One that asks for much and of which nothing is ready."""
    tgt = target(replicas, ready=0, uid="d-asking", **pods)
    return resource(tgt, metrics(0), uid="asking", name="asking", namespace=namespace, pool="h100", policy=PAUSED)


def grown(pool: PoolSnapshot, *others: ResourceSnapshot) -> int:
    """Replicas of one of 8 that needs 12."""
    about = resource(target(8, uid="d-ok"), metrics(60), uid="ok", name="ok", namespace="web", pool="h100")
    decided, _ = decide(FleetSnapshot(0, TICK_SECONDS, (about, *others), {"h100": pool}), Memory())
    return decided[0].to_replicas


WAITING = {"starting": 1, "unplaced": 1, "gpus_per_replica": 8}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ({"refused": "exceeded quota", "gpus_per_replica": 8}, 12),
        ({"refused": "exceeded quota", "gpus_per_replica": 4}, 12),
        ({"gpus_per_replica": 8}, 12),
        (WAITING | {"waits_seconds": (3600.0,)}, 12),
        (WAITING | {"waits_seconds": (5.0,), "hindrances": Hindrances(gated=1)}, 12),
        (WAITING | {"waits_seconds": (5.0,), "unschedulable": 1}, 12),
        (WAITING | {"waits_seconds": (5.0,)}, 8),
        ({"written": 2, "gpus_per_replica": 8}, 8),
    ],
    ids=[
        "refused", "small and refused", "never made", "a volume", "gated", "unschedulable", "about to have a node",
        "just given",
    ],
)  # fmt: skip
def test_only_what_has_a_node_soon_gets_its_server_first(pods: dict[str, object], expected: int) -> None:
    assert grown(POOL, asking(1, **pods)) == expected


@pytest.mark.parametrize(
    ("asked", "charged"),
    [
        (asking(100), 8),
        (asking(100, starting=100, unplaced=100), 8),
        (asking(100, starting=2), 8 + 2),
        (asking(100, refused="exceeded quota"), 8),
        (asking(100, "web"), 40),
        (asking(100, "web", refused="exceeded quota"), 8),
        (asking(3, "web", gpus_per_replica=12), 8 + 2 * 12),
    ],
    ids=["no tenant", "with pods", "on nodes", "refused", "over its quota", "and refused", "whole replicas"],
)
def test_what_has_no_node_is_charged_inside_the_quota_of_its_tenant(asked: ResourceSnapshot, charged: int) -> None:
    about = resource(target(8, uid="d-ok"), metrics(60), uid="ok", namespace="web", pool="h100")

    assert Ledger(SHARED, (about, asked), ()).charged_gpus == charged
    assert Ledger(SHARED, (about,), (replace(asked, pool=None, guest_of="h100"),)).charged_gpus <= charged


def test_one_without_a_tenant_keeps_no_other_small() -> None:
    assert grown(SHARED, asking(100, refused="exceeded quota")) == 12
    assert grown(SHARED, asking(100)) == 12
    assert Ledger(SHARED, (asking(100),), ()).refusal("other", 1) is Reason.NOT_A_TENANT
