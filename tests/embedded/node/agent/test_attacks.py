"""Attacks by one user of a shared machine on another user and on root, each as it was found. Needs root.

Ada and Bob are users by number, as containers of an organisation's directory are: the kernel asks for no name.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from phalanx.client.connection import Connection
from phalanx.client.kind import NAMESPACES, VOLUME_CLAIMS, VOLUMES
from phalanx.embedded.node.container.isolation import find_isolation
from phalanx.embedded.node.images.sources import import_image
from phalanx.embedded.node.images.store import ImageStore
from phalanx.embedded.node.images.unpack import Allowance
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.images.roots import small_root
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.objects import container
from tests.embedded.node.waiting import until

ADA, BOB = 51234, 51235

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the attacks are made by two users of this machine"),
]


@pytest.fixture
def machine() -> Iterator[Path]:
    """A directory that every user may enter, as `/srv` is."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def home(machine: Path, user: int, mode: int = 0o755) -> Path:
    place = machine / f"home-{user}"
    place.mkdir()
    os.chown(place, user, user)
    place.chmod(mode)
    return place


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def owned(api: Client, user: int = ADA, namespace: str = "") -> None:
    notes = {"phalanx.dev/uid": str(user), "phalanx.dev/gid": str(user)}
    await api.connection.patch(NAMESPACES, namespace or api.namespace, {"metadata": {"annotations": notes}})


async def bobs(api: Client) -> Client:
    """A namespace of Bob's, on the same node."""
    await api.connection.create(NAMESPACES, {"metadata": {"name": f"{api.namespace}-bob"}})
    other = Client(api.connection, f"{api.namespace}-bob", api.node)
    await owned(other, BOB)
    return other


def box(script: str, *mounts: tuple[str, str], name: str = "main", **more: Any) -> dict[str, Any]:
    told = [{"name": volume, "mountPath": path} for volume, path in mounts]
    return container(name, "sh", "-c", script, volumeMounts=told, **more)


async def ended(api: Client, name: str = "p") -> tuple[str, str]:
    """The phase in which the pod ends, and what it wrote, or why it did not start."""
    pod = await api.until(lambda pod: pod is not None and pod["status"].get("phase") in ("Succeeded", "Failed"), name)
    status = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return pod["status"]["phase"], status.get("message") or await api.logs(name)


async def gone(api: Client, name: str = "p") -> None:
    await api.delete(name, gracePeriodSeconds=0)
    await api.until(lambda pod: pod is None, name)


def test_a_volume_named_as_overlayfs_names_its_own_changes_no_file_of_the_machine(
    api_server: ServerProcess, machine: Path
) -> None:
    """`work/work` in a pod's volumes is where root makes a directory accessible to remove it."""
    victims = {name: machine / name for name in ("a", "b", "c")}
    for victim in victims.values():
        victim.touch(mode=0o644)
    script = f"ln -s {victims['a']} /tmp/w/work; mkdir -p /tmp/r/work /tmp/.root-x/work && "
    script += f"ln -s {victims['b']} /tmp/r/work/work && ln -s {victims['c']} /tmp/.root-x/work/work"

    async def test(api: Client) -> None:
        await owned(api)
        volumes = [{"name": "work", "emptyDir": {}}, {"name": "r", "emptyDir": {}}]
        pod = await api.run(box(script, ("work", "/tmp/w"), ("r", "/tmp/r")), volumes=volumes)
        assert (await ended(api))[0] == "Succeeded"
        await gone(api)
        await until(lambda: not (api_server.data / "pods" / pod["metadata"]["uid"]).exists())

    scenario(api_server, test, shared=True)
    assert {mode(victim) for victim in victims.values()} == {0o644}


