"""No numeric constant of a law outside `EstimatorConfig`, or a table of the catalog.

The law is what `decide` and `estimate` compute: there the rule is strict. A number in them is 0, 1, 2, a unit, or
mathematics that is listed here; every other one is a field of `estimate/config.py` or `estimate/forecast_config.py`
that says where it comes from. `domain` holds two that both the law and what it reads from have to agree on. `observe`,
`act` and `run` hold time-outs, limits of protocols and what is kept, which are no law. Of `firsttoken_sizing`,
parameters of a model belong into data files or a dataclass of parameters; each constant that stands beside the code is
listed here with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPERATOR = ROOT / "operator/src/firsttoken_operator"
SIZING = ROOT / "sizing/src/firsttoken_sizing"
CONFIG = OPERATOR / "estimate/config.py", OPERATOR / "estimate/forecast_config.py"
LAW = sorted(file for name in ("decide", "estimate") for file in (OPERATOR / name).rglob("*.py") if file not in CONFIG)

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
    "MAXIMUM_ERROR_SHARE": "observe calls data ErrorsPresent by it, and a rule of decide asks for it again",
    "UNKNOWN_TIME_TO_READY_SECONDS": "operator and replay look ahead by it before there is a decision",
    "LARGEST_VALUE": "what any measurement may be",
}

REVIEWED = {
    "how exactly a thing is computed, not what": """
        performance/batch_service _SEED _SETTLING_SHARE
        performance/closed_loop _MOST_ROUNDS _SIMULATED_REQUESTS
        performance/decode _TINY _LEAST_LEFT
        performance/disaggregated _SEED _REQUESTS
        performance/lengths _STRATA_EDGES _POINTS_A_STRATUM _CLOSEST_SCORES
        performance/limits _ROUNDING
        performance/line _HALVINGS _CHORDS _LEAST_BASE_SHARE _SMALLEST_MARGIN _TINY
        performance/measured _SAME_LENGTH
        performance/offline _SEARCHED_BATCHES
        performance/poisson _SEED _CHAINS _BISECTIONS
        performance/population _SMALLEST_RATIO _SMALLEST_LOAD _TAIL _MOST_WAITING
        performance/prefill _KEPT_STEPS _FEWEST_BURN_IN _MOST_BURN_IN _MOST_USE _FEWEST_SAMPLES _POOL _POOL_SEED _TINY
        performance/prefill _NEGLIGIBLE_USE _SEVERAL_PROMPTS
        performance/routing _GOLDEN _EVEN_BELOW _MOST_COUNTED _SAME_DECIMALS
        performance/second_moments _BLOCKS_A_LIFETIME _BLOCKS_A_SPREAD_LIFETIME _LIFETIMES _FEWEST_BLOCKS
        performance/second_moments _SMALLEST_MARGIN _LEAST_DISPERSION _TINY
        performance/static_batch _REQUESTS _SEED _BISECTIONS
        optimize/fleet _BELOW
        optimize/load_model _LIGHT_LOAD _FULL _BEYOND _LOADS _RATES _HIGHEST_SHARE
        optimize/pruning _CAREFUL
        step/fit _NOISE _MOST_ITERATIONS _LONGEST_MOVE _CONVERGED
        """,
    "a unit, or what a word means": """
        performance/offline _SECONDS_PER_HOUR
        performance/pipeline _ACTIVATION_BYTES
        performance/statistics _QUANTILES
        optimize/candidates _EIGHT_BITS
        optimize/cost HOURS_PER_YEAR _HOURS_PER_DAY _SECONDS_PER_YEAR
        optimize/job _SECONDS_PER_HOUR
        optimize/warnings _SIXTEEN_BITS _EIGHT_BITS
        step/bands _PERCENT
        step/modifiers _FREE
        step/prior _ACTIVATION_BYTES
        step/waves _KEY_VALUE_BYTES
        """,
    "what is searched, refused, or said": """
        performance/disaggregated _MOST_WORKERS
        optimize/alternatives _SAME_COST _TIMES_PERCENT
        optimize/candidates _TENSOR_PARALLEL_CHOICES _PIPELINES_IN_A_SERVER _PIPELINES_OVER_SERVERS
        optimize/checks _MOST_GPUS_OF_A_REPLICA _RATES _MOST_REQUESTS _MOST_HOURS _MOST_MILLISECONDS _LARGEST_PRICE
        optimize/checks _SHORTEST_AMORTIZATION_YEARS
        optimize/infeasible _WITHOUT_WEIGHTS _WITHOUT_A_REQUEST
        optimize/search _WIDEST_BAND_PERCENT
        optimize/warnings _NVLINK_WANTED_ABOVE_TENSOR_PARALLEL _NVLINK_WANTED_ABOVE_BILLION _WIDE_BAND_PERCENT
        optimize/warnings _NEARLY_IDLE_PERCENT
        step/samples _LARGEST_STEP_TOKENS
        """,
    "a parameter of a model, one for all engines and GPUs, so no row of a table: its source stands beside it": """
        performance/closed_loop LATENCY_MARGIN
        performance/lengths _STEEPEST_TAIL
        performance/poisson MAX_UTILIZATION
        performance/static_batch MAX_UTILIZATION
        performance/work TYPICAL_DEVIATION
        optimize/error_band POISSON_MODEL_ERROR_PERCENT FEWEST_POINTS BAND_OF_ONE_POINT_PERCENT
        optimize/from_points _ALONE
        step/bands EASIEST_PERCENT
        step/fit CONSTANT_SPREAD SHAPE_SPREAD
        step/model MAX_BATCH
        step/modifiers _SPARSE_INDEX_BITS _SPARSE_PRODUCT_SHARE
        step/prior TYPICAL_PROMPT_TOKENS _MLA_HEAD_DIM _ALL_REDUCES_PER_LAYER _GPUS_PER_SERVER
        step/select _TYPICAL_LENGTHS
        step/waves _MULTIPROCESSORS_ASSUMED _GROUPED_FROM_HEADS_A_GROUP _BLOCKS_A_GROUP
        """,
}

SOURCES = ("chosen", "measured", "tuned", "derived", "a peer's", "the same")
"""Words with which a docstring of the config says where a value comes from."""


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
    return ast.parse(file.read_text(encoding="utf-8"))


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


def fields() -> dict[str, str]:
    """Fields of the config that hold numbers, with their docstrings."""
    found = {}
    for group in (node for file in CONFIG for node in read(file).body if isinstance(node, ast.ClassDef)):
        for field, after in zip(group.body, [*group.body[1:], ast.Pass()], strict=True):
            if isinstance(field, ast.AnnAssign) and field.value and numbers(field.value):
                assert isinstance(field.target, ast.Name)
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                found[f"{group.name}.{field.target.id}"] = str(after.value.value) if is_text else ""
    return found


def test_every_constant_says_where_its_value_comes_from() -> None:
    silent = [name for name, text in fields().items() if not any(word in text.lower() for word in SOURCES)]

    assert len(fields()) > 90
    assert silent == []


def test_every_constant_is_used() -> None:
    users = [*LAW, *(file for name in ("act", "run") for file in (OPERATOR / name).rglob("*.py"))]
    used = {node.attr for file in users for node in ast.walk(read(file)) if isinstance(node, ast.Attribute)}

    assert {name.partition(".")[2] for name in fields()} <= used


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
