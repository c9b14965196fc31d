"""`minReplicas` and `maxReplicas` bind every policy of a replay: none is compared under a freedom of its own."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firsttoken_lab.replay.clairvoyant import plan
from firsttoken_lab.replay.compare import NAMES, Scene, known_beforehand, scene_of
from firsttoken_lab.replay.play import Played, play
from firsttoken_lab.replay.policies import dynamo
from firsttoken_lab.replay.policies.registry import POLICIES
from firsttoken_lab.replay.setting import Setting
from firsttoken_lab.replay.traffic import Traffic
from tests.lab.replay.test_dynamo_is_stepped_through_a_replay import BRIDGE, view
from tests.lab.replay.test_dynamo_is_stepped_through_a_replay import Traffic as Rate
from tests.lab.replay.worlds import traffic

pytestmark = pytest.mark.slow

CLAIRVOYANT = "clairvoyant"
CALM, BUSY = [(1500.0, 3.0)], [(300.0, 3.0), (600.0, 60.0)]


def scene(setting: Setting, minimum: int, maximum: int | None, rates: list[tuple[float, float]]) -> Scene:
    bound = replace(setting, policy=replace(setting.policy, min_replicas=minimum, max_replicas=maximum))
    return scene_of(Traffic("made", traffic(rates), 1.0, 0), bound, 60.0, 1)


def played(name: str, where: Scene) -> Played:
    if name == CLAIRVOYANT:
        return known_beforehand(where, lambda _: None)
    return play(POLICIES[name](where.context), where.traffic.requests, where.stage)


def asked(whole: Played) -> list[int]:
    return [replicas for _, replicas in whole.changes]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "dynamo"])
def test_no_policy_goes_below_the_fewest_where_it_would_need_less(name: str, setting: Setting) -> None:
    assert min(asked(played(name, scene(setting, 1, None, CALM)))) < 5
    assert min(asked(played(name, scene(setting, 5, None, CALM)))) == 5


@pytest.mark.parametrize("name", [name for name in NAMES if name != "dynamo"])
def test_no_policy_goes_above_the_most_where_it_would_need_more(name: str, setting: Setting) -> None:
    assert max(asked(played(name, scene(setting, 1, None, BUSY)))) > 1
    assert max(asked(played(name, scene(setting, 1, 1, BUSY)))) == 1


def test_dynamo_is_told_both(setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge, log = tmp_path / "bridge.py", tmp_path / "log"
    bridge.write_text(BRIDGE)
    monkeypatch.setattr(dynamo, "planner_command", lambda: (sys.executable, str(bridge), str(log)))

    POLICIES["dynamo"](scene(setting, 3, 9, CALM).context).desired(view(1, 3, Rate(1.0)))

    told = json.loads(log.read_text().splitlines()[0])
    assert (told["minReplicas"], told["maxReplicas"]) == (3, 9)


def test_who_may_go_to_zero_is_compared_with_policies_that_keep_one(setting: Setting) -> None:
    assert scene(setting, 0, None, CALM).context.minimum == 1


def test_the_plan_of_the_clairvoyant_has_the_fewest_in_every_minute() -> None:
    late = np.zeros((20, 6))

    assert set(plan(late, 1.0, 60.0, least_replicas=4).tolist()) == {4}
