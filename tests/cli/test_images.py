"""`cli/submission/moving/images.py`: jobs of this machine's own programs (the image `host`)."""

from __future__ import annotations

from phalanx.cli.submission.moving.images import Replacement, claims, host_paths, runs_on_host
from phalanx.slurm.cluster.site import Site
from tests.cli.test_move_selection import Object


def test_jobs_of_the_image_host_get_the_image_and_the_shared_directories() -> None:
    container = {"name": "main", "image": "host:latest", "volumeMounts": [{"name": "own", "mountPath": "/own"}]}
    volumes = [
        {"name": "own", "hostPath": {"path": "/data"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "d"}},
    ]
    other = {"name": "side", "image": "busybox"}
    spec = {"replicas": {"Worker": {"template": {"spec": {"containers": [container, other], "volumes": volumes}}}}}
    obj: Object = {
        "metadata": {"name": "j", "namespace": "n", "annotations": {"slurm.phalanx.dev/job": "{}"}},
        "spec": spec,
    }
    assert runs_on_host(obj)
    assert (host_paths(obj), claims(obj)) == ({"/data"}, {"d"})
    owners = {"n": (1001, 1002)}
    Replacement(image="lab:1", mounts=("/home",), owners=owners, site=Site(tools="phalanx:1")).apply(obj)
    assert not runs_on_host(obj)
    assert [one["image"] for one in (container, other)] == ["lab:1", "busybox"]
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/own", "/home", "/opt/phalanx-tools"]
    assert "volumeMounts" not in other
    assert host_paths(obj) == {"/data", "/home"}
    pod = spec["replicas"]["Worker"]["template"]["spec"]
    assert pod["initContainers"][0]["image"] == "phalanx:1"
    assert pod["securityContext"] == {"runAsUser": 1001, "runAsGroup": 1002}, "root of the image could read all homes"


def test_the_secret_of_a_slurm_job_names_the_daemon_of_its_image() -> None:
    data = {"PHALANX_STEP_KEY": "a2V5", "PHALANX_PYTHON": "L3Vzci9iaW4vcHl0aG9u", "A": "Yg=="}
    assert Replacement(site=Site()).environment(data) == data
    assert Replacement(image="lab:1", site=Site()).environment(data) == {"PHALANX_STEP_KEY": "a2V5", "A": "Yg=="}
    found = Replacement(image="lab:1", site=Site(tools="phalanx:1")).environment(data)
    assert found.keys() == {*data, "PHALANX_PATH"}
    assert found["PHALANX_PYTHON"] != data["PHALANX_PYTHON"]
