"""Namespaces on the real embedded API server: their content goes first, and each begins with an account."""

from __future__ import annotations

from dataclasses import replace

import pytest

from phalanx.client.kind import CONFIG_MAPS, NAMESPACES, PODS, SERVICE_ACCOUNTS, VOLUME_CLAIMS
from phalanx.embedded.controllers.runtime.pod_state import condition
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import FAST, Cluster, scenario

pytestmark = pytest.mark.slow  # real processes


def test_a_namespace_goes_when_its_content_is_gone(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.make(CONFIG_MAPS, "plain")
        await here.make(CONFIG_MAPS, "held", metadata={"finalizers": ["example.com/hold"]})
        await here.connection.delete(NAMESPACES, here.namespace)
        await here.gone(CONFIG_MAPS, "plain")
        namespace = await here.until(
            lambda: here.get(NAMESPACES, here.namespace), lambda found: condition(found, "NamespaceFinalizersRemaining")
        )
        remaining = condition(namespace, "NamespaceFinalizersRemaining")
        assert remaining is not None
        assert remaining["message"].endswith("finalizers remaining: example.com/hold in 1 resource instances")
        await here.set(CONFIG_MAPS, "held", metadata={"finalizers": None})
        await here.gone(NAMESPACES, here.namespace)

    scenario(api_server, play)


def test_a_claim_goes_when_no_pod_uses_it_and_its_namespace_with_it(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        room = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        for name in ("used", "idle"):
            await here.make(VOLUME_CLAIMS, name, spec=room)
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n", "volumes": volumes}
        user = await here.make(PODS, "user", spec=spec)
        for name in ("used", "idle"):
            await here.connection.delete(VOLUME_CLAIMS, name, here.namespace)
        await here.gone(VOLUME_CLAIMS, "idle")
        assert await here.get(VOLUME_CLAIMS, "used") is not None
        await here.end(user)
        await here.gone(VOLUME_CLAIMS, "used")
        await here.make(VOLUME_CLAIMS, "last", spec=room)
        await here.connection.delete(NAMESPACES, here.namespace)
        await here.gone(VOLUME_CLAIMS, "last")

    scenario(api_server, play)


def test_a_namespace_begins_with_an_account_and_the_authority(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.until(lambda: here.get(SERVICE_ACCOUNTS, "default"), bool)
        published = await here.until(lambda: here.get(CONFIG_MAPS, "kube-root-ca.crt"), bool)
        assert published["data"] == {"ca.crt": "-----BEGIN"}

    scenario(api_server, play, replace(FAST, root_ca="-----BEGIN"))
