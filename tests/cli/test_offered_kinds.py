"""`phalanx up --kinds`: the kinds of other projects are served, and their users are warned that no controller runs."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx.cli.local.local_cluster import LocalMachines
from phalanx.cli.local.offered_kinds import OFFERED, UnknownKindsError, install_offered, notes, objects, offered
from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection
from phalanx.client.kind import CRDS, Kind
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from tests.dialects.manifests import until
from tests.embedded.apiserver.process import ServerProcess


def test_projects_are_named_once_and_unknown_ones_are_refused() -> None:
    assert offered("spark, ray,ray") == ("spark", "ray")
    assert offered("all") == tuple(OFFERED)
    assert offered("") == ()
    with pytest.raises(UnknownKindsError, match="flink is not known; name some of ray, spark, tfjob, lws, argo"):
        LocalMachines(kinds="ray,flink")


def test_each_note_names_the_kinds_and_the_missing_controller() -> None:
    (note,) = notes(["lws"])
    assert note.startswith("LeaderWorkerSet: objects are stored, but Phalanx does not create the pods that are queued")
    assert notes(("tfjob",))[0].endswith(
        "are stored and queued, but Phalanx does not create their pods; run the Kubeflow training operator beside "
        "phalanx up, with its kubeconfig"
    )
    assert "run the controller of LeaderWorkerSet beside phalanx up" in note


def test_the_definitions_are_those_of_the_frameworks_that_phalanx_queues() -> None:
    made = {body["metadata"]["name"]: body["spec"] for kind, body in objects(OFFERED) if kind == CRDS}
    known = {f"{kind.plural}.{kind.group}": kind for kind in FRAMEWORKS}
    served_here = {"appwrappers", "jobs", "jobsets", "mpijobs", "pytorchjobs", "trainjobs"}
    missing = {name for name, kind in known.items() if kind.plural not in served_here} - made.keys()
    assert missing == set()
    for name in made.keys() & known.keys():
        assert known[name].version in [each["name"] for each in made[name]["versions"]]
        assert made[name]["names"]["kind"] == known[name].name


def test_definitions_below_k8s_io_name_their_approval() -> None:
    made = [body for kind, body in objects(OFFERED) if kind == CRDS and body["spec"]["group"].endswith(".k8s.io")]
    assert len(made) == 2
    assert all("api-approved.kubernetes.io" in body["metadata"]["annotations"] for body in made)


@pytest.mark.slow
def test_objects_are_stored_and_their_users_are_warned(tmp_path: Path) -> None:
    cluster = Kind(group="ray.io", version="v1", plural="rayclusters", name="RayCluster")
    with ServerProcess.started(tmp_path) as server:

        async def install() -> None:
            async with await Connection.open(server.kubeconfig) as api:
                await install_offered(api, OFFERED)
                await install_offered(api, OFFERED)  # again, on the same data

                async def served() -> bool:
                    try:
                        await api.list(cluster, limit="1")
                    except (ApiRefusal, ApiUnknown):
                        return False
                    return True

                await until(served, bool)

        asyncio.run(install())
        body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}, "spec": {"any": {"x": 1}}}
        warning, made = post(server, "/apis/ray.io/v1/namespaces/default/rayclusters", body)
        assert "run the KubeRay operator beside phalanx up" in warning
        assert made["spec"] == {"any": {"x": 1}}


def post(server: ServerProcess, path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The Warning header of the answer, and the object."""
    config = yaml.safe_load(Path(server.kubeconfig).read_text())
    url, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"].get("token", "")
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, context=trust, timeout=60) as answer:
        return answer.headers.get("Warning", ""), json.loads(answer.read())
