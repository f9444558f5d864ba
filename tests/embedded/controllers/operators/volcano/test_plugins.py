"""What plugins make of a Volcano Job's pods: names, variables, files, keys."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.volcano.job_spec import read_job
from phalanx.embedded.controllers.operators.volcano.plugins import key_pair, key_secret, read_flags
from phalanx.embedded.controllers.operators.volcano.pods import make_pod
from tests.embedded.controllers.operators.volcano.written import job, task


def made(owner: Object, name: str, index: int) -> Object:
    spec = read_job(owner)
    found = spec.task(name)
    assert found is not None
    return make_pod(owner, spec, found, index)


def variables(pod: Object) -> dict[str, Any]:
    found = pod["spec"]["containers"][0].get("env") or []
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in found}


DDP = (task("master", 1), task("worker", 2))


def test_ssh_keys_open_each_other() -> None:
    private, public = key_pair([])
    assert private.startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert public.startswith("ssh-rsa ")
    assert key_pair(["--ssh-private-key=a", "--ssh-public-key=b"]) == ("a", "b")
    spec = read_job(job(*DDP, plugins={"ssh": []}))
    data = {name: base64.b64decode(text).decode() for name, text in key_secret(spec, [], ("a", "b"))["data"].items()}
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == ("a", "b", "b")
    assert data["config"].startswith("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nHost j-master-0\n")
    assert "Host j-worker-1\n  HostName j-worker-1.j\n  Port 22\n" in data["config"]


FLAGS: list[Any] = [
    (["--port=1"], {"port": 1}),
    (["-port", "2"], {"port": 2}),
    (["--on"], {"on": True}),
    (["--on=F"], {"on": False}),
    (["--odd=1", "--port=3"], {}),
    (["--port=x", "--on"], {}),
    (["port=3"], {}),
]


@pytest.mark.parametrize(("arguments", "changed"), FLAGS)
def test_arguments_are_read_as_go_reads_them(arguments: list[str], changed: Object) -> None:
    defaults: dict[str, str | int | bool] = {"port": 0, "on": False}
    assert read_flags(arguments, defaults) == {**defaults, **changed}
