"""`embedded/login/admission.py`: fields of pods that users of a shared machine may not write."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from phalanx.embedded.apiserver.auth.authentication import token_of
from phalanx.embedded.login.admission import CONTROL_PLANE, POLICY
from tests.embedded.apiserver.inprocess import InProcess
from tests.embedded.login.test_rules import HOME, MERGE, PODS, pod, shared


def test_no_way_of_writing_a_pod_names_its_node(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (admin, ada):
            await admin.make("/api/v1/nodes", {"metadata": {"name": "n"}})
            answer = await ada.ask("POST", PODS, pod(hostNetwork=True))  # its address is that of root's loopback
            assert (answer.code, "spec.hostNetwork is refused" in answer.body["message"]) == (403, True)
            answer = await ada.ask("POST", PODS, pod(nodeName="n"))
            assert (answer.code, POLICY["spec"]["validations"][0]["message"] in answer.body["message"]) == (403, True)
            applied = {"apiVersion": "v1", "kind": "Pod", **pod(nodeName="n")}
            media = "application/apply-patch+yaml"
            answer = await ada.ask("PATCH", f"{PODS}/p?fieldManager=x", applied, media)
            assert answer.code == 403, answer.body
            await ada.make(PODS, pod())
            target = {"target": {"kind": "Node", "name": "n"}}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, **target}
            named = {"spec": {"nodeName": "n"}}
            for method, path, body, media in (
                ("POST", f"{PODS}/p/binding", binding, "application/json"),
                ("POST", f"{HOME}/bindings", binding, "application/json"),
                ("PATCH", f"{PODS}/p", named, MERGE),
                ("PATCH", f"{PODS}/p/status", named, MERGE),
                ("PATCH", f"{PODS}/p/resize", named, MERGE),
            ):
                answer = await ada.ask(method, path, body, media)
                assert answer.code in (403, 422), (path, answer.body)
            await ada.ask("PATCH", f"{PODS}/p/ephemeralcontainers", named, MERGE)
            assert "nodeName" not in (await ada.ask("GET", f"{PODS}/p")).body["spec"]

    asyncio.run(run())


DEVICES = {"phalanx.dev/devices": "0"}  # of a GPU that another has


@pytest.mark.slow
def test_nobody_gives_himself_devices(tmp_path: Path) -> None:
    async def act() -> None:
        async with shared(tmp_path) as (admin, ada):
            token = token_of(tmp_path / "tokens.csv", CONTROL_PLANE)
            control_plane = InProcess(admin.api, token)
            greedy = pod() | {"metadata": {"name": "p", "annotations": DEVICES}}
            for who in (ada, control_plane):  # as the Job controller makes it from a template of hers
                answer = await who.ask("POST", PODS, greedy)
                assert answer.code == 403
                assert "names the devices that the scheduler assigned to a pod" in answer.body["message"]
            await ada.make(PODS, pod())
            late = {"metadata": {"annotations": DEVICES}}
            answer = await ada.ask("PATCH", f"{PODS}/p", late, MERGE)
            assert (answer.code, "only the scheduler may write" in answer.body["message"]) == (422, True)
            assert (await control_plane.ask("PATCH", f"{PODS}/p", late, MERGE)).code == 200
            answer = await ada.ask("PATCH", f"{PODS}/p", {"metadata": {"annotations": {"mine": "yes"}}}, MERGE)
            assert answer.code == 200
            many = {f"{number:x}": "" for number in range(30_000)}  # a rule that costs too much refuses
            answer = await ada.ask("POST", PODS, pod() | {"metadata": {"name": "q", "annotations": many | DEVICES}})
            assert answer.code in (403, 422)

    asyncio.run(act())
