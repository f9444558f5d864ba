"""Store the images of this machine: one record for each name, and one folder for each layer.

    images/names/HASH.json   the image of one name; written atomically
    images/layers/DIGEST/    the files of a layer, or of a root file system
    images/lock              held shared while layers are used or created, exclusively while unused layers are deleted

A layer without a record and without a running container is deleted. Only the owner may enter the folder `images`,
because files below it may have the set-user-ID bit.

`normalized` interprets names of images in the same way as registries and container runtimes
(github.com/distribution/reference).

`debian` is `docker.io/library/debian:latest`: an image that is imported under one of these names can be used under the
others."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from phalanx.embedded.node.container.attempt import Exited, attempts
from phalanx.embedded.node.container.durable import write_whole
from phalanx.embedded.node.container.image import Image
from phalanx.errors import PhalanxError

_MOST = 255
_NAME = re.compile(
    r"(?P<path>[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def normalized(name: str) -> str:
    """Return the full name: registry, path, and tag or digest. Raises PhalanxError."""
    found = _NAME.fullmatch(name) if len(name) <= _MOST else None
    if found is None:
        raise PhalanxError(
            f"{name[:_MOST]!r} is not the name of an image; write [REGISTRY/]NAME[:TAG], such as debian:12 or "
            "registry.example.org/team/train:1.4"
        )
    path, tag, digest = found["path"], found["tag"], found["digest"]
    if ":" in path and "/" not in path:  # a colon before a slash precedes a port, and any other colon precedes a tag
        path, _, tag = path.partition(":")
    first, slash, rest = path.partition("/")
    if not slash:
        path = f"docker.io/library/{path}"
    elif not ("." in first or ":" in first or first == "localhost"):
        path = f"docker.io/{path}"
    elif first == "docker.io" and "/" not in rest:
        path = f"docker.io/library/{rest}"
    return f"{path}@{digest}" if digest else f"{path}:{tag or 'latest'}"


_DRAFT = ".new-"
_PATIENCE_S, _LOOK_S = 10.0, 0.05


class StoredImage(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an image. `layers`: the names of the layers' folders, the lowest first. `digest`: the digest of the
    image's configuration; for a root file system, a random identifier. `source`: the origin of the image."""

    name: str
    digest: str
    layers: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    working_dir: str = ""
    user: str = ""
    size_bytes: int = 0
    imported_s: float = 0.0
    source: str = ""


class ImageStore:
    """The images below one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._folder, self._pods = data_dir / "images", data_dir / "pods"

    def find(self, name: str) -> Image | None:
        """Return the image of this name, with the files and settings for its containers; None if there is none. Raises
        OSError."""
        try:
            record = self._read(self._place(normalized(name)))
        except (PhalanxError, FileNotFoundError):
            return None
        return Image(
            entrypoint=record.entrypoint,
            command=record.command,
            env=record.env,
            cwd=record.working_dir,
            layers=tuple(str(self._layers / one) for one in reversed(record.layers)),
            user=record.user,
            digest=record.digest,
        )

    def listed(self) -> list[StoredImage]:
        """Return all images, sorted by name. Raises OSError."""
        with suppress(FileNotFoundError):
            found = [self._read(path) for path in self._names.glob("*.json")]
            return sorted(found, key=lambda one: one.name)
        return []

    def layer(self, name: str) -> Path | None:
        """Return the folder of the layer; None if it does not exist."""
        place = self._layers / name
        return place if place.is_dir() else None

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Yield a folder for the files of a new layer. Unless `keep` has moved it, it is deleted at the end of this
        context."""
        self._layers.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        place = self._layers / f"{_DRAFT}{uuid.uuid4().hex}"
        place.mkdir(mode=0o755)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def keep(self, draft: Path, name: str) -> None:
        """Move the draft to the layer of that name, unless the layer exists. Raises OSError."""
        with suppress(FileExistsError, OSError):
            draft.rename(self._layers / name)
        if not (self._layers / name).is_dir():
            raise OSError(0, "the layer is not there", name)

    def add(self, record: StoredImage) -> None:
        """Add the image. It replaces an image with the same name. Raises OSError."""
        self._names.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._place(record.name), msgspec.json.encode(record))

    def remove(self, name: str) -> StoredImage:
        """Delete the record of the image, and return it. Raises PhalanxError, OSError."""
        place = self._place(normalized(name))
        try:
            record = self._read(place)
        except FileNotFoundError:
            raise PhalanxError(f"there is no image {name}; `phalanx image list` shows all images") from None
        place.unlink()
        return record

    def sweep(self) -> int | None:
        """Delete unused layers, and return their number; None if another process holds the lock. Raises OSError."""
        if not self._layers.is_dir():
            return 0
        with self._locked(fcntl.LOCK_EX) as got:
            if not got:
                return None
            needed = {name for record in self.listed() for name in record.layers} | self._running()
            unneeded = [place for place in self._layers.iterdir() if place.name not in needed]
            for place in unneeded:
                shutil.rmtree(place, ignore_errors=True)
            return sum(not place.name.startswith(_DRAFT) for place in unneeded)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Prevent the deletion of layers in this context. Raises PhalanxError, OSError."""
        with self._locked(fcntl.LOCK_SH) as got:
            if not got:
                raise PhalanxError("layers of images are being removed; try again in a moment")
            yield

    @contextmanager
    def _locked(self, how: int) -> Iterator[bool]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield _flock(handle, how)
        finally:
            os.close(handle)

    def _running(self) -> set[str]:
        """Return the names of the layers that running or starting containers use."""
        found: set[str] = set()
        for spec in self._pods.glob("*/*/*.spec.json"):
            for attempt in attempts(spec.parent)[-1:]:
                root = attempt.spec.root
                if root is not None and not isinstance(attempt.state(), Exited):
                    found.update(Path(layer).name for layer in root.layers)
        return found

    @property
    def _names(self) -> Path:
        return self._folder / "names"

    @property
    def _layers(self) -> Path:
        return self._folder / "layers"

    def _place(self, name: str) -> Path:
        return self._names / f"{hashlib.sha256(name.encode()).hexdigest()}.json"

    def _read(self, path: Path) -> StoredImage:
        return msgspec.json.decode(path.read_bytes(), type=StoredImage)


def _flock(handle: int, how: int) -> bool:
    end_s = time.monotonic() + (_PATIENCE_S if how == fcntl.LOCK_EX else 0.0)
    while True:
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end_s:
                return False
            time.sleep(_LOOK_S)


def bytes_of(places: Iterable[Path]) -> int:
    """Return the bytes on the disk that the files below these folders use. A file with several links is counted once.
    Raises OSError."""
    seen: dict[tuple[int, int], int] = {}
    for place in places:
        for above, _, files in os.walk(place):
            for name in files:
                status = os.lstat(os.path.join(above, name))
                seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(seen.values())
