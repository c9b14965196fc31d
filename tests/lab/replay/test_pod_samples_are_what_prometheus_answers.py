"""The pod samples of a replay equal what Prometheus would answer: pages are written and scraped, queries done by hand.

Everything on the pages comes from the records of the requests, one by one; `rate` and `deriv` are those of Prometheus'
functions.go, series by series. A fleet grows and shrinks meanwhile, so windows are full, half full, or begin late.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from firsttoken_lab.replay.observed import Observed, rate
from firsttoken_lab.replay.replicas import ColdStart, Replicas, SimulatedPod
from firsttoken_lab.replay.scrape import Scraper
from firsttoken_operator.families import FAILED, SERVED, VLLM, Metric, Signal, TokenPart
from firsttoken_operator.observe import MeasureSettings, PodSample
from firsttoken_sizing.simulation.fleet import Fleet, Settings
from tests.lab.replay.worlds import STEP, traffic

WINDOW, INTERVAL, LAG = 60.0, 15.0, 5.0
SETTINGS = MeasureSettings(WINDOW, INTERVAL)
KV_TOKENS = 40_000
SIZES = {0.0: 2, 120.0: 4, 300.0: 3, 390.0: 1, 480.0: 3}
"""Sizes that are asked for, by the second from which on; a start takes 40 s."""
END = 700.0
TTFT, OUTPUT, ENDED = (VLLM.series(m).name for m in (Metric.TTFT, Metric.REQUEST_GENERATION_TOKENS, Metric.FINISHED))
WAITING, RUNNING, KV_USAGE, PROMPT_TOKENS = (
    VLLM.series(m).name for m in (Metric.WAITING, Metric.RUNNING, Metric.KV_USAGE, Metric.PROMPT_TOKENS)
)

Series = list[tuple[float, float]]
"""Seconds and values."""


@dataclass
class Prometheus:
    """Series by pod and the text before a value."""

    series: Mapping[int, dict[str, Series]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    def scrape(self, pod: int, page: str, at: float) -> None:
        for line in page.splitlines():
            name, _, value = line.rpartition(" ")
            self.series[pod][name].append((at, float(value)))

    def inside(self, pod: int, name: str, now: float) -> Series:
        return [sample for sample in self.series[pod][name] if now - WINDOW < sample[0] <= now]

    def rate(self, pod: int, name: str, now: float) -> float | None:
        samples = self.inside(pod, name, now)
        if len(samples) < 2:
            return None
        (first_at, first), (last_at, last) = samples[0], samples[-1]
        assert all(one <= other for (_, one), (_, other) in pairwise(samples)), "a pod's counters begin with the pod"
        to_start, to_end = first_at - (now - WINDOW), now - last_at
        covered = last_at - first_at
        mean_interval = covered / (len(samples) - 1)
        if to_start >= 1.1 * mean_interval:
            to_start = mean_interval / 2
        increase = last - first
        if increase > 0:
            to_start = min(to_start, covered * first / increase)
        if to_end >= 1.1 * mean_interval:
            to_end = mean_interval / 2
        return increase * ((covered + to_start + to_end) / covered) / WINDOW

    def deriv(self, pod: int, name: str, now: float) -> float | None:
        samples = self.inside(pod, name, now)
        if len(samples) < 2:
            return None
        n, sum_x, sum_y, sum_xy, sum_x2 = float(len(samples)), 0.0, 0.0, 0.0, 0.0
        for at, value in samples:
            x = at - samples[0][0]
            sum_x, sum_y, sum_xy, sum_x2 = sum_x + x, sum_y + value, sum_xy + x * value, sum_x2 + x * x
        return (sum_xy - sum_x * sum_y / n) / (sum_x2 - sum_x * sum_x / n)

    def answer(self, pod: int, now: float) -> PodSample:
        """Find what the queries of the family find of one pod."""
        samples, bounds = self.inside(pod, RUNNING, now), [*VLLM.series(Metric.TTFT).bounds, math.inf]
        before = [at for at, _ in self.series[pod][RUNNING] if at <= now - WINDOW]
        found = {
            Signal.AGE: now - samples[-1][0],
            Signal.SAMPLES: len(samples),
            Signal.START_AGE: now - before[-1] if before else None,
            Signal.FIRST_TOKENS: self.rate(pod, f"{TTFT}_count", now),
            Signal.TTFT_SUM: self.rate(pod, f"{TTFT}_sum", now),
            Signal.WAITING: self.series[pod][WAITING][-1][1],
            Signal.WAITING_SLOPE: self.deriv(pod, WAITING, now),
            Signal.RUNNING: samples[-1][1],
            Signal.RUNNING_SLOPE: self.deriv(pod, RUNNING, now),
            Signal.KV_USAGE: self.series[pod][KV_USAGE][-1][1],
        }
        buckets = {bound: self.rate(pod, f'{TTFT}_bucket{{le="{bound}"}}', now) for bound in bounds}
        ended = {
            SERVED: self.rate(pod, f'{ENDED}{{finished_reason="length"}}', now),
            FAILED: self.rate(pod, f'{ENDED}{{finished_reason="error"}}', now),
        }
        tokens = {part: self.rate(pod, counter, now) for part, counter in VLLM.tokens.items()}
        return PodSample(VLLM.name, *(only_known(answers) for answers in (found, buckets, ended, tokens)))


def only_known(answers: Mapping[object, float | None]) -> dict:  # type: ignore[type-arg]
    return {key: value for key, value in answers.items() if value is not None}


def page(fleet: Fleet, pod: SimulatedPod, now: float) -> str:
    """Page that one pod exposes, from its own requests."""
    requests, replica = fleet.requests, fleet.replicas[pod.slot]
    began, ended = (
        (requests.replica == pod.slot) & (at >= max(pod.ready_at_seconds, 1e-9)) & (at <= now)
        for at in (requests.first_token, requests.finish)
    )
    ttft = (requests.first_token - requests.arrival)[began]
    running = replica.running + replica.fresh + (replica.partial >= 0)
    lines = {
        f"{TTFT}_count": began.sum(),
        f"{TTFT}_sum": ttft.sum(),
        PROMPT_TOKENS: requests.input[began].sum(),
        f"{OUTPUT}_sum": requests.output[ended].sum(),
        f"{OUTPUT}_count": ended.sum(),
        f'{ENDED}{{finished_reason="length"}}': ended.sum(),
        f'{ENDED}{{finished_reason="error"}}': 0,
        RUNNING: running,
        WAITING: replica.outstanding - running,
        KV_USAGE: replica.reserved / KV_TOKENS,
    }
    lines |= {
        f'{TTFT}_bucket{{le="{bound}"}}': (ttft <= bound).sum()
        for bound in (*VLLM.series(Metric.TTFT).bounds, math.inf)
    }
    return "\n".join(f"{name} {float(value)!r}" for name, value in lines.items())


@dataclass
class Compared:
    """The samples of all pods at one moment, from the replay and by hand."""

    now: float
    replays: Mapping[tuple[str, str], PodSample]
    by_hand: Mapping[tuple[str, str], PodSample]


@pytest.fixture(scope="module")
def compared() -> list[Compared]:
    fleet = Fleet(STEP, traffic([(200, 3.0), (250, 5.0), (250, 1.5)]), Settings(replicas=5, kv_cache_tokens=KV_TOKENS))
    replicas = Replicas(fleet, ColdStart(40.0), np.random.default_rng(1))
    scraper, prometheus = Scraper(fleet, KV_TOKENS, WINDOW), Prometheus()
    replicas.begin(SIZES[0.0])
    found = []
    for tick in np.arange(INTERVAL, END, INTERVAL).tolist():
        replicas.advance(tick - LAG)
        scraper.scrape(tick - LAG, replicas.pods)
        for pod in replicas.pods.answering:
            prometheus.scrape(pod.number, page(fleet, pod, tick - LAG), tick - LAG)
        scraped = {pod.number for pod in replicas.pods.answering}
        replicas.advance(tick)
        observed = Observed(tick, replicas.pods, scraper.scrapes, None, SETTINGS)
        living = [pod.number for pod in replicas.pods.answering if pod.number in scraped]
        by_hand = {("replay", f"replica-{number}"): prometheus.answer(number, tick) for number in living}
        found.append(Compared(tick, observed.reading().pods, by_hand))
        if tick in SIZES:
            replicas.scale(SIZES[tick], tick)
    return found


def test_every_number_of_every_pod_is_the_same(compared: list[Compared]) -> None:
    for moment in compared:
        assert moment.replays.keys() == moment.by_hand.keys(), moment.now
        for pod, sample in moment.replays.items():
            known = moment.by_hand[pod]
            assert sample.family == known.family
            for kind in ("values", "buckets", "ended", "tokens"):
                expected = getattr(known, kind)
                assert getattr(sample, kind) == pytest.approx(expected, rel=1e-9, abs=1e-9), (moment.now, pod, kind)


def test_the_windows_that_matter_are_among_them(compared: list[Compared]) -> None:
    samples = [sample for moment in compared for sample in moment.by_hand.values()]
    counts = {sample.values[Signal.SAMPLES] for sample in samples}

    assert counts == {1, 2, 3, 4}
    assert any(Signal.START_AGE not in sample.values for sample in samples)
    assert any(sample.values[Signal.WAITING] > 10 for sample in samples)
    assert len({pod for moment in compared for pod in moment.by_hand}) == 6, "two of them took the slots of others"
    assert any(sample.tokens.get(TokenPart.OUTPUTS, 0) > 0 for sample in samples)


@pytest.mark.parametrize(
    ("first", "last", "rate_per_second"),
    [
        pytest.param(1000.0, 1090.0, 2.0, id="both edges are near: 45 s stand for all 60 s"),
        pytest.param(0.0, 90.0, 90.0 * 50 / 45 / 60, id="a counter that was 0 is not extended into the time before"),
        pytest.param(10.0, 100.0, (90.0 * 50 / 45 + 10.0) / 60, id="nor further than to where it was 0"),
    ],
)
def test_a_rate_is_extended_as_prometheus_does(first: float, last: float, rate_per_second: float) -> None:
    at = [1010.0, 1025.0, 1040.0, 1055.0]

    assert rate(at, np.array(first), np.array(last), 1000.0, 1060.0) == pytest.approx(rate_per_second)


def test_a_rate_of_a_window_that_is_half_empty_is_extended_by_half_an_interval() -> None:
    found = rate([1040.0, 1055.0], np.array(1000.0), np.array(1030.0), 1000.0, 1060.0)

    assert found == pytest.approx(30.0 * (15 + 7.5 + 5) / 15 / 60)
