"""How long a pod may stay on a node with a NoExecute taint."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import STRATEGIC_PATCH
from phalanx.client.kind import NODES, PODS
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.nodes import stay_s
from phalanx.embedded.controllers.runtime.pod_state import condition
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario
from tests.embedded.controllers.objects import NOW_S

LOST = {"key": "unreachable", "effect": "NoExecute", "timeAdded": write_moment(NOW_S - 100)}
OWN = {"key": "own", "value": "v", "effect": "NoExecute", "timeAdded": write_moment(NOW_S - 10)}
FIVE_MINUTES = {"key": "unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


@pytest.mark.parametrize(
    ("tolerations", "taints", "left_s"),
    [
        ([], [LOST], 0),
        ([FIVE_MINUTES], [LOST], 200),
        ([FIVE_MINUTES], [LOST, OWN], 0),
        ([{"operator": "Exists"}], [LOST, OWN], None),
        ([FIVE_MINUTES, {"key": "own", "value": "v"}], [LOST, OWN], 200),
        ([FIVE_MINUTES, {"key": "own", "value": "other"}], [LOST, OWN], 0),
        ([{"key": "unreachable", "operator": "Exists", "effect": "NoSchedule"}], [LOST], 0),
        ([{**FIVE_MINUTES, "tolerationSeconds": 0}], [LOST], 0),
    ],
)
def test_the_shortest_toleration_counts(tolerations: Any, taints: Any, left_s: float | None) -> None:
    assert stay_s(tolerations, taints, NOW_S) == left_s


@pytest.mark.slow
def test_a_pod_that_tolerates_nothing_leaves_and_its_neighbour_stays(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        name = f"n-{here.namespace}"
        await here.make(NODES, name)
        for pod, tolerations in (("leaves", []), ("stays", [{"operator": "Exists"}])):
            spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": name, "tolerations": tolerations}
            await here.make(PODS, pod, metadata={"finalizers": ["example.com/see"]}, spec=spec)
        taint = {"spec": {"taints": [{"key": "full", "effect": "NoExecute"}]}}
        await here.connection.patch(NODES, name, taint, "", "", STRATEGIC_PATCH)
        left = await here.until(lambda: here.get(PODS, "leaves"), lambda pod: "deletionTimestamp" in pod["metadata"])
        assert (condition(left, "DisruptionTarget") or {})["reason"] == "DeletionByTaintManager"
        assert "deletionTimestamp" not in (await here.list(PODS))[1]["metadata"]
        await here.connection.delete(NODES, name)

    scenario(api_server, play)
