"""A pool over the week: needs in every slot, who gets less and when, and the servers that would do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_lab.plan.cost import cheapest_servers, week_cost
from firsttoken_lab.plan.load import SLOTS, Floats
from firsttoken_lab.plan.members import Member
from firsttoken_lab.plan.pools import PlannedPool, planned_pool, undeclared_pool
from firsttoken_lab.plan.week import PoolWeek, pool_week, servers_for
from firsttoken_operator.api.documents import parse_documents
from firsttoken_operator.decide import peaks
from firsttoken_operator.observe.tenancy import Tenancy
from firsttoken_sizing.optimize.cost import HOURS_PER_YEAR
from tests.fixtures.hypothesis_scale import examples
from tests.operator.decide.builders import POLICY
from tests.operator.decide.test_a_pool_says_what_its_peaks_need import member as peak_member

A_REPLICA = 5.0
"""Requests a second that one replica of the builders carries."""
FREE = replace(POLICY, min_replicas=0)


def pool(spec: str, namespaces: str = "") -> PlannedPool:
    text = f"apiVersion: firsttoken.dev/v1alpha1\nkind: GPUPool\nmetadata: {{name: h100}}\nspec: {spec}\n{namespaces}"
    documents = parse_documents(text)
    tenancy = Tenancy(documents.pools, documents.namespaces)
    return planned_pool(documents.pools["h100"], tenancy, ("call-center", "lab"))


def on_prem(gpus: int) -> PlannedPool:
    return pool(f"{{location: OnPrem, gpu: H100-SXM-80GB, peakGPUs: {gpus}}}")


def member(name: str, replicas: int, gpus: int = 1, **changes: object) -> Member:
    """One whose declared peak needs so many replicas."""
    known = peak_member(name, replicas, gpus, **{"policy": FREE, **changes})
    sizing = cast(Any, SimpleNamespace(feasible=True, peak_requests_per_second=A_REPLICA * replicas))
    return Member(cast(Any, None), "h100", sizing, known, ())


def flat(replicas: float) -> Floats:
    return np.full(SLOTS, A_REPLICA * replicas)


def between(begin: int, end: int, replicas: float, otherwise: float = 1.0) -> Floats:
    rates = flat(otherwise)
    rates[begin:end] = A_REPLICA * replicas
    return rates


def week(of: PlannedPool, *loads: tuple[Member, Floats | None]) -> PoolWeek:
    return pool_week(of, [m for m, _ in loads], {m.uid: load for m, load in loads})


def test_needs_are_stacked_and_peaks_at_different_hours_are_not_added_up() -> None:
    found = week(on_prem(16), (member("day", 10), between(30, 60, 10)), (member("night", 10), between(70, 90, 10)))

    assert found.needs.shape == (2, SLOTS)
    assert (found.gpus[0], found.gpus[40], found.gpus[80], found.gpus.max()) == (2, 11, 11, 11)
    assert (found.busiest, found.fits, found.servers, found.servers_to_buy) == (30, True, 2, 0)
    # Together they would need more than there is, and the plan says that, too.
    assert (found.gpus_at_all_peaks, found.fits_at_all_peaks, found.servers_at_all_peaks) == (20, False, 3)
    assert found.declared_shortages[0].short_gpus == 4


def test_a_lower_priority_lacks_what_is_short_and_only_then() -> None:
    high, low = member("high", 12, priority=10), member("low", 8)
    found = week(on_prem(16), (high, between(100, 104, 12)), (low, flat(8)))
    (short,) = found.short_times

    assert (short.begins, short.ends, short.need_gpus, short.short_gpus) == (100, 104, 20, 4)
    assert [(lack.uid, lack.gpus) for lack in short.lacks] == [("low", 4)]
    assert short.lacks[0].ttft_seconds is not None
    assert short.lacks[0].ttft_seconds > 0.3
    assert (found.short_hours("low"), found.short_hours("high")) == (1.0, 0.0)
    assert (found.fits, found.servers, found.servers_to_buy) == (False, 3, 1)


def test_what_is_expected_of_a_lack_is_of_its_busiest_slot() -> None:
    rates = flat(1)
    rates[10], rates[11] = A_REPLICA * 19.1, A_REPLICA * 20
    (worst,) = week(on_prem(16), (member("a", 20), rates)).short_times[0].lacks
    (alone,) = week(on_prem(16), (member("a", 20), between(11, 12, 20))).short_times[0].lacks

    assert worst == alone


def test_a_replica_stays_on_one_server() -> None:
    # 24 GPUs, of which replicas of 6 can use 18: on no server is there room for two.
    found = week(on_prem(24), (member("odd", 4, 6), None))

    assert (found.gpus.max(), found.fits, found.servers, found.servers_to_buy) == (24, False, 4, 1)


def test_servers_are_packed_with_small_replicas_beside_large_ones() -> None:
    found = week(on_prem(16), (member("large", 3, 4), None), (member("small", 4), None))

    assert (found.gpus.max(), found.fits, found.servers) == (16, True, 2)


def test_a_quota_is_kept_also_where_gpus_are_free() -> None:
    spec = """{location: OnPrem, gpu: H100-SXM-80GB, peakGPUs: 32, tenants: [
      {name: research, quotaGPUs: 4, namespaceSelector: {matchLabels: {team: research}}},
      {name: rest, namespaceSelector: {}}]}"""
    labelled = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: lab, labels: {team: research}}\n"
    of_lab = member("a", 6, namespace="lab")
    (lack,) = week(pool(spec, labelled), (of_lab, None)).short_times[0].lacks
    elsewhere = week(pool(spec, labelled), (member("a", 6), None))

    rented = week(pool(spec.replace("OnPrem", "Cloud").replace("peakGPUs: 32, ", ""), labelled), (of_lab, None))

    assert lack.gpus == 2
    assert elsewhere.fits
    assert (rented.fits, rented.short_times[0].lacks[0].gpus) == (False, 2)


def test_where_no_number_is_declared_it_says_what_is_needed_and_not_that_it_fits() -> None:
    of_a_gpu = week(undeclared_pool("H100-SXM-80GB", 8), (member("a", 20), None))
    bought = week(pool("{location: OnPrem, gpu: H100-SXM-80GB}"), (member("a", 20), None))

    assert (of_a_gpu.fits, of_a_gpu.servers, of_a_gpu.servers_to_buy) == (None, 3, None)
    assert (bought.fits, bought.servers, bought.servers_to_buy) == (None, 3, 3)


def test_minimum_and_maximum_bind_a_week() -> None:
    bound = member("a", 20, policy=replace(POLICY, min_replicas=3, max_replicas=6))
    found = week(on_prem(16), (bound, between(5, 6, 20, otherwise=0)))

    assert (found.gpus.min(), found.gpus.max()) == (3, 6)


def test_a_pool_with_nothing_in_it_fits() -> None:
    found = week(on_prem(16))

    assert (found.fits, found.gpus.max(), found.servers, found.declared_shortages) == (True, 0, 0, ())


@pytest.mark.parametrize(("busy_share", "servers"), [(0.2, 1), (0.4, 1), (0.43, 2), (1.0, 2)])
def test_a_server_is_owned_if_its_gpus_are_busy_for_longer_than_the_break_even_share(
    busy_share: float, servers: int
) -> None:
    # 8 GPUs all the time, 8 more for a share of it. A server costs 0.42 of what its GPUs cost rented all year.
    gpus = np.full(1000, 8)
    gpus[: int(1000 * busy_share)] = 16

    assert cheapest_servers(gpus, 8, 0.42 * 8, 1.0) == servers
    costs = [n * 0.42 * 8 + np.maximum(0, gpus - 8 * n).mean() for n in range(4)]
    assert int(np.argmin(costs)) == servers


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from((1, 2, 3, 4, 6, 8, 12, 16))), max_size=5))
@settings(max_examples=examples(60), deadline=None)
def test_the_servers_are_the_fewest_that_the_ledger_finds_enough(sizes: list[tuple[int, int]]) -> None:
    members = [member(f"m{i}", replicas, gpus) for i, (replicas, gpus) in enumerate(sizes)]
    of = on_prem(8)
    state = peaks(of.shared, [m.resource for m in members])
    found = servers_for(of, [state])

    def hold(servers: int) -> bool:
        return all(p.granted == p.wanted for p in peaks(of.with_servers(servers), [m.resource for m in members]))

    assert hold(found)
    assert not any(hold(servers) for servers in range(found))
    assert -(-sum(n * gpus for n, gpus in sizes) // 8) <= found <= sum(n * -(-gpus // 8) for n, gpus in sizes)


def test_a_base_is_paid_as_reserved_and_what_is_above_it_on_demand_or_on_spot() -> None:
    prices = '{gpuHour: "4", reservedGPUHour: "2", spotGPUHour: "1"}'
    rented = pool(f"{{location: Cloud, gpu: H100-SXM-80GB, baseGPUs: 4, burstGPUs: 60, pricing: {prices}}}")
    # 2 GPUs all week, 10 for a quarter of it: so 4 are always paid, and 6 more for a quarter of the time.
    found = week_cost(week(rented, (member("a", 10), between(0, SLOTS // 4, 10, otherwise=2.0))))

    assert found is not None
    assert found.per_year == pytest.approx(HOURS_PER_YEAR * (4 * 2 + 6 / 4 * 4))
    assert found.per_year_spot == pytest.approx(HOURS_PER_YEAR * (4 * 2 + 6 / 4 * 1))
    assert found.per_year_static == pytest.approx(HOURS_PER_YEAR * 10 * 2)
    # Busy for more than half of the time are two.
    assert found.reserve is not None
    assert (found.reserve.gpus, found.reserve.break_even_percent) == (2, 50.0)
    assert found.reserve.per_year == pytest.approx(HOURS_PER_YEAR * (2 * 2 + 8 / 4 * 4))


@pytest.mark.parametrize("prices", ['{gpuHour: "4"}', '{gpuHour: "4", reservedGPUHour: "4"}'])
def test_a_reserved_gpu_that_costs_no_less_is_not_advised(prices: str) -> None:
    rented = pool(f"{{location: Cloud, gpu: H100-SXM-80GB, baseGPUs: 4, burstGPUs: 60, pricing: {prices}}}")
    found = week_cost(week(rented, (member("a", 10), flat(10))))

    assert found is not None
    assert (found.reserve, found.per_year_spot) == (None, None)
    assert found.per_year == pytest.approx(HOURS_PER_YEAR * 10 * 4)
