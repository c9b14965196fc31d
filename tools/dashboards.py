"""Writes the chart's Grafana dashboards, with Grafana's own SDK: one of the whole fleet, one of a deployment.

python -m tools.dashboards

Every metric in them is the operator's own or one of a metric family; a test asks a real Prometheus every query.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from firsttoken_operator.families import FAMILIES
from firsttoken_operator.families.promql import EVERY_POD

FOLDER = Path(__file__).resolve().parent.parent / "helm/firsttoken/files/dashboards"
SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
RATE = "[$__rate_interval]"
ONE = '{namespace="$namespace",name="$name"}'
PODS = 'namespace="$namespace",pod=~"$workload-.*"'
_WIDTH, _STAT_WIDTH = 12, 4
_HELD = {
    "0": models.ValueMappingResult(text="False", color="red", index=1),
    "1": models.ValueMappingResult(text="True", color="green", index=0),
}

_Chart = timeseries.Panel | stat.Panel | statetimeline.Panel | table.Panel


def _over_time(expr: str, letter: str = "A") -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).ref_id(letter).range().datasource(SOURCE)


@dataclass(frozen=True, slots=True)
class Chart:
    """One panel over the time: its queries by what the legend calls them."""

    title: str
    about: str
    queries: Mapping[str, str]
    unit: str = "short"

    def build(self) -> _Chart:
        """Lines; a limit is drawn red and dashed."""
        panel = timeseries.Panel().span(_WIDTH).height(8).min(0).line_width(1).fill_opacity(5)
        panel = panel.legend(
            common_builders.VizLegendOptions().show_legend(True).placement(common.LegendPlacement.BOTTOM)
        )
        panel = panel.tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)).unit(self.unit)
        panel = panel.title(self.title).description(self.about).datasource(SOURCE)
        dashed = models.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [8, 6]})
        red = models.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": "red"})
        for name in self.queries:
            if name.startswith("limit"):
                panel = panel.override_by_name(name, [dashed, red])
        for letter, (legend, expr) in zip("ABCDEFGH", self.queries.items(), strict=False):
            panel = panel.with_target(_over_time(expr, letter).legend_format(legend))
        return panel


@dataclass(frozen=True, slots=True)
class Figure:
    """One number, green up to the first of the thresholds."""

    title: str
    about: str
    query: str
    unit: str = "short"
    red_above: float | None = None

    def build(self) -> _Chart:
        """A number with its history behind it."""
        steps = [models.Threshold(value=None, color="green" if self.red_above is not None else "text")]
        if self.red_above is not None:
            steps.append(models.Threshold(value=self.red_above, color="red"))
        levels = builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
        panel = stat.Panel().span(_STAT_WIDTH).height(4).title(self.title).description(self.about).unit(self.unit)
        panel = panel.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"])).thresholds(levels)
        return panel.datasource(SOURCE).with_target(_over_time(self.query))


@dataclass(frozen=True, slots=True)
class States:
    """The conditions of one deployment over the time."""

    title: str
    about: str
    query: str

    def build(self) -> _Chart:
        """One bar a condition; a gap is Unknown."""
        query = _over_time(self.query).legend_format("{{type}}")
        panel = statetimeline.Panel().span(_WIDTH).height(8).title(self.title).description(self.about)
        mappings: list[models.ValueMapping] = [models.ValueMap(options=_HELD)]
        return panel.datasource(SOURCE).mappings(mappings).with_target(query)


@dataclass(frozen=True, slots=True)
class Matrix:
    """The conditions of all deployments now: a row each."""

    title: str
    about: str
    query: str

    def build(self) -> _Chart:
        """A column a condition; an empty field is Unknown."""
        query = prometheus.Dataquery().expr(self.query).ref_id("A").instant().format(PromQueryFormat.TABLE)
        panel = table.Panel().span(_WIDTH).height(8).title(self.title).description(self.about).datasource(SOURCE)
        fields = {"rowField": "deployment", "columnField": "type", "valueField": "Value"}
        mappings: list[models.ValueMapping] = [models.ValueMap(options=_HELD)]
        return (
            panel.with_target(query.datasource(SOURCE))
            .mappings(mappings)
            .with_transformation(models.DataTransformerConfig(id_val="groupingToMatrix", options=fields))
        )


class _Scalings(models.AnnotationQuery):
    """Fields that the SDK leaves to each data source: Prometheus' own ones of an annotation."""

    def to_json(self) -> dict[str, object]:
        fields = {"titleFormat": "{{outcome}}", "textFormat": "{{reason}}", "tagKeys": "outcome,reason", "step": "15s"}
        return super().to_json() | fields | {"useValueForTime": True}


class _ScalingsBuilder(builders.AnnotationQuery):
    def build(self) -> models.AnnotationQuery:
        return _Scalings(
            name="scalings", datasource=SOURCE, icon_color="blue",
            expr=f"max by (outcome, reason) (firsttoken_last_scaling_timestamp_seconds{ONE}) * 1000",
        )  # fmt: skip


