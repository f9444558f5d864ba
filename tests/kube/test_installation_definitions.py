"""Definitions of a dialect's kinds on the embedded API server: ours are brought up to date, those of others stay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import deepcopy

import pytest

from phalanx.client.connection import Connection
from phalanx.client.kind import CRDS
from phalanx.dialects.volcano.dialect import VOLCANO
from phalanx.dialects.volcano.kinds import QUEUES
from phalanx.kube.install.definitions import DIGEST, install_dialect, policies_of
from tests.embedded.apiserver.process import ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A separate server, because the remaining objects would disturb other tests."""
    with ServerProcess.started(tmp_path_factory.mktemp("volcano")) as found:
        yield found


def test_definitions_of_volcanos_own_are_left_as_they_are(server: ServerProcess) -> None:
    async def scene() -> None:
        async with await Connection.open(server.kubeconfig) as user:
            await install_dialect(user, VOLCANO)
            name = f"{QUEUES.plural}.{QUEUES.group}"
            ours = (await user.get(CRDS, name))["metadata"]["annotations"]
            theirs = {"metadata": {"annotations": {**dict.fromkeys(ours), "made-by": "volcano"}}}
            before = await user.patch(CRDS, name, theirs)
            await install_dialect(user, VOLCANO)
            assert (await user.get(CRDS, name))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
            await user.patch(CRDS, name, {"metadata": {"annotations": ours}})

    asyncio.run(scene())


def test_definitions_and_policies_of_another_release_of_ours_are_brought_up_to_date(server: ServerProcess) -> None:
    """A release before digests, whose Queue had no dequeueStrategy and whose policy let everything pass."""

    async def scene() -> None:
        async with await Connection.open(server.kubeconfig) as user:
            await install_dialect(user, VOLCANO)
            name = f"{QUEUES.plural}.{QUEUES.group}"
            whole = await user.get(CRDS, name)
            (version,) = deepcopy(whole["spec"]["versions"])
            fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
            fields.pop("dequeueStrategy")
            undated = {"annotations": {DIGEST: None}}
            await user.patch(CRDS, name, {"metadata": undated, "spec": {"versions": [version]}})
            kind, policy = next(each for each in policies_of(VOLCANO) if "validations" in each[1].get("spec", ()))
            passing = {"spec": {"validations": [{"expression": "true"}]}}
            await user.patch(kind, policy["metadata"]["name"], {"metadata": undated, **passing})
            await install_dialect(user, VOLCANO)
            assert (await user.get(CRDS, name))["spec"]["versions"] == whole["spec"]["versions"]
            now = await user.get(kind, policy["metadata"]["name"])
            assert now["spec"]["validations"] == policy["spec"]["validations"]

    asyncio.run(scene())