def test_a_process_of_another_user_lends_no_path(api_server: ServerProcess, machine: Path) -> None:
    """`/proc/PID/cwd` bypasses the permissions of its parent directories for root, and for users who may trace the
    process."""
    private = home(machine, BOB, 0o700)
    (private / "open").mkdir(mode=0o777)
    (private / "open" / "file").write_text("hers")
    process = subprocess.Popen(["sleep", "1000"], cwd=private / "open", user=BOB, group=BOB, extra_groups=[])

    async def test(api: Client) -> None:
        await owned(api)
        for number, path in enumerate(("cwd", f"root{private}/open")):
            host = [{"name": "h", "hostPath": {"path": f"/proc/{process.pid}/{path}"}}]
            await api.run(box("cat /mnt/file", ("h", "/mnt")), name=f"p{number}", volumes=host)
            phase, text = await ended(api, f"p{number}")
            assert (phase, "opening /proc" in text) == ("Failed", True), text

    try:
        scenario(api_server, test, shared=True)
    finally:
        process.kill()
        process.wait()


def test_a_proc_of_its_own_making_lends_no_path(api_server: ServerProcess) -> None:
    """Mounts use file handles, so a directory that a user mounts over /proc cannot redirect them."""
    with TemporaryDirectory(dir="/dev/shm") as folder:  # what lies in /tmp no pod of a shared machine sees
        place = Path(folder)
        place.chmod(0o755)
        ada, private = home(place, ADA), home(place, BOB, 0o700)
        (private / "open").mkdir()
        (private / "open" / "file").write_text("hers")
        handles = ada / "proc" / "self" / "fd"
        handles.mkdir(parents=True)
        for number in range(3, 64):
            (handles / str(number)).symlink_to(private / "open")

        async def test(api: Client) -> None:
            await owned(api)
            volumes = [{"name": "proc", "hostPath": {"path": str(ada / "proc")}}, {"name": "e", "emptyDir": {}}]
            await api.run(box("ls /mnt; echo done", ("proc", "/proc"), ("e", "/mnt")), volumes=volumes)
            assert await ended(api) == ("Succeeded", "done")

        scenario(api_server, test, shared=True)


def test_a_service_accounts_mount_point_is_made_nowhere_in_roots_name(api_server: ServerProcess, machine: Path) -> None:
    """A directory that the user may read, mounted where the token's would be made."""
    place = machine / "etc"
    place.mkdir(mode=0o755)

    async def test(api: Client) -> None:
        await owned(api)
        volumes = [{"name": "h", "hostPath": {"path": str(place)}}, {"name": "e", "emptyDir": {}}]
        account = ("e", "/var/run/secrets/kubernetes.io/serviceaccount")
        await api.run(box("true", ("h", "/run"), account), volumes=volumes)
        await api.run(box("true", ("h", "/var/run"), account), volumes=volumes, name="q")
        await ended(api)
        await ended(api, "q")

    scenario(api_server, test, shared=True)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("kind", ["", "Directory", "File"])
def test_a_private_home_does_not_say_what_is_there(api_server: ServerProcess, machine: Path, kind: str) -> None:
    private = home(machine, BOB, 0o700)
    (private / "there").mkdir()

    async def test(api: Client) -> None:
        await owned(api)
        said = []
        for name in ("there", "nowhere"):
            host = [{"name": "h", "hostPath": {"path": str(private / name), "type": kind}}]
            await api.run(box("true", ("h", "/mnt")), name=name, volumes=host)
            said.append((await ended(api, name))[1].replace(name, "NAME"))
        assert said[0] == said[1]
        assert "Permission denied" in said[0]

    scenario(api_server, test, shared=True)


def test_the_type_of_a_path_is_judged_by_its_user(api_server: ServerProcess, machine: Path) -> None:
    mine = home(machine, ADA)
    (mine / "file").touch()

    async def test(api: Client) -> None:
        await owned(api)
        for kind, path in (("Directory", "file"), ("File", "."), ("Socket", "file")):
            host = [{"name": "h", "hostPath": {"path": str(mine / path), "type": kind}}]
            await api.run(box("true", ("h", "/mnt/x")), name=kind.lower(), volumes=host)
            phase, text = await ended(api, kind.lower())
            assert phase == "Failed"
            assert f"hostPath type check failed: {mine / path} is not a {kind}" in text

    scenario(api_server, test, shared=True)


