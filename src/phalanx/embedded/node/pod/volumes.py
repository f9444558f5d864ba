"""Create a pod's volumes as directories of this machine, and the mounts of its containers.

Files of ConfigMaps, Secrets and the downward API are written once, before the first container starts. They are below a
directory that only the agent's user may enter; a container sees them through its mounts. A tmpfs (emptyDir with medium
Memory) is in /dev/shm, in which any user may write. So the agent creates a directory in /dev/shm that only its own user
may enter, and puts the tmpfs into it.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from phalanx.client.kind import CONFIG_MAPS, SECRETS, VOLUME_CLAIMS, VOLUMES, Kind
from phalanx.embedded.node.container.attempt import Mount
from phalanx.embedded.node.container.shim.syscalls import NO_SYMLINKS, make_resolved
from phalanx.embedded.node.images.unpack import folder
from phalanx.embedded.node.pod.environment import (
    EnvironmentFault,
    Lookup,
    Object,
    byte_data,
    expand,
    field,
    resource_field,
)
from phalanx.embedded.trees import remove_tree

TokenRequest = Callable[[str, str, Mapping[str, Any]], Awaitable[str]]  # namespace, service account, source -> token
_MEMORY = Path("/dev/shm")  # noqa: S108 - the machine's tmpfs, not a guessable file name
_DEFAULT_MODE = 0o644


async def set_up(
    pod: Object,
    root: Path,
    allocatable: Mapping[str, str],
    look_up: Lookup,
    token: TokenRequest,
    *,
    confined: bool = False,
) -> None:
    """Create every volume of the pod below `root`. `confined`: True if the pod runs as another user than the agent. Its
    hostPath volumes are then checked later, when they are mounted with the rights of this user. Raises
    EnvironmentFault, ApiError, OSError."""
    os.makedirs(root, mode=0o700, exist_ok=True)
    sources = _Sources(pod, allocatable, look_up, token, confined=confined)
    for volume in pod["spec"].get("volumes") or ():
        try:
            await _make(volume, root / volume["name"], sources)
        except (EnvironmentFault, OSError) as error:
            raise EnvironmentFault(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error


def give(root: Path, user: int, group: int) -> None:
    """Make the pod's user the owner of every file in its volumes. The owner of the folder `root` itself does not
    change. Raises OSError."""
    for place in root.iterdir() if root.exists() else ():
        # the volume of a claim continues to exist after the pod
        if place.is_symlink() and not _is_in_memory(place.resolve()):
            _give_claimed(place.resolve(), root, user, group)
            continue
        for _, folders, files, handle in os.fwalk(place.resolve()):
            os.chown(handle, user, group)
            for name in (*folders, *files):
                os.chown(name, user, group, dir_fd=handle, follow_symlinks=False)


def _give_claimed(place: Path, root: Path, user: int, group: int) -> None:
    """Make the pod's user the owner of a volume's top directory, if the agent created this directory. The content is
    not changed, because users may have created links to other users' files."""
    if place.parent == claimed_folder(root):
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchown(handle, user, group)
            os.fchmod(handle, 0o700)
        finally:
            os.close(handle)


def claimed_folder(root: Path) -> Path:
    """Return the folder of the volumes that continue to exist after their pods. It is in the same directory as the
    folder of the pods. `root`: the folder of a pod's volumes."""
    return root.parent.parent.parent.resolve() / "volumes"