def _of_engines(aggregation: str, *selectors: str) -> str:
    """The first that there is of expressions about every pod, as those of the pods that were chosen; "" is none."""
    found = (text.replace(EVERY_POD, PODS).replace("[RECENT]", RATE) for text in selectors if text)
    return " or ".join(f"{aggregation}({text})" for text in found)


def _per_deployment(metric: str) -> str:
    return f"max by (namespace, name) (firsttoken_{metric})"


def _of_one(metric: str) -> str:
    return f"max(firsttoken_{metric}{ONE})"


_NAME = "{{namespace}}/{{name}}"
FLEET = (
    Figure("Deployments", "InferenceDeployments on which the operator decides.", "count(firsttoken_desired_replicas)"),
    Figure("Replicas decided", "In all.", f"sum({_per_deployment('desired_replicas')})"),
    Figure("Replicas ready", "In all.", f"sum({_per_deployment('ready_replicas')})"),
    Figure("GPUs missing", "What a cap withheld.", f"sum({_per_deployment('unmet_gpus')})", red_above=1),
    Figure(
        "Outside the SLA", "Deployments with SLAMet False.",
        'sum(1 - firsttoken_condition{type="SLAMet"}) or vector(0)', red_above=1,
    ),
    Figure(
        "Age of the last tick", "Of the operator that leads.",
        "min((time() - firsttoken_last_tick_timestamp_seconds) and on (instance, pod) firsttoken_leader == 1)",
        unit="s", red_above=60,
    ),
    Chart(
        "Replicas against wanted", "Decided, ready, and what the declared peak needs.",
        {f"{_NAME} decided": _per_deployment("desired_replicas"), f"{_NAME} ready": _per_deployment("ready_replicas"),
         f"{_NAME} for the peak": _per_deployment("sized_replicas")},
    ),
    Chart(
        "GPUs by pool", "As in the status of each GPUPool; budget only where one is set.",
        {"{{pool}} {{state}}": "max by (pool, state) (firsttoken_pool_gpus)"},
    ),
    Matrix(
        "Conditions", "Empty: Unknown. The runbook has every condition.",
        'label_join(max by (namespace, name, type) (firsttoken_condition), "deployment", "/", "namespace", "name")',
    ),
    Chart(
        "First tokens in time", "Share inside the limit, in seven days.",
        {_NAME: _per_deployment("slo_attainment_ratio")}, unit="percentunit",
    ),
    Chart(
        "Decisions", "By outcome and reason.",
        {"{{outcome}} {{reason}}": f"sum by (outcome, reason) (rate(firsttoken_decisions_total{RATE}))"}, unit="ops",
    ),
    Chart(
        "Writes to the API server", "denied, failed, throttled, conflict: see WriteDenied in the runbook.",
        {"{{kind}} {{outcome}}": f"sum by (kind, outcome) (rate(firsttoken_writes_total{RATE}))",
         "denied": f'sum(rate(firsttoken_writes_total{{outcome="denied"}}{RATE})) or vector(0)'}, unit="ops",
    ),
    Chart(
        "Times of the operator", "90th percentile of a tick, and of the time from when it was due to its decisions.",
        {"tick": f"histogram_quantile(0.9, sum by (le) (rate(firsttoken_cycle_duration_seconds_bucket{RATE})))",
         "decisions": f"histogram_quantile(0.9, sum by (le) (rate(firsttoken_decision_lag_seconds_bucket{RATE})))",
         "age of the last tick {{pod}}": "time() - firsttoken_last_tick_timestamp_seconds"}, unit="s",
    ),
    Chart(
        "Queries to Prometheus", "ok, or the reason.",
        {"{{source}} {{outcome}}": f"sum by (source, outcome) (rate(firsttoken_source_queries_total{RATE}))"},
        unit="ops",
    ),
    Chart("What waits", "Sizes to be made, and writes to be sent.",
          {"sizings": "max(firsttoken_sizings_waiting)",
           "writes of {{kind}}": "max by (kind) (firsttoken_writes_waiting)"}),
    Chart("GPU-hours saved", "Against the fleet of the declared peak, in seven days.",
          {_NAME: _per_deployment("gpu_hours_saved_versus_peak")}),
)  # fmt: skip
DEPLOYMENT = (
    Figure("Replicas decided", "The newest decision.", _of_one("desired_replicas")),
    Figure("Replicas ready", "Pods that serve.", _of_one("ready_replicas")),
    Figure("Arrivals", "Requests that come in.", _of_one("arrival_requests_per_second"), unit="reqps"),
    Figure(
        "TTFT against its limit", "Measured time to first token (TTFT), as a share of the limit.",
        f"{_of_one('observed_ttft_seconds')} / {_of_one('ttft_limit_seconds')}", unit="percentunit", red_above=1,
    ),
    Figure(
        "Error budget consumed", "Late requests of about a day as a multiple of those aimed at: 1 is on target.",
        _of_one("error_budget_consumption"), red_above=2,
    ),
    Figure("GPUs missing", "What a cap withheld.", _of_one("unmet_gpus"), red_above=1),
    Chart("Load", "Arrivals over the rate window.", {"arrivals": _of_one("arrival_requests_per_second")}, unit="reqps"),
    Chart(
        "Replicas", "Blue marks are scalings with their reason.",
        {"decided": _of_one("desired_replicas"), "ready": _of_one("ready_replicas"),
         "for the declared peak": _of_one("sized_replicas"), "limit": _of_one("limit_replicas")},
    ),
    Chart(
        "TTFT, and what one replica more or fewer would do",
        "Time to first token (TTFT) at the SLA's percentile: measured, its limit, and predicted at N-1, N and N+1.",
        {"measured": _of_one("observed_ttft_seconds"), "limit": _of_one("ttft_limit_seconds"),
         "predicted at N-1": _of_one("predicted_ttft_one_fewer_seconds"),
         "predicted at N": _of_one("predicted_ttft_seconds"),
         "predicted at N+1": _of_one("predicted_ttft_one_more_seconds")}, unit="s",
    ),
    Chart(
        "Error budget", "Late requests of about a day as a multiple of those aimed at; their share of the last hour.",
        {"consumed": _of_one("error_budget_consumption"),
         "share late": f"sum(increase(firsttoken_slo_late_requests_total{ONE}[1h])) / "
                       f"sum(increase(firsttoken_slo_requests_total{ONE}[1h]))"},
    ),
    States("Conditions", "A gap is Unknown. The runbook has every condition.",
           f"max by (type) (firsttoken_condition{ONE})"),
    Chart(
        "What was learned", "A replica's capacity against what was sized, and the error of the predicted TTFT.",
        {"capacity": _of_one("capacity_factor"), "error": _of_one("calibration_error_ratio")}, unit="percentunit",
    ),
    Chart(
        "GPU-hours", "An hour, and what the fleet of the declared peak would have taken beyond that in seven days.",
        {"in the last hour": f"sum(increase(firsttoken_gpu_hours_total{ONE}[1h]))",
         "saved in seven days": _of_one("gpu_hours_saved_versus_peak")},
    ),
    Chart(
        "Engines: requests", "Of the pods of the workload that is chosen above.",
        {"waiting": _of_engines("sum", *(" or ".join(family.waiting) for family in FAMILIES)),
         "running": _of_engines("sum", *(family.running for family in FAMILIES))},
    ),
    Chart("Engines: KV cache", "Share of the cache for keys and values (KV) in use, the fullest and the mean.",
          {how: _of_engines(by, *(family.kv_usage for family in FAMILIES))
           for how, by in (("fullest", "max"), ("mean", "avg"))},
          unit="percentunit"),
    Chart("Engines: first tokens", "Requests that got one.",
          {"first tokens": _of_engines(
              "sum", *dict.fromkeys(f"rate({family.ttft}_count{{{EVERY_POD}}}{RATE})" for family in FAMILIES))},
          unit="reqps"),
)  # fmt: skip


