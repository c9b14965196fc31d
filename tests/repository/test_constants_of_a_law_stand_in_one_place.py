"""No numeric constant of a law outside `EstimatorConfig`, or a table of the catalog.

The law is what `decide` and `estimate` compute: there the rule is strict. A number in them is 0, 1, 2, a unit, or
mathematics that is listed here; every other one is a field of `estimate/config.py` or `estimate/forecast_config.py`
that says where it comes from. `domain` holds three that both the law and what it reads from have to agree on. By what
`observe` believes and reads signals is in `observe/config.py`; every other number of it, and of the scorecard, is no
law: listed here, by what it is. Of `firsttoken_sizing`, parameters are fields of `parameters.py`, an engine's stand in
its file, a GPU's and a network's in the catalog's data; each other number beside or inside the code is listed here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.fixtures.source import parsed

ROOT = Path(__file__).parents[2]
OPERATOR = ROOT / "operator/src/firsttoken_operator"
SIZING = ROOT / "sizing/src/firsttoken_sizing"
CONFIG = OPERATOR / "estimate/config.py", OPERATOR / "estimate/forecast_config.py"
LAW = sorted(file for name in ("decide", "estimate") for file in (OPERATOR / name).rglob("*.py") if file not in CONFIG)

OBSERVE_CONFIG = OPERATOR / "observe/config.py"
PARAMETERS = SIZING / "parameters.py"
PACKAGES = ("performance", "optimize", "step", "catalog", "engines")

TRIVIAL = {0, 1, 2}
UNITS = {100: "percent", 1000: "milliseconds", 24: "hours of a day", 168: "hours of a week"}
MATHEMATICS = {
    ("forecast/level.py", 3): "the transform of Anscombe adds 3/8 to a count",
    ("forecast/level.py", 8): "the same",
    ("forecast/noise.py", 3): "the mean squared difference of a random walk over windows: 2/3 of one step's",
    ("forecast/season.py", 0.5): "an hourly mean stands at the middle of its hour",
    ("forecast/season.py", 1.5): "and the next one at the middle of the next",
    ("forecast/season.py", 3): "the epoch began on a Thursday",
    ("forecast/season.py", 3600): "seconds of an hour",
    ("tail_capacity.py", 3600): "seconds of an hour",
    ("sentences.py", 101): "words only: 100.3 % must not read as if it had fitted",
    ("sentences.py", 1e-6): "words only: rounding of a percentage",
}
NAMED = {"ANSCOMBE", "HOUR", "WEEKDAY_SHIFT", "_SECONDS_AN_HOUR"}
"""Names of numbers in the law's modules: the only ones, all of them mathematics or units."""

DOMAIN = {
    "ENDPOINT_REMOVAL_SECONDS": "what is rendered sleeps for it, and what decide says of an end counts from it",
    "MAXIMUM_ERROR_SHARE": "observe calls data ErrorsPresent by it, and a rule of decide asks for it again",
    "UNKNOWN_TIME_TO_READY_SECONDS": "operator and replay look ahead by it before there is a decision",
    "UNKNOWN_TIME_TO_WAKE_SECONDS": "the same, where the next replica sleeps",
    "LARGEST_VALUE": "what any measurement may be",
}

