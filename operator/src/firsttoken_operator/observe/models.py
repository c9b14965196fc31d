"""One model of a server that has several: requests are counted by each that they pass, as an ensemble and its steps do.

The resource names it (`spec.metrics.modelName`). Where it does not and several have requests, the one with most is
read, which may be more than what clients send and is never believed to be all of it. A server without that one is read
by its own: a rollout that gives the model another name leaves out no request.
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
    loads = [_load(pod.sample) if pod.current else {} for pod in seen]
    load: dict[str, float] = defaultdict(float)
    for of_pod in loads:
        for model, rate in of_pod.items():
            load[model] += rate
    if not load:
        return tuple(seen), []
    chosen = wanted or _busiest(load)
    read = [_busiest(of_pod) if of_pod and not wanted and chosen not in of_pod else chosen for of_pod in loads]
    findings = []
    if chosen not in load:
        text = f"no model is called {wanted}, there are {', '.join(sorted(load))}: correct spec.metrics.modelName"
        findings.append(Finding(Reason.MISSING, Reason.NO_SERIES, text))
    elif not wanted and any(_busy(of_pod) - {model} for of_pod, model in zip(loads, read, strict=True)):
        busy = sorted(_busy(load))
        text = f"requests of {', '.join(busy)}: name the one that clients call in spec.metrics.modelName"
        findings.append(Finding(Reason.PARTIAL, Reason.SEVERAL_MODELS, text))
    return tuple(replace(pod, sample=_read(pod.sample, model)) for pod, model in zip(seen, read, strict=True)), findings


def _load(sample: PodSample) -> Mapping[str, float]:
    """Requests a second by model of one server; 0 for one whose numbers are none."""
    load = {}
    for model, counted in sample.models.items():
        rates = (counted.ended_rate, counted.values.get(Signal.FIRST_TOKENS))
        load[model] = max((rate for rate in rates if rate is not None and rate > 0), default=0.0)
    return load


def _busiest(load: Mapping[str, float]) -> str:
    return max(sorted(load), key=lambda model: load[model])


def _busy(load: Mapping[str, float]) -> set[str]:
    return {model for model, rate in load.items() if rate > 0}


def _read(sample: PodSample, model: str) -> PodSample:
    """A sample with the counters of one of its models, if it has that."""
    counted = sample.models.get(model)
    if counted is None:
        return sample
    values = {**sample.values, **counted.values}
    return replace(sample, values=values, buckets=counted.buckets, ended=counted.ended, models={})
