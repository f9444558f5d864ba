"""ClusterColocationProfiles change pods as they are created, on `phalanx up`, as Koordinator's webhook does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.client.connection import Connection
from phalanx.client.kind import NAMESPACES, PODS
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.webhooks import COLOCATION, percent
from tests.cli.upstart import Up

BINDINGS = COLOCATION.made[1]  # made after its policy


def profile(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": kinds.COLOCATION_PROFILES.api_version,
        "kind": kinds.COLOCATION_PROFILES.name,
        "metadata": {"name": name},
        "spec": spec,
    }


def pod(name: str, **labels: str) -> Object:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest.mark.parametrize(("said", "wanted"), [(None, 100), (50, 50), ("25%", 25), ("0%", 0), (900, 100), ("odd", 100)])
def test_a_probability_is_a_number_or_a_percentage(said: object, wanted: int) -> None:
    assert percent(said) == wanted


def test_a_probability_bounds_the_uid_of_the_request_and_none_makes_no_policy() -> None:
    (_, policy), (_, binding) = COLOCATION.objects(profile("p", probability="50%", qosClass="BE"), {})
    assert policy["spec"]["matchConditions"][0]["expression"] == 'dyn(request).uid < "80000000"'
    assert binding["spec"] == {"policyName": policy["metadata"]["name"]}
    assert not COLOCATION.objects(profile("p", probability=0, qosClass="BE"), {})
    assert not COLOCATION.objects(profile("p", priorityClassName="gone"), {}), "it changes nothing"


async def policies(api: Connection) -> set[str]:
    names = (one["metadata"]["name"] for one in (await api.list(BINDINGS))["items"])
    return {name.split(".")[1] for name in names if name.startswith("colocation.")}


async def until_policies_are(api: Connection, wanted: set[str]) -> None:
    async with asyncio.timeout(120.0):
        while await policies(api) != wanted:  # noqa: ASYNC110 (what it waits for is the server)
            await asyncio.sleep(0.1)


async def made(api: Connection, body: Object, space: str = "default") -> Object:
    return await api.create(PODS, body, space)


@pytest.mark.slow
def test_profiles_change_pods_as_they_are_created(simulated: Up) -> None:
    async def scene() -> None:
        async with await Connection.open(simulated.data / "kubeconfig") as api:
            await api.create(NAMESPACES, {"metadata": {"name": "shared", "labels": {"colocation": "on"}}})
            shared = {"matchLabels": {"colocation": "on"}}
            batch = profile("a", selector={"matchLabels": {"app": "batch"}}, qosClass="BE", koordinatorPriority=7)
            batch["spec"] |= {"priorityClassName": "koord-batch", "schedulerName": "koord-scheduler"}
            words = profile("b", namespaceSelector=shared, labels={"seen": "yes"}, annotations={"note": 'a "b"'})
            words["spec"] |= {"labelKeysMapping": {"app": "kind"}, "labelSuffixes": {"seen": "-here"}}
            for body in (batch, words):
                await api.create(kinds.COLOCATION_PROFILES, body)
            await until_policies_are(api, {"a", "b"})

            found = await made(api, pod("batch", app="batch"))
            assert found["metadata"]["labels"] == {
                "app": "batch",
                "koordinator.sh/qosClass": "BE",
                "koordinator.sh/priority": "7",
            }
            spec = found["spec"]
            assert (spec["schedulerName"], spec["priorityClassName"], spec["priority"]) == (
                "koord-scheduler",
                "koord-batch",
                5000,
            )
            meta = (await made(api, pod("both", app="other"), "shared"))["metadata"]
            assert meta["labels"] == {"app": "other", "seen": "yes-here", "kind": "other"}
            assert meta["annotations"]["note"] == 'a "b"'
            assert (await made(api, pod("plain", app="other")))["metadata"]["labels"] == {"app": "other"}

            await api.patch(kinds.COLOCATION_PROFILES, "b", {"spec": {"probability": "0%"}})
            often = profile("c", probability="99%", labels={"often": "yes"})
            await api.create(kinds.COLOCATION_PROFILES, often)
            await until_policies_are(api, {"a", "c"})
            often_made = [(await made(api, pod(f"often-{n}")))["metadata"].get("labels") for n in range(6)]
            assert {"often": "yes"} in often_made, "of six pods none is changed once in 10^12 times"
            await api.delete(kinds.COLOCATION_PROFILES, "c")
            await until_policies_are(api, {"a"})
            await api.delete(kinds.COLOCATION_PROFILES, "a")
            await until_policies_are(api, set())
            assert "koordinator.sh/qosClass" not in (await made(api, pod("after", app="batch")))["metadata"]["labels"]

    asyncio.run(scene())