REVIEWED = {
    "how exactly a thing is computed, not what": """
        performance/batch_service _SEED _SETTLING_SHARE
        performance/closed_loop _MOST_ROUNDS _SIMULATED_REQUESTS
        performance/closed_loop_varied _PLACES
        performance/decode _TINY _LEAST_LEFT
        performance/disaggregated _SEED _REQUESTS
        performance/lengths _STRATA_EDGES _POINTS_A_STRATUM _CLOSEST_SCORES
        performance/limits _ROUNDING
        performance/line _HALVINGS _CHORDS _LEAST_BASE_SHARE _SMALLEST_MARGIN _TINY
        performance/measured _SAME_LENGTH
        performance/offline _SEARCHED_BATCHES
        performance/poisson _SEED _CHAINS _BISECTIONS
        performance/population _SMALLEST_RATIO _SMALLEST_LOAD _TAIL _MOST_WAITING
        performance/prefix_cache _HALVINGS
        performance/prefill _KEPT_STEPS _FEWEST_BURN_IN _MOST_BURN_IN _MOST_USE _FEWEST_SAMPLES _POOL _POOL_SEED _TINY
        performance/prefill _NEGLIGIBLE_USE _SEVERAL_PROMPTS
        performance/routing _GOLDEN _EVEN_BELOW _MOST_COUNTED _SAME_DECIMALS
        performance/second_moments _BLOCKS_A_LIFETIME _BLOCKS_A_SPREAD_LIFETIME _LIFETIMES _FEWEST_BLOCKS
        performance/second_moments _SMALLEST_MARGIN _LEAST_DISPERSION _TINY
        performance/static_batch _REQUESTS _SEED _BISECTIONS
        optimize/fleet _BELOW
        optimize/load_model _LIGHT_LOAD _FULL _BEYOND _LOADS _RATES _HIGHEST_SHARE
        optimize/mix _SCALE _FIRST_MARGIN
        optimize/prefix_hits _MOST_PASSES _CLOSE
        optimize/pruning _CAREFUL
        step/fit _MOST_ITERATIONS _LONGEST_MOVE _CONVERGED
        """,
    "a unit, or what a word means": """
        performance/offline _SECONDS_PER_HOUR
        performance/pipeline _ACTIVATION_BYTES
        performance/statistics _QUANTILES
        optimize/candidates _EIGHT_BITS
        optimize/cost HOURS_PER_YEAR _HOURS_PER_DAY _SECONDS_PER_YEAR
        optimize/job _SECONDS_PER_HOUR
        optimize/warnings _SIXTEEN_BITS _EIGHT_BITS
        step/modifiers _FREE
        step/prior _ACTIVATION_BYTES
        step/waves _KEY_VALUE_BYTES
        """,
    "what is searched, refused, or said": """
        performance/disaggregated_search MOST_WORKERS
        optimize/alternatives _SAME_COST _TIMES_PERCENT
        optimize/candidates _TENSOR_PARALLEL_CHOICES _PIPELINES_IN_A_SERVER _PIPELINES_OVER_SERVERS
        optimize/checks _MOST_GPUS_OF_A_REPLICA _RATES _MOST_REQUESTS _MOST_HOURS _MOST_MILLISECONDS _LARGEST_PRICE
        optimize/checks _SHORTEST_AMORTIZATION_YEARS _MOST_DRAFTS
        workload REQUESTS_PER_PREFIX
        optimize/infeasible _WITHOUT_WEIGHTS _WITHOUT_A_REQUEST
        optimize/warnings _NVLINK_WANTED_ABOVE_TENSOR_PARALLEL _NVLINK_WANTED_ABOVE_BILLION
        optimize/warnings _NEARLY_IDLE_PERCENT
        step/samples _LARGEST_STEP_TOKENS
        """,
}

SIZING_UNITS = {1e6: "mega", 1e9: "giga", 1e12: "tera", 1024: "kibi", 30: "2**30: GiB", 3600: "hour", 0.5: "half"}
ENGINES = {"sglang", "tensorrt_llm", "vllm"}
"""Modules of `engines` that are a row of the table each: every number in them is a fact of that engine."""

