"""Containers with images: real processes that see other files than the machine's."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.kind import NAMESPACES, NODES
from phalanx.embedded.node.container.isolation import find_isolation
from phalanx.embedded.node.images.sources import import_image
from phalanx.embedded.node.images.store import ImageStore
from phalanx.embedded.node.images.unpack import Allowance
from phalanx.embedded.node.run import confinement
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.node.images.roots import archive, layout, member, small_root
from tests.embedded.node.machine import Client, scenario
from tests.embedded.node.waiting import until

ADA = 51234
EXECUTION = {"Entrypoint": ["sh", "-c"], "Cmd": ["cat /etc/os-release"], "Env": ["PATH=/bin", "FROM=image"]}


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_root(tmp_path_factory.mktemp("root") / "root")


@pytest.fixture(scope="module")
def layouts(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two images with the files of `root`, by their release."""
    folder, files = tmp_path_factory.mktemp("layouts"), archive(root)

    def made(release: str) -> Path:
        said = archive(member("etc/os-release", f"VERSION_CODENAME={release}\n".encode(), mode=0o644))
        return layout(folder / release, files, said, config=EXECUTION)

    return {release: made(release) for release in ("bookworm", "trixie")}


@pytest.fixture(autouse=True)
def images(api_server: ServerProcess, layouts: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "allowed"
    folder.mkdir()
    if refusal := find_isolation(folder).root_refusal:
        pytest.skip(f"containers cannot have a root of their own here: {refusal}")
    store = ImageStore(api_server.data)
    for release, made in layouts.items():
        import_image(store, f"small:{release}", str(made), Allowance())


def box(script: str = "", image: str = "small:bookworm", **more: Any) -> dict[str, Any]:
    return {"name": "main", "image": image, **({"args": [script]} if script else {}), **more}


async def said(api: Client, script: str, name: str = "p", image: str = "small:bookworm", **more: Any) -> str:
    """What a container writes that ends well."""
    await api.run(box(script, image, **more.pop("box", {})), name=name, **more)
    pod = await api.until(lambda pod: pod is not None and pod["status"].get("phase") in ("Succeeded", "Failed"), name)
    text = await api.logs(name)
    assert pod["status"]["phase"] == "Succeeded", (text, pod["status"])
    await api.delete(name, gracePeriodSeconds=0)
    await api.until(lambda pod: pod is None, name)
    return text


async def says(api: Client, text: str) -> bool:
    """Whether the container has written that by now."""
    return text in await api.logs()


def test_each_pod_sees_the_files_of_its_image_and_none_of_the_machine(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        for release in ("bookworm", "trixie"):
            await api.run(box(image=f"small:{release}"), name=release)
        for release in ("bookworm", "trixie"):
            pod = await api.phase("Succeeded", release)
            assert await api.logs(release) == f"VERSION_CODENAME={release}"
            assert pod["status"]["containerStatuses"][0]["imageID"].startswith("sha256:")
        text = await said(api, "ls / /dev; ls /proc | grep -c '^[0-9]'; echo $FROM $HOME $PATH; cat /etc/hosts")
        words = text.split()
        assert {"bin", "etc", "proc", "sys", "tmp", "null", "urandom", "shm", "pts"} <= set(words)
        assert not {"home", "work", "sda", "vda", "kmsg", "mem"} & set(words)
        assert "image / /bin" in text or "image /root /bin" in text
        assert "localhost" in text

    scenario(api_server, test)


def test_what_it_writes_is_its_own_and_gone_when_it_starts_again(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        script = "ls /new; echo x > /etc/os-release && mkdir /new && rm /bin/head && ls /new /bin; exit 1"
        pod = await api.run(box(script), restartPolicy="OnFailure")
        await api.until(lambda pod: pod["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 1)
        assert "/new" in await api.logs(previous="true")
        await until(lambda: says(api, "No such file"))  # nothing of the first start is left
        await api.delete(gracePeriodSeconds=0)
        await api.until(lambda pod: pod is None)
        folder = api_server.data / "pods" / pod["metadata"]["uid"]
        await until(lambda: not folder.exists())
        assert await said(api, "", name="q") == "VERSION_CODENAME=bookworm"

    scenario(api_server, test)


def test_without_overlayfs_the_files_are_copied(api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(folder: Path) -> Any:
        return replace(find_isolation(folder), overlay_refusal="not here")

    monkeypatch.setattr(confinement, "find_isolation", without)

    async def test(api: Client) -> None:
        assert await said(api, "cat /etc/os-release; echo x > /etc/os-release; rm /bin/head") == (
            "VERSION_CODENAME=bookworm"
        )
        assert await said(api, "ls /bin | grep head; cat /etc/os-release") == "head\nVERSION_CODENAME=bookworm"
        assert await condition(api) == ("True", "Copied")

    scenario(api_server, test)


async def condition(api: Client) -> tuple[str, str]:
    """Whether the node says that it runs images, and how."""
    status = (await api.connection.get(NODES, api.node))["status"]
    found = next(one for one in status["conditions"] if one["type"] == "ImagesSupported")
    return found["status"], found["reason"]


def test_without_namespaces_an_image_is_refused_with_words(
    api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(folder: Path) -> Any:
        return replace(find_isolation(folder), root_refusal="unshare: Operation not permitted")

    monkeypatch.setattr(confinement, "find_isolation", without)

    async def test(api: Client) -> None:
        await api.run(box("true"))
        assert "needs a root of its own, which this machine does not allow (unshare" in await api.waits(
            "CreateContainerConfigError"
        )
        assert await condition(api) == ("False", "NoNamespaces")

    scenario(api_server, test)


def test_volumes_are_mounted_within_and_links_of_the_image_lead_nowhere_else(
    api_server: ServerProcess, root: Path, tmp_path: Path
) -> None:
    """An image whose mount points are links to files of the machine: they are its own files of that name."""
    outside = tmp_path / "outside"
    outside.mkdir()
    own = member(str(outside).lstrip("/"), type=b"5", mode=0o755)
    links = archive(own, member("data", type=b"2", linkname=str(outside)), member("up", type=b"2", linkname="../../.."))
    made = layout(tmp_path / "links", archive(root), links, config=EXECUTION)
    import_image(ImageStore(api_server.data), "links", str(made), Allowance())

    async def test(api: Client) -> None:
        mounts = [
            {"name": "e", "mountPath": "/data/deep/er"},
            {"name": "e", "mountPath": "/up/above"},
            {"name": "c", "mountPath": "/made/for/it", "readOnly": True},
        ]
        volumes = [{"name": "e", "emptyDir": {}}, {"name": "c", "emptyDir": {}}]
        script = f"touch {outside}/deep/er/x && ls /above && ! touch /made/for/it/x && ls {outside}"
        text = await said(api, script, image="links", box={"volumeMounts": mounts}, volumes=volumes)
        assert [line for line in text.splitlines() if "touch" not in line] == ["x", "deep"]

    scenario(api_server, test)
    assert list(outside.iterdir()) == []


def test_root_in_it_is_not_the_machines(api_server: ServerProcess) -> None:
    """No mounts, no devices, no settings of the kernel."""

    async def test(api: Client) -> None:
        script = (
            "id -u; grep CapBnd /proc/self/status; mknod /tmp/d b 7 0; echo 1 > /proc/sys/kernel/panic; "
            "mkdir /sys/x; ls /sys/firmware; cat /proc/timer_list /proc/keys"
        )
        user, bounding, *rest = (await said(api, script)).splitlines()
        assert user == "0"
        assert int(bounding.split()[1], 16) & (1 << 21 | 1 << 27 | 1 << 13 | 1 << 16) == 0  # SYS_ADMIN, MKNOD, NET_RAW
        assert len(rest) == 3 + rest.count("/sys/firmware:"), rest
        assert "".join(rest).count("Read-only file system") == 2
        assert "".join(rest).count("Operation not permitted") == 1

    scenario(api_server, test)


def test_users_of_the_image_and_of_the_pod(api_server: ServerProcess, root: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("other users are root's to give")
    made = layout(tmp_path / "app", archive(root), config={**EXECUTION, "User": "app", "WorkingDir": "/srv/app"})
    store = ImageStore(api_server.data)
    import_image(store, "app", str(made), Allowance())
    made = layout(tmp_path / "nobody", archive(root), config={**EXECUTION, "User": "no-such-user"})
    import_image(store, "nobody", str(made), Allowance())

    async def test(api: Client) -> None:
        script = "id -u; id -g; id -G; echo $HOME; readlink /proc/self/cwd; grep CapEff /proc/self/status"
        assert (await said(api, script, image="app")).split() == [
            *("1234", "1235", "1235", "44", "/home/app", "/srv/app", "CapEff:", "0" * 16)
        ]
        context = {"runAsUser": 77, "runAsGroup": 78}
        assert (await said(api, "id -u; id -g", image="app", securityContext=context)).split() == ["77", "78"]
        await api.run(box("true", "nobody"), name="nobody")
        pod = await api.phase("Failed", "nobody")
        assert "'no-such-user', which is not in its /etc/passwd" in pod["status"]["message"]

    scenario(api_server, test)


def test_capabilities_and_a_root_that_cannot_be_written(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        script = "grep -E 'CapBnd|NoNew' /proc/self/status; ! touch /x 2>/dev/null; touch /dev/shm/y"
        context = {
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
        }
        text = await said(api, script, box={"securityContext": context})
        assert text.split() == ["CapBnd:", "0" * 15 + "1", "NoNewPrivs:", "1"]

    scenario(api_server, test)


def test_commands_beside_it_are_in_it_with_its_rights(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        check = {"exec": {"command": ["sh", "-c", "cat /etc/os-release; grep CapBnd /proc/self/status; exit 1"]}}
        probe = {**check, "periodSeconds": 1, "failureThreshold": 1}
        await api.run(box("sleep 1000", livenessProbe=probe), terminationGracePeriodSeconds=1)
        message = (await api.phase("Failed"))["status"]["message"]
        assert "VERSION_CODENAME=bookworm" in message, message
        assert int(message.partition("CapBnd:\t")[2][:16], 16) & (1 << 21) == 0
        assert "killed by SIGTERM (exit code 143)" in message

    scenario(api_server, test)


def test_on_a_shared_machine_it_is_its_owners(api_server: ServerProcess) -> None:
    if os.geteuid() != 0:
        pytest.skip("pods of other users can be started by root alone")

    async def test(api: Client) -> None:
        notes = {"phalanx.dev/uid": str(ADA), "phalanx.dev/gid": str(ADA)}
        await api.connection.patch(NAMESPACES, api.namespace, {"metadata": {"annotations": notes}})
        text = await said(
            api,
            "id -u; grep -E 'CapBnd|NoNew' /proc/self/status; ! touch /x 2>&1 >/tmp/y; cat /etc/os-release",
        )
        assert text.split()[:5] == [str(ADA), "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]
        assert text.splitlines()[-1] == "VERSION_CODENAME=bookworm"

    scenario(api_server, test, shared=True)


def test_an_image_that_is_not_there_is_taken_as_soon_as_it_is(api_server: ServerProcess, root: Path) -> None:
    async def test(api: Client) -> None:
        name = f"late-{os.getpid()}"
        await api.run(box("cat /etc/os-release", image=name, command=["sh", "-c"]))
        assert f"phalanx image import {name}" in await api.waits("ErrImagePull")
        import_image(ImageStore(api_server.data), name, str(root), Allowance())
        await api.phase("Succeeded")
        assert "VERSION_CODENAME=small" in await api.logs()

    scenario(api_server, test)


def test_a_killed_supervisor_takes_its_container_along(api_server: ServerProcess) -> None:
    async def test(api: Client) -> None:
        pod = await api.run(box("sleep 1000"))
        await api.phase("Running")
        place = api_server.data / "pods" / pod["metadata"]["uid"] / "main" / "0.run.json"
        import json

        os.kill(json.loads(place.read_text())["shim_pid"], 9)
        pod = await api.phase("Failed")
        assert "supervisor of this container was killed" in pod["status"]["message"]

    scenario(api_server, test)


def test_nothing_is_made_on_a_machine_that_is_shared_in_roots_name(api_server: ServerProcess, tmp_path: Path) -> None:
    """A user who may read a directory of the machine can mount it, but files that the user may not create there are not
    created."""
    if os.geteuid() != 0:
        pytest.skip("pods of other users can be started by root alone")
    place = tmp_path / "etc"
    place.mkdir(mode=0o755)
    for folder in (*tmp_path.parents, tmp_path):
        folder.chmod(folder.stat().st_mode | 0o011)
    volumes = [{"name": "v", "hostPath": {"path": str(place)}}, {"name": "e", "emptyDir": {}}]
    mount = {"name": "v", "mountPath": "/mnt"}
    made = {"below": {"name": "e", "mountPath": "/mnt/cron"}, "beside": {"name": "e", "mountPath": "/own/new"}}

    async def test(api: Client) -> None:
        notes = {"phalanx.dev/uid": str(ADA), "phalanx.dev/gid": str(ADA)}
        await api.connection.patch(NAMESPACES, api.namespace, {"metadata": {"annotations": notes}})
        await api.run(box("true", volumeMounts=[mount, made["below"]]), name="below", volumes=volumes)
        await api.run(box("true", volumeMounts=[mount], workingDir="/mnt/here"), name="here", volumes=volumes)
        for name, what in (("below", "/mnt/cron: Permission denied"), ("here", "/mnt/here: Permission denied")):
            assert what in (await api.phase("Failed", name))["status"]["message"]
        text = await said(
            api, "ls /own; stat -c %u .", volumes=volumes, box={"volumeMounts": [made["beside"]], "workingDir": "/a/b"}
        )
        assert text == "new\n0"  # in a root of its own

    scenario(api_server, test, shared=True)
    assert list(place.iterdir()) == []
