"""Signs that series of a known family are there and yet not, or not only, where they are looked for.

They explain, and no number of a decision comes from them: one query for all families and all pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from firsttoken_operator.families.family import MetricFamily
from firsttoken_operator.families.promql import EVERY_POD, told_apart


class Symptom(StrEnum):
    """Way in which series of a pod are scraped."""

    EXPORTED = "exported"
    """The pod stands in `exported_pod`: `pod` is that of whatever passes the series on."""
    UNLABELED = "unlabeled"
    """Series without a pod. It is not known whose they are."""
    TWICE = "twice"
    """Two jobs scrape the pod."""


SYMPTOM = "symptom"
"""Label that tells the signs apart."""
_OWN = ("namespace", "pod")


def symptoms_query(families: Sequence[MetricFamily]) -> str:
    """The PromQL of all signs, by namespace and pod."""
    names = "|".join(sorted({family.told_by.partition("{")[0] for family in families}))
    known = f'__name__=~"{names}"'
    exported = f'count by (exported_namespace, exported_pod) ({{exported_pod!="",{known}}})'
    for label in _OWN:
        exported = f'label_replace({exported}, "{label}", "$1", "exported_{label}", "(.*)")'
    jobs = f"count by (namespace, pod, job) ({{{EVERY_POD},{known}}})"
    return told_apart(
        SYMPTOM,
        (
            (Symptom.EXPORTED, exported),
            (Symptom.UNLABELED, f'count({{pod="",{known}}})'),
            (Symptom.TWICE, f"count by (namespace, pod) ({jobs}) > 1"),
        ),
    )