def test_a_link_in_a_volume_made_by_hand_leads_nowhere(api_server: ServerProcess, machine: Path) -> None:
    """An admin made a volume of a directory of Ada's; she puts a link to root's in its place."""
    mine, roots = home(machine, ADA), machine / "roots"
    secret = roots / "open"
    secret.mkdir(parents=True)
    roots.chmod(0o700)
    (secret / "file").write_text("hers")
    (mine / "data").symlink_to(secret)
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "hand"}

    async def test(api: Client) -> None:
        await owned(api)
        name = f"{api.namespace}-hand"
        await _volume(api.connection, name, {**spec, "hostPath": {"path": str(mine / "data")}}, api.namespace)
        await api.run(box("cat /mnt/file", ("c", "/mnt")),
                      volumes=[{"name": "c", "persistentVolumeClaim": {"claimName": "hand"}}])  # fmt: skip
        phase, text = await ended(api)
        assert (phase, "hers" in text) == ("Failed", False), text
        assert "symbolic link" in text
        await api.connection.delete(VOLUMES, name)

    scenario(api_server, test, shared=True)


async def _volume(connection: Connection, name: str, spec: dict[str, Any], namespace: str) -> None:
    """A volume and its claim, bound, as the controller would."""
    claimed = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": spec["accessModes"]}
    body = {"metadata": {"name": "hand"}, "spec": {**claimed, "volumeName": name, "storageClassName": "hand"}}
    claim = await connection.create(VOLUME_CLAIMS, body, namespace)
    reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": "hand"}
    reference["uid"] = claim["metadata"]["uid"]
    await connection.create(VOLUMES, {"metadata": {"name": name}, "spec": {**spec, "claimRef": reference}})
    await connection.patch(VOLUME_CLAIMS, "hand", {"status": {"phase": "Bound"}}, namespace, "status")


def test_a_sub_path_leads_nowhere_out_of_its_volume(api_server: ServerProcess, machine: Path) -> None:
    outside = machine / "outside"
    outside.mkdir(mode=0o755)

    async def test(api: Client) -> None:
        await owned(api)
        for name, link in (("absolute", str(outside)), ("relative", "../../../../../../../../../../../../etc")):
            first = box(f"ln -s {link} /tmp/e/there", ("e", "/tmp/e"), name="first")
            main = container("main", "ls", "/mnt")
            main["volumeMounts"] = [{"name": "e", "mountPath": "/mnt", "subPath": "there"}]
            await api.run(main, name=name, initContainers=[first], volumes=[{"name": "e", "emptyDir": {}}])
            phase, text = await ended(api, name)
            assert phase == "Failed"
            assert "opening there in" in text
            assert "leads out of the volume" in text

    scenario(api_server, test, shared=True)


@pytest.mark.long
def test_folders_without_end_are_removed_with_their_pod(api_server: ServerProcess) -> None:
    """As deep as a recursion of Python goes, and deeper."""

    async def test(api: Client) -> None:
        await owned(api)
        script = "i=0; while [ $i -lt 1500 ]; do mkdir d && cd d; i=$((i+1)); done; touch end"
        pod = await api.run(box(f"cd /tmp; {script}; cd /tmp/e; {script}", ("e", "/tmp/e")),
                            volumes=[{"name": "e", "emptyDir": {}}])  # fmt: skip
        assert (await ended(api))[0] == "Succeeded"
        await gone(api)
        await until(lambda: not (api_server.data / "pods" / pod["metadata"]["uid"]).exists())

    scenario(api_server, test, shared=True)


