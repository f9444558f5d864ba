"""`cli/views/top_reading.py`: the measured usage, and the data that a user with few rights sees."""

from __future__ import annotations

from typing import Any

from phalanx.cli.views import top_view
from phalanx.cli.views.top_reading import see, use_of
from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import JOBS, NODES, Kind
from phalanx.kube.install.definitions import QUEUES
from tests import clockwork
from tests.cli.test_live_state_look import Shared
from tests.kube import double
from tests.kube.double import Api, Object


def test_the_use_of_a_pod_is_the_sum_of_its_containers() -> None:
    each = {"usage": {"cpu": "250m", "memory": "1Gi"}}
    assert use_of({"metadata": {}, "containers": [each, each]}) == (500, 2 << 30)
    assert use_of({"metadata": {}, "usage": {"cpu": "2", "memory": "1Gi"}}) == (2000, 1 << 30)


class Narrow(Shared):
    """The server of a user who may list one namespace, without metrics."""

    async def list(self, kind: Kind, namespace: str = "", **fields: str) -> Object:
        if kind not in self.api.objects:
            raise ApiRefusal(404, "NotFound", kind.plural)
        return await super().list(kind, namespace, **fields)


def test_a_user_who_may_list_one_namespace_sees_its_jobs_and_the_nodes() -> None:
    async def scene() -> None:
        api = Api()
        api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
        api.put(NODES, double.node("n1", 16))
        api.put(JOBS, double.job("his", 2))
        narrow: Any = Narrow(api)
        found, _ = await see(narrow, "ada", "default", everybody=True)
        assert found.partial
        assert [view.id for view in found.jobs] == ["default/his"]
        assert top_view.node_row(found.nodes[0], found)[4:6] == ["?/16", "-"]
        assert found.totals["running"] is None

    clockwork.run(scene())