NUMBERS = {
    "limits of a protocol, status codes, time-outs, and how much is read or kept: no figure depends on them": """
        observe/collect 800
        observe/containment 7 8 50 64 150 1024
        observe/history 86400 200
        observe/history_arrivals 60 0.2 600
        observe/nodes 256
        observe/projections 31 300
        observe/prometheus 4 10 200 1024 16
        observe/resources 300
        observe/selectors 4096
        observe/starts 3 30
        observe/session 64 1024 16 7000 33 126 200 300 400 401 403 404 405 407 429 500
        observe/ttft 64
        observe/vector 300 200 3 1024 40
        observe/workloads 400
        catalog/_config 10 9
        catalog/_names 4 8 0.7
        performance/prefill 32
        performance/second_moments 64
        step/select 256
        """,
    "what a number may be: beyond it an exporter is broken": """
        observe/sums 1e6 1.5 1e9
        """,
    "how exactly a thing is computed, not what": """
        observe/bounds 1e-9
        act/scorecard_status 1e-6 1e4
        performance/disaggregated 1e-12
        performance/disaggregated_search 16 5
        performance/measured 6
        performance/prefill 4
        performance/routing 1e-300 1e-12
        performance/second_moments 1e-300
        """,
    "around which times buckets are asked for: the share above a limit needs those next to it only": """
        observe/bounds 0.5 0.25 4
        """,
    "a word or its decimals": """
        observe/diagnosis 3
        act/scorecard_status 3
        """,
    "an order, or places in a row": """
        observe/freshness 3
        performance/table 5 10 15
        """,
    "what a percentile's name says": """
        observe/readiness 0.5 0.9 0.99
        performance/disaggregated 0.9 0.95 0.99
        performance/lengths 0.99
        """,
    "a policy under which nothing is done": """
        observe/snapshot 300 60 900
        """,
    "a unit, bits of a byte, or bits and blocks of a format": """
        act/scorecard 3600
        catalog/_parameters 256
        catalog/_quantization 8 4
        catalog/architecture 4
        catalog/interconnect 8
        catalog/precision 128 16 32
        engines/memory 8 16
        engines/peak_memory 8
        engines/spec 16
        step/modifiers 8
        """,
    "how a model is built, as its config.json or its paper says": """
        catalog/_layers 4 6
        catalog/_parameters 3 4 16
        """,
    "a field of a dataclass of parameters, with its source beside it": """
        engines/scheduler 32768
        engines/spec 3.5
        performance/closed_loop 0.0025 360
        """,
    "mathematics": """
        performance/work 4
        """,
    "the least that is accepted": """
        optimize/checks 1e-3
        """,
}
"""Numbers by module, with the reason why they are no constants of a law."""

SOURCES = ("chosen", "measured", "tuned", "derived", "a peer's", "the same")
"""Words with which a docstring of a config says where a value comes from."""
FEWEST_WORDS = 4
"""A docstring of fewer says no more than that: no unit, no meaning."""


def number(node: ast.AST) -> float | None:
    """The number that a literal is."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    return None


def numbers(tree: ast.AST) -> set[float]:
    """Every numeric literal below a node."""
    return {value for node in ast.walk(tree) if (value := number(node)) is not None}


def named(tree: ast.Module) -> Iterator[str]:
    """Names that a module gives to numbers."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value and numbers(statement.value):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for node in (each for target in targets for each in ast.walk(target)):
                if isinstance(node, ast.Name):
                    yield node.id


