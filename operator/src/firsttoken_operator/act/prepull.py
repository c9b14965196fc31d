"""Image of `spec.runtime` on the nodes before a replica starts there: a DaemonSet whose pods do nothing. Pure.

Each of its pods runs `sleep` of the image itself, so that the node pulls the image, and the kubelet never collects it
as unused. It has no GPU, is no replica, is called and scraped by none, and stays on nodes that have this GPU: what
names the nodes is the pool, or the label of the GPU; a resource can only narrow that.
"""

from __future__ import annotations

from collections.abc import Sequence

from firsttoken_operator.act.pods import (
    GPU_PRODUCT_LABEL,
    Json,
    Rendering,
    nodes_with,
    pull_secrets,
    restricted,
    tolerations,
    unprivileged,
)
from firsttoken_operator.domain.pods import KEEPER_KIND, KEEPER_LABEL
from firsttoken_sizing.errors import InvalidInput

KEEPER = ("apps/v1", KEEPER_KIND)
"""Kind of the object."""
COMMAND = ("sleep", "infinity")
"""Command of a pod. Every image of the servers that are rendered has it; one without it is pulled all the same."""
NO_GPUS = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
"""Variable without which NVIDIA's container runtime gives a container every GPU of its node where the image asks for
all, as these images do (NVIDIA Container Toolkit, docker-specialized)."""
RESOURCES = {"requests": {"cpu": "1m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}


def keeper(rendering: Rendering) -> Json:
    """The spec of the DaemonSet. Its pods have none of the labels by which a Service or a monitor finds replicas.

    Raises `InvalidInput` where it is not allowed, or where nothing says which nodes have the GPU.
    """
    if not rendering.pre_pulls:
        fix = "have the administrator set render.prePull of the chart, or leave it out"
        raise InvalidInput("runtime.prePull", "images may not be kept on nodes here", fix)
    selector = {KEEPER_LABEL: rendering.resource.metadata.name}
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # NB: the first process of a container does not end when it is asked to.
        "terminationGracePeriodSeconds": 1,
        "securityContext": restricted(rendering.container.user),
        "tolerations": tolerations(rendering),
        "affinity": _nodes(rendering),
        "containers": [_holding("image", rendering.runtime.image)],
        **pull_secrets(rendering.runtime),
    }
    return {
        "revisionHistoryLimit": 1,
        "selector": {"matchLabels": selector},
        # Nothing is served by these pods: all nodes pull at once, as they do when it is made.
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {"metadata": {"labels": dict(selector)}, "spec": pod},
    }


def keeping_also(manifest: Json, images: Sequence[str]) -> Json:
    """The DaemonSet, with the images of pods that run on and of which more may start: a rollout that waits."""
    spec, template = manifest["spec"], manifest["spec"]["template"]
    held = template["spec"]["containers"]
    kept = {container["image"] for container in held}
    more = [image for image in dict.fromkeys(images) if image not in kept]
    containers = [*held, *(_holding(f"image-{number}", image) for number, image in enumerate(more, 2))]
    return manifest | {"spec": spec | {"template": template | {"spec": template["spec"] | {"containers": containers}}}}


def _nodes(rendering: Rendering) -> Json:
    places: list[tuple[str, Sequence[str]]] = [(key, (value,)) for key, value in rendering.pool_selector.items()]
    if not places and rendering.gpu_products:
        places.append((GPU_PRODUCT_LABEL, rendering.gpu_products))
    if not places:
        problem = f"nothing tells nodes with {rendering.configuration.gpu} from others"
        raise InvalidInput("runtime.prePull", problem, "give its GPUPool a nodeSelector")
    # NB: where the two name other values of a label, no node has both.
    own = [(key, (value,)) for key, value in rendering.node_selector.items()]
    return nodes_with([*places, *(place for place in own if place not in places)])


def _holding(name: str, image: str) -> Json:
    return {
        "name": name,
        "image": image,
        "command": list(COMMAND),
        "env": [dict(NO_GPUS)],
        "resources": {kind: dict(amounts) for kind, amounts in RESOURCES.items()},
        "securityContext": unprivileged(readOnlyRootFilesystem=True),
    }
