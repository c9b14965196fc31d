"""The judge of the capacity inside the SLA: its questions bind, and its answers have not seen what they are asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.step import shipped
from firsttoken_sizing.step.knowledge import fit_configuration

DATA = Path(__file__).resolve().parents[2].parent / "shared/data"


@pytest.fixture(scope="module", autouse=True)
def _data() -> None:
    if not (DATA / "nim_dli.csv").is_file() or not (DATA / "aic_silicon_agg.csv").is_file():
        pytest.skip("needs ../shared/data/nim_dli.csv and aic_silicon_agg.csv")


def test_every_limit_binds_and_is_kept_by_the_truth_alone() -> None:
    from evaluation.curves import nim_curves, questions

    asked = list(questions(nim_curves(DATA)[0]))

    assert {a.name for a in asked} >= {"ttft mean", "ttft p95", "itl mean", "end_to_end mean", "end_to_end p95"}
    for one in asked:
        faster = [p for p in one.dense if p.requests_per_second > one.truth.requests_per_second]
        assert faster
        assert meets(one.truth, one.sla) is True
        assert not any(meets(p, one.sla) for p in faster)
        assert not one.is_broken(one.truth.concurrency or 1.0)
        assert one.is_broken(one.dense[-1].concurrency or 1.0)


def test_knowledge_without_something_has_neither_its_fit_nor_its_points() -> None:
    from evaluation import without
    from evaluation.curves import nim_curves, silicon_curves

    for curve in (nim_curves(DATA)[0], silicon_curves(DATA)[0]):
        key = without.pinned_fit(curve)
        assert key in shipped().fits
        sibling = without.without_configuration(DATA, curve)
        assert key not in sibling.fits
        name = (curve.engine.value, curve.release)
        assert sibling.calibrations[name] != shipped().calibrations[name]
        assert not any(of[0].model == key[0].model for of in without.without_model(DATA, curve).fits)
        assert not any(of[0].gpu == key[0].gpu for of in without.without_gpu(DATA, curve).fits)
        fit = without.without_workload(DATA, curve)
        assert fit is not None
        assert fit.fits[key].points < shipped().fits[key].points
        assert fit.fits[key].median_error_percent > 0
        release = without.without_release(curve)
        assert not release.is_calibrated(curve.engine, curve.release)
        assert not any(of[1:] == (curve.engine, curve.release) for of in release.fits)


def test_an_answer_of_the_judge_is_that_of_size() -> None:
    from evaluation import capacity
    from evaluation.curves import nim_curves, questions
    from firsttoken_sizing import Arrivals, Hardware, SizingRequest, Workload, size

    curve = next(c for c in nim_curves(DATA) if c.key.precision == "FP8")
    asked = next(questions(curve))
    found = capacity.answered(asked, "nothing", shipped())
    assert found.evaluation is not None
    request = SizingRequest(
        model=curve.key.model,
        workload=Workload(curve.input_tokens, curve.output_tokens, peak_requests_per_second=1.0),
        sla=asked.sla,
        hardware=Hardware(gpus=(curve.key.gpu,)),
        arrivals=Arrivals.CLOSED_LOOP,
        engine=curve.engine,
        engine_release=curve.engine.spec.release(curve.release).label,
        pinned=curve.key,
    )

    sizing = size(request)

    assert sizing.requests_per_second_per_replica == found.evaluation.capacity
    assert found.error_percent < 60


def test_a_refusal_is_an_error_of_the_whole_capacity_and_outside_every_band() -> None:
    from evaluation.capacity import answered
    from evaluation.curves import nim_curves, questions

    asked = next(questions(nim_curves(DATA)[0]))
    refused = replace(answered(asked, "nothing", shipped()), evaluation=None)

    assert refused.error_percent == 100
    assert not refused.is_covered
    assert not refused.is_broken


def test_the_rows_have_their_goals() -> None:
    from evaluation.capacity import GIVEN, _row, of_curve
    from evaluation.curves import nim_curves

    answers = list(of_curve(DATA, nim_curves(DATA)[0], ("workload",)))
    row, plain = _row("NIM", "workload", answers), _row("NIM", GIVEN, answers)

    names = ["median", "mean", "median half-width of the band", "coverage", "coverage, at most"]
    assert [f.name for f in row.figures] == [*names, "refused, which has no band", "broken"]
    assert [f.goal for f in row.figures] == [6.0, 8.0, None, 88.0, 93.0, None, 5.0]
    assert plain.reached
    assert replace(row, figures=plain.figures).reached


def test_a_configuration_is_named_by_its_architecture() -> None:
    from evaluation import without
    from evaluation.curves import nim_curves

    curve = nim_curves(DATA)[0]

    assert without.pinned_fit(curve)[0] == fit_configuration(resolve_model(curve.key.model), curve.key)
