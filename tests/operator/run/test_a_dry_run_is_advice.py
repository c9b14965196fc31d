"""A dry run advises as `scaling.mode: Advisory` does: who scales the target today is no rival of advice."""

from __future__ import annotations

import time

from firsttoken_operator.domain import Reason
from firsttoken_operator.run.settings import Settings
from firsttoken_operator.run.sizer import Sizer
from tests.operator.act.fake_cluster import FakeCluster
from tests.operator.observe.bodies import autoscaler
from tests.operator.run.sizings import settled
from tests.operator.run.test_a_new_loop_goes_on_where_the_last_one_ended import REF, process_that_finds


async def test_a_dry_run_beside_an_autoscaler_has_no_conflict_and_writes_no_replicas() -> None:
    reasons = {}
    for advisory in (True, False):
        cluster = FakeCluster({REF: {"status": {}}})
        sizer = Sizer()
        loop, parts = process_that_finds({}, cluster, Settings(advisory=advisory), sizer)
        await settled(sizer, parts.store)
        parts.store.feed("HorizontalPodAutoscaler", None, autoscaler("hpa"))
        (decision,) = await loop.tick(time.monotonic())
        sizer.close()
        reasons[advisory] = decision.reason
        assert "patch_scale" not in cluster.writes()

    assert reasons[False] is Reason.CONFLICT
    assert reasons[True] is not Reason.CONFLICT
