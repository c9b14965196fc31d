"""Commands and flags that the operator may give to a container, for the chart: `helm/firsttoken/files/starts.json`.

The admission policy is what holds where the operator's process does something else; its list is that of the runtimes.
"""

from __future__ import annotations

import json
from pathlib import Path

from firsttoken_operator.act.pods import CONFIGURATION_ANNOTATION
from firsttoken_operator.act.prepull import COMMAND
from firsttoken_operator.runtimes import CONTAINERS

FILE = Path(__file__).parents[1] / "helm/firsttoken/files/starts.json"


def text() -> str:
    """The text of the file."""
    started = [container for container in CONTAINERS if container.command]
    starts = {
        "commands": [list(container.command) for container in started],
        "flags": sorted(
            {flag for container in started for flag in (*container.flags, *container.settable, *container.retired)}
        ),
        "keeps": list(COMMAND),
        "configurationAnnotation": CONFIGURATION_ANNOTATION,
    }
    return json.dumps(starts, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
