"""Queries of the dashboards, and those that a real Prometheus has no answer to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tools.cluster.prometheus import Prometheus
from tools.dashboards import FOLDER

LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)$")
RATE_INTERVAL = "20s"
"""As Grafana chooses it at the least: four scrapes, here with room for a busy machine."""


def questions(board: Mapping[str, Any]) -> dict[str, str]:
    """Every query of a dashboard, by the panel, annotation or variable that asks it."""
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in board["panels"]
        for target in panel["targets"]
    }
    found |= {
        f"annotation {each['name']}": each["expr"] for each in board["annotations"].get("list", ()) if "expr" in each
    }
    variables = board["templating"]["list"]
    return found | {f"${each['name']}": each["query"] for each in variables if each["type"] == "query"}


def unanswered(server: Prometheus, chosen: Mapping[str, str]) -> list[str]:
    """The queries of all dashboards to which this Prometheus has no series, with these variables chosen."""
    empty = []
    for file in sorted(FOLDER.glob("*.json")):
        for asker, text in questions(json.loads(file.read_text())).items():
            query = text.replace("$__rate_interval", RATE_INTERVAL)
            for name, value in chosen.items():
                query = query.replace(f"${name}", value)
            of_variable = LABEL_VALUES.match(query)
            if of_variable is not None:
                query = f"count by ({of_variable[2]}) ({of_variable[1]})"
            assert "$" not in query, query
            if not server.query(query):
                empty.append(f"{file.stem}: {asker}: {query}")
    if empty:
        print(*empty, sep="\n")
    return empty