def _board(uid: str, title: str, panels: tuple[Chart | Figure | States | Matrix, ...]) -> builders.Dashboard:
    board = builders.Dashboard(title).uid(uid).tags(["firsttoken"]).time("now-6h", "now").refresh("30s").readonly()
    board = (
        board.tooltip(models.DashboardCursorSync.CROSSHAIR)
        .timezone("browser")
        .with_variable(builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    others = builders.DashboardLink("firsttoken").type(models.DashboardLinkType.DASHBOARDS).tags(["firsttoken"])
    board = board.link(others.keep_time(True).as_dropdown(True))
    for panel in panels:
        board = board.with_panel(panel.build())
    return board


def _choice(name: str, label: str, query: str) -> builders.QueryVariable:
    variable = builders.QueryVariable(name).label(label).query(query).datasource(SOURCE)
    return variable.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(models.VariableSort.ALPHABETICAL_ASC)


def boards() -> dict[str, str]:
    """The text of each file, by its name."""
    known = "|".join(dict.fromkeys(family.told_by.partition("{")[0] for family in FAMILIES))
    pods = f'label_values({{__name__=~"{known}",namespace="$namespace"}}, pod)'
    one = _board("firsttoken-deployment", "firsttoken / one deployment", DEPLOYMENT)
    one = one.with_variable(_choice("namespace", "Namespace", "label_values(firsttoken_desired_replicas, namespace)"))
    named = 'label_values(firsttoken_desired_replicas{namespace="$namespace"}, name)'
    one = one.with_variable(_choice("name", "InferenceDeployment", named))
    workload = _choice("workload", "Deployment of the pods", pods).regex("/(.+)-[a-z0-9]+-[a-z0-9]{5}/")
    one = one.with_variable(workload).annotation(_ScalingsBuilder())
    made = {"fleet": _board("firsttoken-fleet", "firsttoken / fleet", FLEET), "deployment": one}
    return {
        f"{name}.json": json.dumps(board.build(), cls=JSONEncoder, indent=1, ensure_ascii=False) + "\n"
        for name, board in made.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in boards().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
