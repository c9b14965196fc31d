"""A burst of requests as a trace file, and the resource that it is meant for. The test and the replay read both."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from demo.stage import EXAMPLE

_GRID_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Burst:
    """Steady traffic, `times` as much, and steady traffic again; seconds of wall time."""

    requests_per_second: float
    times: float
    begin_seconds: float
    end_seconds: float
    ramp_seconds: float
    """Time that the rate takes to rise, from the begin on, and to fall, from the end on."""
    seconds: float
    """Until the last request."""
    input_tokens: float
    output_tokens: float
    length_variation: float
    """Coefficient of variation of both lengths, log-normal."""

    def write(self, file: Path, seed: int) -> None:
        """Write it as `arrival_s,input_tokens,output_tokens`.

        Each request comes at a random time of its own slot: as many slots a second as the rate. NB: nearly regular, so
        that what any window counts hangs on the rate and hardly on where the window begins, which no two runs share.
        """
        rng = np.random.default_rng(seed)
        low, high, ramp = self.requests_per_second, self.requests_per_second * self.times, self.ramp_seconds
        corners = [0.0, self.begin_seconds, self.begin_seconds + ramp, self.end_seconds, self.end_seconds + ramp]
        at = np.arange(0.0, self.seconds + _GRID_SECONDS, _GRID_SECONDS)
        rate = np.interp(at, corners, [low, low, high, high, low])
        arrived = np.concatenate(([0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * _GRID_SECONDS)))
        slots = np.arange(int(arrived[-1]))
        arrival = np.interp(np.sort(slots + rng.random(len(slots))), arrived, at)
        sigma = np.sqrt(np.log1p(self.length_variation**2))
        tokens = [
            np.maximum(1, np.rint(mean * rng.lognormal(-(sigma**2) / 2, sigma, len(slots)))).astype(int)
            for mean in (self.input_tokens, self.output_tokens)
        ]
        with file.open("w", newline="") as lines:
            writer = csv.writer(lines)
            writer.writerow(["arrival_s", "input_tokens", "output_tokens"])
            writer.writerows(zip(arrival.round(6).tolist(), *(column.tolist() for column in tokens), strict=True))


def write_resource(file: Path, scaling: dict[str, int]) -> None:
    """The call center without its pool, which a replay does not have, and with `scaling` over its `spec.scaling`."""
    documents = [d for d in yaml.safe_load_all(EXAMPLE.read_text()) if d["kind"] != "GPUPool"]
    for document in documents:
        if document["kind"] == "InferenceDeployment":
            del document["spec"]["capacity"]
            document["spec"]["scaling"] |= scaling
    file.write_text(yaml.safe_dump_all(documents))