def test_a_user_namespace_takes_no_mount_away_and_makes_none_writable(api_server: ServerProcess, machine: Path) -> None:
    """In an own user namespace a user has all capabilities, but not over inherited mounts."""
    mine, other = home(machine, ADA), machine / "other"
    other.mkdir()
    (other / "file").write_text("below")
    attack = "mount -o remount,bind,rw /mnt; touch /mnt/new; umount /tmp; umount -l /proc; ls /tmp"
    script = f"unshare --user --map-root-user --mount sh -c '{attack}'; touch /mnt/two; ls -A /mnt; echo done"

    async def test(api: Client) -> None:
        await owned(api)
        main = box(script, ("h", "/mnt"))
        main["volumeMounts"][0]["readOnly"] = True
        await api.run(main, volumes=[{"name": "h", "hostPath": {"path": str(mine)}}])
        phase, text = await ended(api)
        assert (phase, "done" in text.splitlines()) == ("Succeeded", True), text
        assert "Read-only file system" in text
        assert machine.name not in text, "the machine's /tmp was seen"

    scenario(api_server, test, shared=True)
    assert list(mine.iterdir()) == []


def test_the_data_directory_and_its_volumes_are_mounted_for_nobody(api_server: ServerProcess) -> None:
    places = [api_server.data, api_server.data / "tokens.csv", api_server.data / "pods"]

    async def test(api: Client) -> None:
        await owned(api)
        for number, place in enumerate(places):
            host = [{"name": "h", "hostPath": {"path": str(place)}}]
            await api.run(box("ls -a /mnt", ("h", "/mnt")), name=f"p{number}", volumes=host)
            phase, text = await ended(api, f"p{number}")
            assert (phase, text) == ("Failed", f"opening {place}: Permission denied")

    api_server.data.chmod(0o700)
    scenario(api_server, test, shared=True)


def test_a_pipe_in_place_of_a_file_holds_up_nobody(api_server: ServerProcess, machine: Path) -> None:
    """Opening a pipe for reading blocks until a writer opens it; root must not block on a user's pipe."""
    mine = home(machine, ADA)
    os.mkfifo(mine / "pipe")
    os.chown(mine / "pipe", ADA, ADA)

    async def test(api: Client) -> None:
        await owned(api)
        for name, kind in (("file", "File"), ("any", "")):
            host = [{"name": "h", "hostPath": {"path": str(mine / "pipe"), "type": kind}}]
            await api.run(box("test -p /mnt/x && echo pipe", ("h", "/mnt/x")), name=name, volumes=host)
        assert "is not a File" in (await ended(api, "file"))[1]
        await api.run(box("echo goes on"), name="other")
        assert await ended(api, "other") == ("Succeeded", "goes on")

    scenario(api_server, test, shared=True)


def test_the_process_of_root_in_a_container_is_neither_ended_nor_read(api_server: ServerProcess) -> None:
    """Process 1 of a container is Phalanx's, and root's by number: the container's user has no hold on it."""
    script = (
        "kill -9 1; kill -STOP 1; cat /proc/1/environ /proc/1/mem; ls -l /proc/1/cwd /proc/1/fd; "
        "echo -1000 > /proc/self/oom_score_adj; grep CapEff /proc/1/status; echo alive"
    )

    async def test(api: Client) -> None:
        await owned(api)
        await api.run(box(f"( {script} ) 2>&1"))
        phase, text = await ended(api)
        assert (phase, text.splitlines()[-1]) == ("Succeeded", "alive")
        assert text.count("Operation not permitted") + text.count("Permission denied") >= 5, text
        assert int(text.splitlines()[-2].split()[1], 16) & ~(1 << 5) == 0  # CAP_KILL alone

    scenario(api_server, test, shared=True)


# --- containers with images -------------------------------------------------------------------------------------------


@pytest.fixture
def image(api_server: ServerProcess, tmp_path: Path) -> str:
    folder = tmp_path / "allowed"
    folder.mkdir()
    if refusal := find_isolation(folder).root_refusal:
        pytest.skip(f"containers cannot have a root of their own here: {refusal}")
    root = small_root(tmp_path / "root")
    import_image(ImageStore(api_server.data), "small", str(root), Allowance())
    return "small"


