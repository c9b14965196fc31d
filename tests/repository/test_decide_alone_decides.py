"""`decide` alone decides: what concludes something about replicas, owners or readiness to act stands there.

Other packages tell facts (what a source answered, what is not there, what became of a write) or compare with what was
decided. So each may name few reasons, and each of them is listed here with why it is no decision. A reason that is
needed in another package, or a value of a decision that is made there, is a decision that strays.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache

import pytest

from tests.fixtures.source import modules, parsed

FACTS = {
    "estimate": {"a proof of no demand is read": "IDLE"},
    "observe": {
        "why a number is not known": """
            BAD_RESPONSE NOT_A_NUMBER NOT_ENOUGH_SAMPLES NO_READY_PODS NO_SERIES OUT_OF_RANGE PARTIAL_RESPONSE
            SERVER_ERROR SOURCE_MISCONFIGURED SOURCE_UNREACHABLE THROTTLED TOO_MANY_SERIES UNAUTHORIZED
            """,
        "how far the data can be trusted; what that allows is `domain.measurement`": """
            ERRORS_PRESENT IDLE MISSING PARTIAL PRESENT RECOVERING STALE
            """,
        "what metrics do not tell because of how a server is started or scraped": """
            EXPORTED_LABELS FAMILY_CHANGING LABEL_MISMATCH LOW_RESOLUTION SCRAPE_TOO_SLOW SEVERAL_MODELS
            TTFT_NOT_OBSERVED TWO_FAMILIES TWO_JOBS UNKNOWN_RUNTIME
            """,
        "what is not there, not allowed, cannot be read or was not sized yet": """
            INVALID_SPEC TARGET_KIND_NOT_ALLOWED TARGET_NOT_FOUND TARGET_UNREADABLE UNKNOWN
            """,
    },
    "run": {
        "why a source was not read": "BAD_RESPONSE SOURCE_NOT_CONFIGURED SOURCE_UNREACHABLE",
        "why the sizing model gave no size": "INVALID_SPEC UNKNOWN_GPU UNKNOWN_MODEL",
        "what became of a rendering is read": "RENDERED ROLLOUT_PENDING",
        "a decision that raised is counted": "DECISION_FAILED",
        "what limited an increase before a restart is read": "SCALE_UP_STEP",
    },
    "act": {
        "what became of a write, or which live object forbids it": """
            CONFLICT RENDERED ROLLOUT_PENDING TARGET_NOT_FOUND WRITE_CONFLICT WRITE_DENIED WRITE_FAILED WRITES_PAUSED
            """,
        "which Event tells of a change that was decided or seen": """
            FOREIGN_WRITE METRICS_LOST METRICS_RECOVERED SCALED_DOWN SCALED_UP
            """,
        "a judgement is read, to show it or not": """
            AS_SIZED ERRORS_PRESENT INVALID_SPEC LEARNED MISSING SCALED_TO_ZERO UNKNOWN
            """,
        "its Event is no warning": "ADVISORY PAUSED TARGET_AT_ZERO",
    },
    "api": {},
    "cli": {},
    "families": {},
    "runtimes": {},
}
"""Reasons that each package beside `decide` and `domain` may name, by why naming them decides nothing."""

CONCLUSIONS = {
    "Admission", "CostChange", "Decision", "ForeignWrite", "Judgement", "Owned", "Proposal", "Unscalable", "Waiting",
}  # fmt: skip
"""Values that only a decision makes."""

JUDGED = {"conflict", "sized", "policy", "stuck", "guest_of"}
"""Fields of the snapshot of a resource and of its target that are judged after they were observed."""

MAKERS = {"replace": JUDGED, "Target": JUDGED, "ResourceSnapshot": JUDGED - {"sized", "policy"}}
"""Calls that make such a snapshot, and what only a decision may give it: size and policy are facts at first."""


def package_of(module: str) -> str:
    name, _, rest = module.partition("/")
    return rest.partition("/")[0] if name == "firsttoken_operator" else name


@cache
def named() -> dict[str, set[str]]:
    """The reasons that the source of each package names."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason":
                found[package_of(module)].add(node.attr)
    return found


def made(node: ast.Call) -> set[str]:
    """Conclusions of a call: a value of a decision, or a field of a snapshot that is judged."""
    if not isinstance(node.func, ast.Name):
        return set()
    name, words = node.func.id, {keyword.arg for keyword in node.keywords if keyword.arg}
    return words & MAKERS[name] if name in MAKERS else {name} & CONCLUSIONS


@pytest.mark.parametrize("package", FACTS)
def test_a_package_names_the_reasons_of_facts_only(package: str) -> None:
    listed = [name for names in FACTS[package].values() for name in names.split()]

    assert len(listed) == len(set(listed)), "one why for each"
    assert named()[package] == set(listed), "move the decision, or say here why it is none"


def test_every_package_of_the_operator_is_listed() -> None:
    packages = {package_of(module) for module, _ in modules() if module.startswith("firsttoken_operator/")}

    assert packages - {"decide", "domain", "__init__.py"} == FACTS.keys()


def test_conclusions_are_made_in_decide() -> None:
    strays = {
        (module, name)
        for module, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for name in made(node)
        if package_of(module) != "decide"
    }

    assert strays == set()


def test_the_check_finds_a_conclusion_elsewhere() -> None:
    text = "replace(resource, sized=none)\nJudgement(kind, None, reason, '')\nreplace(resource, target=other)\n"
    text += "Target(uid, stuck=3)\nResourceSnapshot(policy=declared, guest_of=name)\nreplace(resource, policy=other)"
    calls = [node for node in ast.walk(parsed(text)) if isinstance(node, ast.Call)]

    assert sorted(name for call in calls for name in made(call)) == [
        "Judgement",
        "guest_of",
        "policy",
        "sized",
        "stuck",
    ]
