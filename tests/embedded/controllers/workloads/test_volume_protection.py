"""Tests of `embedded/controllers/workloads/volume_protection.py`."""

from __future__ import annotations

import pytest

from phalanx.client.informer import Informer
from phalanx.client.kind import (
    CONFIG_MAPS,
    PODS,
    VOLUME_CLAIMS,
    VOLUMES,
)
from phalanx.embedded.controllers.runtime.calls import Calls
from phalanx.embedded.controllers.workloads.volume_protection import VOLUME_FINALIZER, VolumeProtection
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario

pytestmark = pytest.mark.slow  # real processes


def test_a_claim_whose_pod_the_watch_has_not_told_of_yet_stays(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        caches = {kind: Informer(here.connection, kind) for kind in (PODS, VOLUME_CLAIMS, VOLUMES)}
        protection = VolumeProtection(Calls(here.connection, caches.__getitem__))
        room = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await here.make(VOLUME_CLAIMS, "used", spec=room)
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n", "volumes": volumes}
        user = await here.make(PODS, "user", spec=spec)
        await here.connection.delete(VOLUME_CLAIMS, "used", here.namespace)
        caches[VOLUME_CLAIMS].observe(await here.get(VOLUME_CLAIMS, "used") or {})
        await protection._look(f"{here.namespace}/used")
        assert await here.get(VOLUME_CLAIMS, "used") is not None
        await here.end(user)
        caches[PODS].observe(await here.get(PODS, "user") or {})
        await protection._look(f"{here.namespace}/used")
        assert await here.get(VOLUME_CLAIMS, "used") is None

    scenario(api_server, play, settings=None)


def test_a_volume_goes_when_no_claim_is_bound_to_it(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        name = f"volume-{here.namespace}"
        room = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
        await here.make(VOLUMES, name, spec={**room, "storageClassName": name})
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await here.make(VOLUME_CLAIMS, "c", spec={**asked, "storageClassName": name})
        await here.until(lambda: here.get(VOLUMES, name), lambda one: one["status"]["phase"] == "Bound")
        await here.connection.delete(VOLUMES, name)
        await here.make(CONFIG_MAPS, "later")  # earlier changes have been processed when this one is
        found = await here.get(VOLUMES, name)
        assert found is not None
        assert found["metadata"]["finalizers"] == [VOLUME_FINALIZER]
        await here.connection.delete(VOLUME_CLAIMS, "c", here.namespace)
        await here.gone(VOLUMES, name)

    scenario(api_server, play)
