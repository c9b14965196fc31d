"""One model of a server that has several: requests are counted by each that they pass, as an ensemble and its steps do.

The resource names it (`spec.metrics.modelName`). Where it does not and several have requests, the one with most is
read, which may be more than what clients send and is never believed to be all of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from firsttoken_operator.domain import Reason
from firsttoken_operator.families import Signal
from firsttoken_operator.observe.collect import PodSample
from firsttoken_operator.observe.diagnosis import Finding
from firsttoken_operator.observe.freshness import SeenPod


def of_one_model(seen: Sequence[SeenPod], wanted: str) -> tuple[tuple[SeenPod, ...], list[Finding]]:
    """The pods with the counters of one model, and what is wrong with that choice. `wanted`: its name, "" for any."""
    load = _load(seen)
    if not load:
        return tuple(seen), []
    busy = sorted(model for model, rate in load.items() if rate > 0)
    chosen = wanted or max(sorted(load), key=lambda model: load[model])
    findings = []
    if chosen not in load:
        text = f"no model is called {wanted}, there are {', '.join(sorted(load))}: correct spec.metrics.modelName"
        findings.append(Finding(Reason.MISSING, Reason.NO_SERIES, text))
    elif not wanted and len(busy) > 1:
        text = f"requests of {', '.join(busy)}: name the one that clients call in spec.metrics.modelName"
        findings.append(Finding(Reason.PARTIAL, Reason.SEVERAL_MODELS, text))
    return tuple(replace(pod, sample=_read(pod.sample, chosen)) for pod in seen), findings


def _load(seen: Sequence[SeenPod]) -> Mapping[str, float]:
    """Requests a second by model; 0 for one whose numbers are none."""
    load: dict[str, float] = defaultdict(float)
    for pod in seen:
        for model, sample in pod.sample.models.items() if pod.current else ():
            rates = (sample.ended_rate, sample.values.get(Signal.FIRST_TOKENS))
            load[model] += max((rate for rate in rates if rate is not None and rate > 0), default=0)
    return load


def _read(sample: PodSample, model: str) -> PodSample:
    """A sample with the counters of one of its models, if it has that."""
    counted = sample.models.get(model)
    if counted is None:
        return sample
    values = {**sample.values, **counted.values}
    return replace(sample, values=values, buckets=counted.buckets, ended=counted.ended, models={})
