"""Dynamo's planner as a policy: the protocol with a bridge made up here, and the real planner where it is installed."""

from __future__ import annotations

import gc
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firsttoken_lab.replay.gateway import Seen
from firsttoken_lab.replay.policies import dynamo
from firsttoken_lab.replay.policies.dynamo import Dynamo, Engine, planner_command
from firsttoken_lab.replay.policies.view import Unavailable, View
from firsttoken_operator.domain import Metrics, Missing, Reason
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.step.model import StepModel
from peers.environment import environment_of, python_of

STEP = StepModel(0.025, 0.00035, 0.0, 1 / 8000, 0.0, max_batch=64)
ENGINE = Engine(STEP, tokens_per_step=8192, kv_cache_tokens=600_000, input_tokens=1000.0, output_tokens=200.0)
_UNKNOWN = Missing(Reason.NOT_ENOUGH_SAMPLES)
METRICS = Metrics(
    Reason.RECOVERING, "", _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, None, 60.0
)  # fmt: skip

BRIDGE = """
import json, sys
from pathlib import Path
log = Path(sys.argv[1])
log.write_text(sys.stdin.readline())
for line in sys.stdin:
    seen = json.loads(line)
    if seen["started"] == 666:
        sys.exit(3)
    answer = {"replicas": seen["started"] // 100 or None, "reason": "made up"}
    print(json.dumps(answer), flush=True)
with log.open("a") as file:
    file.write("ended")
"""


class Traffic:
    """A gateway with a rate."""

    def __init__(self, requests_per_second: float, input_tokens: float | None = 1000.0) -> None:
        self._rate, self._input_tokens = requests_per_second, input_tokens

    def seen(self, window_seconds: float) -> Seen:
        started = round(self._rate * window_seconds)
        return Seen(window_seconds, started, self._input_tokens, 0.0, 200.0, np.array([]), np.array([]))


def view(tick: int, replicas: int, gateway: Traffic | None) -> View:
    return View(180.0 * tick, replicas, replicas, 0, 0, 0.0, 0.0, lambda: METRICS, gateway)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def policy(tmp_path: Path, log: Path) -> Dynamo:
    bridge = tmp_path / "bridge.py"
    bridge.write_text(BRIDGE)
    return Dynamo(ENGINE, 2000.0, None, initial=3, maximum=20, command=(sys.executable, str(bridge), str(log)))


def test_the_process_starts_with_the_first_tick(policy: Dynamo, log: Path) -> None:
    assert policy.initial == 3
    assert not log.exists()

    assert policy.desired(view(1, 3, Traffic(500 / 180))) == 5
    assert policy.reasons == ["made up"]


def test_nothing_is_left_running_when_the_policy_is_gone(tmp_path: Path, log: Path) -> None:
    bridge = tmp_path / "bridge.py"
    bridge.write_text(BRIDGE)
    policy = Dynamo(ENGINE, 2000.0, None, initial=3, maximum=20, command=(sys.executable, str(bridge), str(log)))
    policy.desired(view(1, 3, Traffic(1.0)))

    del policy
    gc.collect()

    assert log.read_text().endswith("ended")


def test_it_is_told_its_limits_and_its_engine(policy: Dynamo, log: Path) -> None:
    policy.desired(view(1, 3, Traffic(1.0)))

    told = json.loads(log.read_text())

    assert told["ttftMilliseconds"] == 2000.0
    assert told["itlMilliseconds"] >= 1e6
    assert told["maxReplicas"] == 20
    assert told["maxBatch"] == 64
    assert len(told["forwardPasses"]) == 64


def test_without_a_target_everything_stays(policy: Dynamo) -> None:
    assert policy.desired(view(1, 7, Traffic(0.1))) == 7


def test_a_planner_that_dies_says_so(policy: Dynamo) -> None:
    with pytest.raises(Unavailable, match="ended with status 3"):
        policy.desired(view(1, 3, Traffic(666 / 180)))


def test_it_needs_a_gateway(policy: Dynamo) -> None:
    with pytest.raises(InvalidInput, match=r"view\.gateway: is missing"):
        policy.desired(view(1, 3, None))


def test_while_metrics_are_out_the_planner_is_not_asked(policy: Dynamo, log: Path) -> None:
    assert policy.desired(replace(view(1, 7, None), is_blind=True)) == 7
    assert policy.reasons == [None]
    assert not log.exists()


def test_its_absence_comes_with_the_command_that_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRSTTOKEN_CACHE", str(tmp_path))

    with pytest.raises(Unavailable, match=r"not installed.*environment\.py dynamo --install"):
        planner_command()


def test_outside_of_a_checkout_it_says_where_it_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dynamo, "_PEERS", tmp_path)

    with pytest.raises(Unavailable, match="from a checkout"):
        planner_command()


@pytest.mark.parametrize("cached", [0.0, 0.5])
def test_forward_passes_are_those_of_the_step_model(cached: float) -> None:
    engine = Engine(STEP, 8192, None, 1000.0, 200.0, cached)

    for prompts, tokens, sequences, context, seconds in engine.forward_passes():
        assert tokens == prompts * 1000 * (1 - cached)
        assert 1 <= sequences <= STEP.max_batch
        assert 0.74 < context / (sequences * 1100) < 1.26
        assert seconds == pytest.approx(0.025 + 0.00035 * sequences + tokens / 8000)


def test_prompts_never_exceed_the_budget_of_a_step() -> None:
    engine = Engine(STEP, 2048, None, 1500.0, 200.0)

    assert max(tokens for _, tokens, *_ in engine.forward_passes()) == 2048


@pytest.mark.slow
def test_the_real_planner_divides_the_load_by_what_an_engine_can_do() -> None:
    if python_of("dynamo") is None:
        pytest.skip(f"benchmarks/peers/dynamo is not installed in {environment_of('dynamo')}")
    policy = Dynamo(ENGINE, 2000.0, 60.0, initial=1, maximum=12, predictor=dynamo.Predictor.CONSTANT)
    # A step with 8 of 64 prompts' tokens in it: B sequences make B/200 requests/s of 1000 tokens in each of
    # 25 + 0.35 B + 1000/8 B/200 ms. At the ITL limit of 60 ms B is 35.9, so an engine serves 3.0 requests/s.
    capacity = 35 / 200 / 0.060

    rates = (1.0, 6.0, 12.0, 12.0, 24.0, 500.0, 3.0)
    replicas, asked = policy.initial, []
    for tick, rate in enumerate(rates, 1):
        replicas = policy.desired(view(tick, replicas, Traffic(rate)))
        asked.append(replicas)

    assert asked[5] == 12  # the budget
    for rate, got in zip(rates[:5], asked[:5], strict=True):
        assert abs(got - math.ceil(rate / capacity)) <= 1
    assert asked[-1] in (1, 2)
    assert policy.reasons == ["scale"] * len(rates)

    # No request in an interval leaves no lengths to size for: it has no target, and keeps what is there.
    assert policy.desired(view(8, replicas, Traffic(0.0, None))) >= 1

    kept = Dynamo(ENGINE, 2000.0, 60.0, initial=5, maximum=12, minimum=4, predictor=dynamo.Predictor.CONSTANT)
    assert [kept.desired(view(tick, 5, Traffic(rate))) for tick, rate in enumerate((1.0, 500.0), 1)] == [4, 12]
