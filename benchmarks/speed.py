"""Speed of sizing, the table that the operator reads, the simulator and the start of the command, each with its goal.

    .venv/bin/python benchmarks/speed.py [--peers]

One process, one core, medians of several runs; times of another machine differ, the ratios less. `--peers` installs
AIConfigurator into the cache (670 MB) and asks its `recommend` the same question in the same run; where it is installed
already it is asked anyway, and where it is not the table says so. Exits 1 where a goal is missed.

What is not compared: Vidur (MLSys 2024), which is no package of PyPI. It simulates every step as an event in Python and
predicts each operator with a random forest, so it knows what is inside a step and ours only how long it takes; we jump
over the steps in which no request comes or goes, in compiled code. No requests a second of it are published: its paper
gives an hour of a CPU machine for the search of one deployment of Llama 2 70B, and a log in its issue 41 has 128
requests on 4 replicas between two lines that are 2 s apart.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from rich.console import Console
from rich.table import Table

from firsttoken_sizing import Arrivals, Hardware, Limit, Percentile, SizingRequest, Sla, Workload, size
from firsttoken_sizing.performance.lengths import lengths_of
from firsttoken_sizing.performance.poisson import saturation_rate
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.simulation import drawn_requests, poisson_arrivals, simulate
from firsttoken_sizing.step import StepModel, step_model
from peers.environment import PeerError, ask, install, python_of

PEER = "aiconfigurator"
CORE_KEY = ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8", 1)
SIMULATED_REQUESTS = 300_000
_LOOK_UPS = 1000
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Timing:
    """One measurement and its goal: at most `goal`, or with `at_least` at least that. `ratio` is against the peer."""

    what: str
    value: float
    unit: str
    goal: float
    at_least: bool = False
    ratio: float | None = None

    @property
    def reached(self) -> bool:
        """True where the goal holds."""
        return self.value >= self.goal if self.at_least else self.value <= self.goal


@dataclass(frozen=True, slots=True)
class Recommend:
    """Time of AIConfigurator's `recommend`: the first answer of a process, the next one, and memory."""

    first_seconds: float
    next_seconds: float
    peak_mib: float


def question(arrivals: Arrivals, input_tokens: float = 2000) -> SizingRequest:
    """Llama 3 8B on H100, 200 requests/s of 2000/200: every TP and every published precision is a candidate."""
    return SizingRequest(
        model=CORE_KEY.model,
        workload=Workload(input_tokens=input_tokens, output_tokens=200, peak_requests_per_second=200),
        sla=Sla(time_to_first_token=Limit(300, Percentile.P95), inter_token_latency=Limit(50, Percentile.MEAN)),
        hardware=Hardware(gpus=(CORE_KEY.gpu,)),
        arrivals=arrivals,
    )


def sizing_seconds(arrivals: Arrivals) -> float:
    """Median time of one sizing in a process that has sized before."""
    size(question(arrivals))
    # NB: another length each time, so that nothing remembered of the last answer helps.
    return median_seconds(lambda i: size(question(arrivals, 2000 + 7 * (i + 1))))


def look_up_seconds() -> float:
    """Median time of what the operator asks at every tick of one resource: replicas, and latencies at N-1, N, N+1."""
    table = size(question(Arrivals.POISSON)).table
    assert table is not None

    def decide(round_: int) -> None:
        for i in range(_LOOK_UPS):
            rate = 50.0 + round_ + i / _LOOK_UPS
            replicas = table.replicas_for(rate)
            for n in (replicas - 1, replicas, replicas + 1):
                table.at(rate / max(1, n))

    return median_seconds(decide) / _LOOK_UPS


@cache
def step_of_core() -> StepModel:
    """The shipped fit that the simulator is measured with."""
    return step_model(CORE_KEY, (), 256)[0]


def simulated_requests_per_second(requests: int = SIMULATED_REQUESTS) -> float:
    """Simulated requests a second of wall time: Poisson arrivals of 2000/200 at 70 % of the largest stable rate."""
    step, lengths = step_of_core(), lengths_of(question(Arrivals.POISSON).workload)
    rate = 0.7 * saturation_rate(step, lengths)
    rng = np.random.default_rng(1)
    work = drawn_requests(lengths, poisson_arrivals(rate, requests, rng), rng)
    simulate(
        step, drawn_requests(lengths, poisson_arrivals(rate, 10, rng), rng)
    )  # compiles, or reads what was compiled
    return requests / median_seconds(lambda _: simulate(step, work), rounds=3)


