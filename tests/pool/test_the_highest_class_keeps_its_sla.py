"""A pool that is full when the load of its highest class rises: it takes from the others, and answers on time.

Emulated fleets of three deployments of two tenants on a real API server and a real Prometheus want 1.6 times the GPUs
of eight servers: the lower classes by peaks that they declare, the highest by its load. The operator is killed at the
first replicas that it takes from a lower class, alone or beside one that stands by. Requests are judged by what the
emulation knows of each, the pool by the whole history of the API server. In the end the load is gone, and what was
taken is given back. The load rises in steps that wait for what the operator does, however slow the machine is.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.faults.actions import Kill
from tests.faults.pool_history import recorded
from tests.pool.crowd import ALL, BATCH, CHAT, EACH, GPUS, LONG_SECONDS, QUOTA, SEARCH, crowded
from tools.cluster import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.crowded_pool, pytest.mark.timeout(3600)]

SHORTAGE, SLA_PERCENT = 1.6, 95.0
RISE = [CHAT.load + 3 * step for step in range(1, 19)]
"""Requests a second, up to what four replicas carry."""


@pytest.mark.parametrize(
    ("operators", "killed"),
    [(1, False), (1, True), (2, True)],
    ids=["", "killed and started again", "killed beside one that stands by"],
)
def test_the_highest_class_answers_in_time_while_others_give_up_replicas_for_it(
    control_plane: Path, tmp_path: Path, operators: int, killed: bool
) -> None:
    declared = (SEARCH.wanted(tmp_path) + BATCH.wanted(tmp_path)) * EACH
    each = {about.name: EACH for about in ALL}
    with crowded(tmp_path) as (scene, proxy), recorded(scene.cluster, tmp_path, each) as history:
        for _ in range(operators):
            scene.start()
        wait_until(lambda: scene.leader() is not None, LONG_SECONDS, "one leads")
        chat, before = scene.fleets["chat"], {about.name: about.replicas for about in ALL}
        short = declared + before["chat"] * EACH - GPUS
        wait_until(lambda: scene.unmet() == short, LONG_SECONDS, f"{short} GPUs unmet where the pool is full")
        assert scene.replicas() == before

        began = chat.stats()["elapsedSeconds"]
        kill = Kill(scene.end_leader, forwarding=True)
        first: dict[str, Any] = {"method": "PATCH|PUT", "path": "/namespaces/lab/deployments/batch/scale$", "times": 1}
        with proxy.injecting(kill, **first) if killed else nullcontext():
            for load in RISE:
                chat.load(load)
                scene.follow(CHAT)

        def adds_up() -> int:
            """GPUs that are wanted, where those unmet are what the pool lacks of them; else 0."""
            wanted = declared + scene.replicas()["chat"] * EACH
            return wanted if scene.unmet() == wanted - GPUS else 0

        wanted = wait_until(adds_up, LONG_SECONDS, "as many GPUs unmet as there are too few")
        after = scene.replicas()
        assert wanted >= SHORTAGE * GPUS
        assert after["batch"] < before["batch"], "the lowest class gives first"

        chat.load(CHAT.load)
        wait_until(lambda: (scene.replicas(), scene.unmet()) == (before, short), LONG_SECONDS, "given back")
        inside = {name: fleet.inside_percent(began) for name, fleet in scene.fleets.items()}

    states = list(history.states())
    print(f"replicas {before} -> {after}, {wanted} GPUs wanted; inside the SLA {inside}; {len(states)} states")
    assert max(sum(held.values()) for held in states) <= GPUS
    assert max(held["batch"] for held in states) <= QUOTA
    assert inside["chat"] >= SLA_PERCENT