def read(file: Path) -> ast.Module:
    return parsed(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", LAW, ids=lambda file: file.relative_to(OPERATOR).as_posix())
def test_the_law_has_no_number_of_its_own(file: Path) -> None:
    tree = read(file)
    place = file.relative_to(OPERATOR / "estimate" if "estimate" in file.parts else OPERATOR / "decide").as_posix()
    explained = TRIVIAL | UNITS.keys() | {value for where, value in MATHEMATICS if where == place}

    assert numbers(tree) <= explained, "make it a field of EstimatorConfig, with its source"
    assert set(named(tree)) <= NAMED, "make it a field of EstimatorConfig, with its source"


def test_what_is_explained_is_still_there() -> None:
    used = {
        (where, value)
        for where, value in MATHEMATICS
        for file in LAW
        if file.as_posix().endswith(where) and value in numbers(read(file))
    }

    assert used == MATHEMATICS.keys()


def fields(files: Iterable[Path] = CONFIG) -> dict[str, str]:
    """Fields of the configs that hold numbers, with their docstrings."""
    found = {}
    for group in (node for file in files for node in read(file).body if isinstance(node, ast.ClassDef)):
        for field, after in zip(group.body, [*group.body[1:], ast.Pass()], strict=True):
            if isinstance(field, ast.AnnAssign) and field.value and numbers(field.value):
                assert isinstance(field.target, ast.Name)
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                found[f"{group.name}.{field.target.id}"] = str(after.value.value) if is_text else ""
    return found


TABLES = {CONFIG: 90, (OBSERVE_CONFIG,): 10, (PARAMETERS,): 20}


@pytest.mark.parametrize(("files", "least"), TABLES.items(), ids=lambda given: str(given)[-25:])
def test_every_constant_says_what_it_is_and_where_its_value_comes_from(files: tuple[Path, ...], least: int) -> None:
    said = fields(files)
    silent = [name for name, text in said.items() if not any(word in text.lower() for word in SOURCES)]
    mute = [name for name, text in said.items() if len(text.split()) < FEWEST_WORDS]

    assert len(said) > least
    assert silent == []
    assert mute == []


def test_every_constant_is_used() -> None:
    sources = [file for root in (OPERATOR, SIZING) for file in root.rglob("*.py")]
    used = {node.attr for file in sources for node in ast.walk(read(file)) if isinstance(node, ast.Attribute)}

    assert {name.partition(".")[2] for name in fields(chain(*TABLES))} <= used


def test_constants_of_the_domain_are_reviewed() -> None:
    found = {name for file in (OPERATOR / "domain").glob("*.py") for name in named(read(file))}

    assert found == DOMAIN.keys()


@pytest.mark.parametrize("package", ["performance", "optimize", "step"])
def test_constants_of_the_sizing_models_are_reviewed(package: str) -> None:
    found = {
        f"{package}/{file.relative_to(SIZING / package).with_suffix('').as_posix()} {name}"
        for file in (SIZING / package).rglob("*.py")
        for name in named(read(file))
    }
    lines = [line.split() for text in REVIEWED.values() for line in text.splitlines()]
    reviewed = {f"{module} {name}" for module, *names in filter(None, lines) for name in names}

    assert found == {each for each in reviewed if each.startswith(f"{package}/")}


def listed() -> set[tuple[str, float]]:
    """Modules and numbers of `NUMBERS`."""
    lines = filter(None, (line.split() for text in NUMBERS.values() for line in text.splitlines()))
    return {(module, float(value)) for module, *values in lines for value in values}


def loose(root: Path, file: Path) -> set[tuple[str, float]]:
    """Numbers of a module that no name of `REVIEWED` holds, with the module."""
    place = file.relative_to(root).with_suffix("").as_posix()
    is_reviewed = place.partition("/")[0] in {"performance", "optimize", "step"}
    statements = [
        statement
        for statement in read(file).body
        if not (is_reviewed and isinstance(statement, ast.Assign | ast.AnnAssign))
    ]
    found = {value for statement in statements for value in numbers(statement)}
    units = TRIVIAL | UNITS.keys() | (SIZING_UNITS.keys() if root == SIZING else set())
    return {(place, value) for value in found - units}


def test_every_other_number_of_observe_the_scorecard_and_the_sizing_is_no_constant_of_a_law() -> None:
    """Inside functions too, and fields of dataclasses."""
    observed = [*(OPERATOR / "observe").glob("*.py"), *(OPERATOR / "act").glob("scorecard*.py")]
    sized = [file for name in PACKAGES for file in (SIZING / name).rglob("*.py") if file.stem not in ENGINES]
    found = {each for file in observed if file != OBSERVE_CONFIG for each in loose(OPERATOR, file)}
    found |= {each for file in sized for each in loose(SIZING, file)}

    assert found - listed() == set(), "make it a field of a config, or an entry of the catalog, with its source"
    assert listed() - found == set(), "it is not there any more"


def test_a_number_inside_a_function_is_found(tmp_path: Path) -> None:
    (tmp_path / "step").mkdir()
    file = tmp_path / "step/new.py"
    file.write_text("NAMED = 7.0\n\n\ndef law(x: float = 8.0) -> float:\n    return 9.0 * x if x > 2 else -9.5\n")

    assert loose(tmp_path, file) == {("step/new", 8.0), ("step/new", 9.0), ("step/new", 9.5)}