def help_import_seconds() -> float:
    """Sum of the imports of `firsttoken --help`, by `python -X importtime`."""
    code = "import sys; from firsttoken_operator.cli import main; sys.exit(main(['--help']))"

    def once() -> float:
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
        )
        own = re.findall(r"^import time:\s+(\d+) \|", done.stderr, flags=re.MULTILINE)
        return sum(map(int, own)) / 1e6

    return statistics.median(once() for _ in range(_ROUNDS))


def median_seconds(work: Callable[[int], object], rounds: int = _ROUNDS) -> float:
    """Median duration of `work`, which is told the number of the round."""
    seconds = []
    for i in range(rounds):
        began = time.perf_counter()
        work(i)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def recommend() -> Recommend | None:
    """The peer asked the same; None where it is not installed."""
    if python_of(PEER) is None:
        return None
    asked = question(Arrivals.POISSON)
    limit = asked.sla.time_to_first_token, asked.sla.inter_token_latency
    answer = ask(
        PEER,
        "recommend.py",
        {
            "model_path": "meta-llama/Meta-Llama-3.1-8B",  # the same layers
            "system": "h100_sxm",
            "target_request_rate": asked.workload.peak_requests_per_second,
            "isl": round(asked.workload.input_tokens),
            "osl": round(asked.workload.output_tokens),
            "ttft": limit[0].milliseconds if limit[0] else None,
            "tpot": limit[1].milliseconds if limit[1] else None,
        },
    )
    first = answer["importSeconds"] + answer["firstSeconds"]
    return Recommend(first, answer["secondSeconds"], answer["peakMiB"])


def lines(peer: Recommend | None) -> Iterator[Timing]:
    """Every measurement. A sizing is compared with the peer's next answer, which has its data loaded as we have."""
    for name, arrivals, goal in (("closed loop", Arrivals.CLOSED_LOOP, 50.0), ("Poisson", Arrivals.POISSON, 1000.0)):
        seconds = sizing_seconds(arrivals)
        line = Timing(f"size a resource over every TP and precision, {name}", 1000 * seconds, "ms", goal)
        yield replace(line, ratio=peer.next_seconds / seconds) if peer else line
    yield Timing("look up N-1, N and N+1 of a resource in its table", 1000 * look_up_seconds(), "ms", 1.0)
    yield Timing("simulate", simulated_requests_per_second(), "requests/s", 100_000, at_least=True)
    yield Timing("imports of firsttoken --help", help_import_seconds(), "s", 0.3)


def table(measured: list[Timing], peer: Recommend | None) -> Table:
    """The lines as a table for a terminal."""
    shown = Table(title="speed on one core")
    for heading in ("what", "measured", "goal", "reached", f"{PEER} takes"):
        shown.add_column(heading)
    for line in measured:
        shown.add_row(
            line.what,
            f"{line.value:,.3g} {line.unit}" if line.value < 1000 else f"{line.value:,.0f} {line.unit}",
            f"{'>=' if line.at_least else '<='} {line.goal:,g} {line.unit}",
            "yes" if line.reached else "NO",
            f"{line.ratio:,.0f} x as long" if line.ratio is not None else "-",
        )
    if peer is None:
        shown.caption = f"{PEER} is not installed: benchmarks/speed.py --peers installs it"
    else:
        shown.caption = (
            f"{PEER} recommend, the same question: {peer.first_seconds:.1f} s in a new process,"
            f" {peer.next_seconds:.1f} s once its data are loaded, {peer.peak_mib:.0f} MiB"
        )
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description="speed of the sizing engine")
    parser.add_argument("--peers", action="store_true", help=f"install {PEER} into the cache, and compare with it")
    arguments = parser.parse_args()
    try:
        if arguments.peers:
            install(PEER)
        peer = recommend()
    except PeerError as error:
        print(f"--peers: {error}", file=sys.stderr)
        return 2
    measured = list(lines(peer))
    Console().print(table(measured, peer))
    return 0 if all(line.reached for line in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