def private_folders(root: Path, user: int, group: int, mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """Return mounts for a private /tmp and /var/tmp of the pod. A path at which the pod itself mounts a volume is left
    out. Raises OSError."""
    taken = {mount.target.rstrip("/") for mount in mounts}
    found = []
    for target, name in (("/tmp", ".tmp"), ("/var/tmp", ".var-tmp")):  # noqa: S108 - those that are hidden
        if target not in taken:
            place = root / name
            root.mkdir(mode=0o700, exist_ok=True)
            place.mkdir(mode=0o700, exist_ok=True)
            os.chown(place, user, group)
            found.append(Mount(source=str(place), target=target))
    return tuple(found)


def check_paths_of_machine(pod: Object) -> None:
    """Raise EnvironmentFault for hostPath volumes that the agent would have to create as root."""
    for volume in pod["spec"].get("volumes") or ():
        if (kind := (volume.get("hostPath") or {}).get("type") or "").endswith("OrCreate"):
            raise EnvironmentFault(f"volume {volume['name']}: hostPath of type {kind} is refused on a shared machine")


def remove(root: Path) -> None:
    """Remove all volumes of a pod, including volumes in memory."""
    for link in [place for place in root.iterdir() if place.is_symlink()] if root.exists() else ():
        if _is_in_memory(real := link.resolve()):
            remove_tree(real)
            with suppress(OSError):  # the folder still contains other volumes of the pod
                real.parent.rmdir()
        link.unlink()  # delete only the link, so that the volume of a claim stays
    remove_tree(root)


def mounts(container: Object, pod: Object, root: Path, env: Mapping[str, str]) -> tuple[Mount, ...]:
    """Return the mounts of the container, outer paths before inner ones. Raises EnvironmentFault."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    found = []
    for mount in container.get("volumeMounts") or ():
        volume = volumes[mount["name"]]
        host = volume.get("hostPath") or {}
        source, by_hand = _source_of(volume, root)
        below = mount.get("subPath") or expand(mount.get("subPathExpr") or "", env)
        _check_sub_path(below)
        claimed = volume.get("persistentVolumeClaim") or {}
        written = any(key in volume for key in ("configMap", "secret", "downwardAPI", "projected"))
        read_only = bool(mount.get("readOnly") or claimed.get("readOnly")) or written
        found.append(
            Mount(
                source=source,
                target=mount["mountPath"],
                read_only=read_only,
                below=below,
                by_user=bool(host),
                kind=host.get("type") or "",
                no_links=by_hand,
            )
        )
    return tuple(sorted(found, key=lambda mount: mount.target.count("/")))


def _source_of(volume: Object, root: Path) -> tuple[str, bool]:
    """Return the path of a volume, and True if an administrator created the volume by hand. Users may own parts of the
    path of such a volume."""
    if host := volume.get("hostPath"):
        return str(Path(host["path"])), False
    place = root / volume["name"]
    if "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
        return str(place), False
    kept = os.readlink(place)
    return kept, Path(kept).parent.resolve() != claimed_folder(root)


def _check_sub_path(below: str) -> None:
    if below.startswith("/") or ".." in Path(below).parts:
        raise EnvironmentFault(f"subPath {below!r} must be a relative path without '..'")


# --- kinds of volume --------------------------------------------------------------------------------------------------


class _Sources:
    """The sources of the files in a pod's volumes. Most methods return a mapping: name of a file -> content and
    mode."""

    def __init__(
        self,
        pod: Object,
        allocatable: Mapping[str, str],
        look_up: Lookup,
        token: TokenRequest,
        *,
        confined: bool,
    ) -> None:
        self.pod, self._allocatable, self._look_up, self._token = pod, allocatable, look_up, token
        self.confined = confined

    async def keys(self, kind: Kind, source: Object, mode: int) -> dict[str, tuple[bytes, int]]:
        space = self.pod["metadata"]["namespace"]
        name = source.get("secretName") or source.get("name") or ""
        owner = await self._look_up(kind, space, name)
        if owner is None:
            if source.get("optional"):
                return {}
            raise EnvironmentFault(f'{kind.name.lower()} "{name}" not found')
        data = byte_data(kind, owner)
        if source.get("items") is None:
            return {key: (value, mode) for key, value in data.items()}
        missing = [item["key"] for item in source["items"] if item["key"] not in data]
        if missing and not source.get("optional"):
            raise EnvironmentFault(f"references non-existent {kind.name.lower()} key: {missing[0]}")
        chosen = [item for item in source["items"] if item["key"] in data]
        return {item["path"]: (data[item["key"]], item.get("mode") or mode) for item in chosen}

    def downward(self, source: Object, mode: int) -> dict[str, tuple[bytes, int]]:
        found = {}
        for item in source.get("items") or ():
            if "fieldRef" in item:
                text = field(item["fieldRef"]["fieldPath"], self.pod)
            else:
                text = resource_field(item["resourceFieldRef"], {}, self.pod, self._allocatable)
            found[item["path"]] = (text.encode(), item.get("mode") or mode)
        return found

    async def claimed(self, place: Path, name: str) -> None:
        """Create a link to the directory of the volume to which the claim is bound."""
        claim = await self._look_up(VOLUME_CLAIMS, self.pod["metadata"]["namespace"], name)
        if claim is None:
            raise EnvironmentFault(f'persistentvolumeclaim "{name}" not found')
        if (claim.get("status") or {}).get("phase") != "Bound":
            raise EnvironmentFault(f"persistentvolumeclaim {name} is not bound yet")
        volume = await self._look_up(VOLUMES, "", claim["spec"]["volumeName"])
        spec = volume["spec"] if volume is not None else {}
        if (spec.get("claimRef") or {}).get("uid") != claim["metadata"]["uid"]:
            raise EnvironmentFault(f"the volume of persistentvolumeclaim {name} is missing, or is another claim's")
        source = spec.get("hostPath") or spec.get("local")
        if source is None:
            raise EnvironmentFault(f"the volume of persistentvolumeclaim {name} is not a directory (hostPath, local)")
        if not self.confined:
            _check_host_path(source)
        elif source.get("type") == "DirectoryOrCreate":
            with folder(Path("/")) as top:
                os.close(make_resolved(top, source["path"], NO_SYMLINKS))
        _link(place, source["path"])

    async def projected(self, source: Object) -> dict[str, tuple[bytes, int]]:
        mode = source.get("defaultMode") or _DEFAULT_MODE
        found: dict[str, tuple[bytes, int]] = {}
        for part in source.get("sources") or ():
            match part:
                case {"configMap": inner}:
                    found |= await self.keys(CONFIG_MAPS, inner, mode)
                case {"secret": inner}:
                    found |= await self.keys(SECRETS, inner, mode)
                case {"downwardAPI": inner}:
                    found |= self.downward(inner, mode)
                case {"serviceAccountToken": inner}:
                    account = self.pod["spec"].get("serviceAccountName") or "default"
                    text = await self._token(self.pod["metadata"]["namespace"], account, inner)
                    found[inner["path"]] = (text.encode(), mode)  # readable by any user of the container
                case _:
                    raise EnvironmentFault(f"projected source {', '.join(part)} is not supported here")
        return found


async def _make(volume: Object, place: Path, sources: _Sources) -> None:
    match volume:
        case {"emptyDir": {"medium": str(medium)}} if medium.startswith("HugePages"):
            raise EnvironmentFault(
                f"emptyDir of medium {medium} is not supported on this node; programs use huge pages by mmap "
                "or shmget here, and request them as hugepages-2Mi or hugepages-1Gi"
            )
        case {"emptyDir": source}:
            _make_empty(place, (source or {}).get("medium") == "Memory", sources.pod["metadata"]["uid"])
        case {"hostPath": source}:
            if not sources.confined:
                _check_host_path(source)
        case {"configMap": source}:
            mode = source.get("defaultMode") or _DEFAULT_MODE
            _write_files(place, await sources.keys(CONFIG_MAPS, source, mode))
        case {"secret": source}:
            mode = source.get("defaultMode") or 0o600
            _write_files(place, await sources.keys(SECRETS, source, mode))
        case {"downwardAPI": source}:
            _write_files(place, sources.downward(source, source.get("defaultMode") or _DEFAULT_MODE))
        case {"projected": source}:
            _write_files(place, await sources.projected(source))
        case {"persistentVolumeClaim": source}:
            await sources.claimed(place, source["claimName"])
        case {"ephemeral": _}:
            await sources.claimed(place, f"{sources.pod['metadata']['name']}-{volume['name']}")
        case {"name": name, **kinds}:
            raise EnvironmentFault(
                f"{', '.join(kinds)} volumes are not supported on this node (volume {name}); use emptyDir, configMap, "
                "secret, downwardAPI, projected, hostPath or persistentVolumeClaim"
            )


def _link(place: Path, path: str) -> None:
    if not place.is_symlink():
        place.symlink_to(path)


def _make_empty(place: Path, in_memory: bool, uid: str) -> None:
    if in_memory and _MEMORY.is_dir() and not place.is_symlink():
        real = _own_folder(_MEMORY / f"phalanx-{uid}") / place.name
        real.mkdir(exist_ok=True)
        real.chmod(0o777)
        place.symlink_to(real)
    elif not place.is_symlink():
        place.mkdir(exist_ok=True)
        place.chmod(0o777)


def _own_folder(place: Path) -> Path:
    """Create a directory that only the agent may enter. Raises EnvironmentFault if another user has created it before.
    (The uid of a pod is known before its start.)"""
    with suppress(FileExistsError):
        place.mkdir(mode=0o700)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise EnvironmentFault(f"{place} was created by another user; remove it")
    return place


def _is_in_memory(real: Path) -> bool:
    return _MEMORY in (real.parent, real.parent.parent)  # earlier versions of Phalanx used the second of these folders


def _check_host_path(source: Object) -> None:
    """Check the type of a hostPath volume, as in pkg/volume/hostpath."""
    path, wanted = Path(source["path"]), source.get("type") or ""
    match wanted:
        case "DirectoryOrCreate":
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        case "FileOrCreate" if not path.exists():
            path.touch(mode=0o644)
    good = {"Directory": path.is_dir, "File": path.is_file, "Socket": path.is_socket}.get(wanted, path.exists)
    if not good():
        raise EnvironmentFault(f"hostPath type check failed: {path} is not {'there' if not wanted else f'a {wanted}'}")


def _write_files(place: Path, files: Mapping[str, tuple[bytes, int]]) -> None:
    """Write a new directory and move it into place in one step, so that a crash leaves no partial directory."""
    draft = place.with_name(place.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o755)
    for name, (content, mode) in files.items():
        path = draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        path.chmod(mode)
    if place.exists():
        shutil.rmtree(place)
    draft.rename(place)