def test_a_container_keeps_its_files_when_its_sibling_starts_again(api_server: ServerProcess, image: str) -> None:
    """`a` and `a-b` of one pod: what an earlier start of `a` left is removed, and nothing of `a-b`."""

    async def test(api: Client) -> None:
        await owned(api)
        late = box("cat /tmp/go || exit 1", name="a", image=image)
        script = "while sleep 0.1; do echo kept > /tmp/mine || exit 3; cat /tmp/mine || exit 3; rm /tmp/mine; done"
        beside = box(script, name="a-0", image=image)
        await api.run(beside, {**late, "args": []}, restartPolicy="Always")

        def restarted(pod: Any) -> bool:
            found = {one["name"]: one for one in pod["status"].get("containerStatuses") or ()}
            return found.get("a", {}).get("restartCount", 0) >= 2

        pod = await api.until(restarted)
        found = {one["name"]: one for one in pod["status"]["containerStatuses"]}
        assert found["a-0"]["restartCount"] == 0, await api.logs(container="a-0", previous="true")
        assert "kept" in await api.logs(container="a-0")
        await gone(api)

    scenario(api_server, test, shared=True)


SWAP = """
import os, sys
link, first, second = sys.argv[1:]
os.setgroups([]); os.setgid({user}); os.setuid({user})
while True:
    for target in (first, second):
        os.symlink(target, link + ".new")
        os.rename(link + ".new", link)
"""


def test_a_link_that_changes_meanwhile_has_root_make_nothing(
    api_server: ServerProcess, machine: Path, image: str
) -> None:
    """A mount point below a volume: the link changes between its check and the creation."""
    mine, etc = home(machine, ADA), machine / "etc"
    etc.mkdir(mode=0o755)
    link = mine / "link"
    link.symlink_to("/own")
    command = ["python3", "-c", SWAP.format(user=ADA), str(link), "/own", "/readable"]
    swapping = subprocess.Popen(command)

    async def test(api: Client) -> None:
        await owned(api)
        volumes = [
            {"name": "etc", "hostPath": {"path": str(etc)}},
            {"name": "mine", "hostPath": {"path": str(mine)}},
            {"name": "e", "emptyDir": {}},
        ]
        mounts = [("etc", "/readable"), ("mine", "/mine")]
        names = [f"p{number}" for number in range(16)]
        for name in names:
            points = [("e", f"/mine/link/{name}-{depth}/point") for depth in range(12)]
            await api.run(box("true", *mounts, *points, image=image), name=name, volumes=volumes)
        for name in names:
            await ended(api, name)

    try:
        scenario(api_server, test, shared=True)
    finally:
        swapping.kill()
        swapping.wait()
    assert sorted(path.name for path in etc.iterdir()) == []


def test_a_working_directory_is_made_where_its_user_may(api_server: ServerProcess, machine: Path, image: str) -> None:
    mine, etc = home(machine, ADA), machine / "etc"
    etc.mkdir(mode=0o755)
    (mine / "link").symlink_to("/readable")

    async def test(api: Client) -> None:
        await owned(api)
        volumes = [{"name": "etc", "hostPath": {"path": str(etc)}}, {"name": "mine", "hostPath": {"path": str(mine)}}]
        mounts = [("etc", "/readable"), ("mine", "/mine")]
        for name, place in (("direct", "/readable/new"), ("linked", "/mine/link/new")):
            await api.run(box("pwd", *mounts, image=image, workingDir=place), name=name, volumes=volumes)
            phase, text = await ended(api, name)
            assert (phase, "Permission denied" in text) == ("Failed", True), text
        for name, place in (("own", "/a/b/c"), ("hers", "/mine/x/y")):
            await api.run(box("stat -c %u .", *mounts, image=image, workingDir=place), name=name, volumes=volumes)
            assert await ended(api, name) == ("Succeeded", {"own": "0", "hers": str(ADA)}[name])

    scenario(api_server, test, shared=True)
    assert list(etc.iterdir()) == []
