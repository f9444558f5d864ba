"""Read an image from the files of a folder: an OCI image layout (image-spec, image-layout.md), or the output of `docker
save`.

Every blob is checked against its digest. If there are several images, the tag selects one of them. If an image exists
for several platforms, the platform of this machine is selected.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import platform
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from phalanx.embedded.node.images.unpack import folder, open_inside, read_bounded
from phalanx.errors import PhalanxError

_JSON_BYTES = 8 << 20  # the maximum size of a manifest or configuration
_MOST_LAYERS = 127  # the maximum number of layers, as in Docker
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # image-spec uses Go's names of architectures
_TAG = "org.opencontainers.image.ref.name"


class _Platform(msgspec.Struct, frozen=True):
    architecture: str = ""
    os: str = ""


class _Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    digest: str
    media_type: str = ""
    platform: _Platform | None = None
    annotations: dict[str, str] = {}


class _Index(msgspec.Struct, frozen=True):
    manifests: list[_Descriptor]


class _Manifest(msgspec.Struct, frozen=True):
    config: _Descriptor
    layers: list[_Descriptor]


class _Saved(msgspec.Struct, frozen=True, rename="pascal"):
    config: str
    layers: list[str]
    repo_tags: list[str] | None = None


class Execution(msgspec.Struct, frozen=True, rename="pascal"):
    """The configuration of an image for its containers (image-spec, config.md, `config`)."""

    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    env: list[str] | None = None
    working_dir: str = ""
    user: str = ""


class _RootFs(msgspec.Struct, frozen=True):
    diff_ids: list[str] = []


class _Config(msgspec.Struct, frozen=True):
    config: Execution | None = None
    rootfs: _RootFs = _RootFs()
    architecture: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """An image in a layout. `layers`: the paths of its layers in the layout, the lowest first. `diff_ids`: the SHA-256
    of each unpacked layer."""

    digest: str
    execution: Execution
    layers: tuple[str, ...]
    diff_ids: tuple[str, ...]


def read_layout(path: Path, tag: str = "") -> LaidOut:
    """Return the image with the tag `tag`; with "", the only image of the layout. Raises PhalanxError."""
    try:
        with folder(path) as root:
            found = _of_oci(root, path, tag) if (path / "oci-layout").exists() else _of_docker(root, path, tag)
    except OSError as error:
        raise PhalanxError(f"{path} has no {error.filename}: {error.strerror}. Nothing was imported") from error
    except msgspec.MsgspecError as error:
        raise PhalanxError(f"{path} is not an image: {error}. Nothing was imported") from error
    if not 0 < len(found.layers) <= _MOST_LAYERS or len(found.layers) != len(found.diff_ids):
        raise PhalanxError(f"{path} has an image of {len(found.layers)} layers; at most {_MOST_LAYERS} are allowed")
    return found


def _of_oci(root: int, path: Path, tag: str) -> LaidOut:
    index = msgspec.json.decode(read_bounded(root, "index.json", _JSON_BYTES), type=_Index)
    named = [one for one in index.manifests if not tag or one.annotations.get(_TAG, "") == tag]
    manifest = _descend(root, path, named)
    said = msgspec.json.decode(_blob(root, manifest.config.digest), type=_Config)
    _require_platform(path, said.architecture)
    return LaidOut(
        digest=manifest.config.digest,
        execution=said.config or Execution(),
        layers=tuple(_path(one.digest) for one in manifest.layers),
        diff_ids=tuple(_hex(one) for one in said.rootfs.diff_ids),
    )


def _descend(root: int, path: Path, named: list[_Descriptor], depth: int = 0) -> _Manifest:
    """Return the manifest for this machine's platform. Indices may be nested: an index may name other indices."""
    mine = [one for one in named if one.platform is None or _suits(one.platform)]
    if len(mine) != 1 or depth > 3:
        tags = sorted({one.annotations.get(_TAG, "") for one in named} - {""})
        raise PhalanxError(
            f"{path} has {len(mine)} images for this machine ({', '.join(tags[:9]) or 'without tags'}); name one of "
            "them: PATH:TAG. Nothing was imported"
        )
    text = _blob(root, mine[0].digest)
    if "manifests" in msgspec.json.decode(text, type=dict[str, msgspec.Raw]):
        return _descend(root, path, msgspec.json.decode(text, type=_Index).manifests, depth + 1)
    return msgspec.json.decode(text, type=_Manifest)


def _of_docker(root: int, path: Path, tag: str) -> LaidOut:
    saved = msgspec.json.decode(read_bounded(root, "manifest.json", _JSON_BYTES), type=list[_Saved])
    mine = [one for one in saved if not tag or any(name.endswith(f":{tag}") for name in one.repo_tags or ())]
    if len(mine) != 1:
        raise PhalanxError(f"{path} has {len(mine)} such images; name one: PATH:TAG. Nothing was imported")
    text = read_bounded(root, mine[0].config, _JSON_BYTES)
    said = msgspec.json.decode(text, type=_Config)
    _require_platform(path, said.architecture)
    return LaidOut(
        digest=f"sha256:{_sha256(text)}",
        execution=said.config or Execution(),
        layers=tuple(mine[0].layers),
        diff_ids=tuple(_hex(one) for one in said.rootfs.diff_ids),
    )


def _suits(one: _Platform) -> bool:
    return one.os in ("", "linux") and one.architecture in ("", _architecture())


def _architecture() -> str:
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def _require_platform(path: Path, architecture: str) -> None:
    if architecture not in ("", _architecture()):
        raise PhalanxError(f"{path} is for {architecture} machines, and this one is {_architecture()}")


def _hex(digest: str) -> str:
    if (found := _DIGEST.fullmatch(digest)) is None:
        raise PhalanxError(f"{digest[:100]!r} is not a SHA-256 digest. Nothing was imported")
    return found[1]


def _path(digest: str) -> str:
    return f"blobs/sha256/{_hex(digest)}"


def _blob(root: int, digest: str) -> bytes:
    data = read_bounded(root, _path(digest), _JSON_BYTES)
    if _sha256(data) != _hex(digest):
        raise PhalanxError(f"the blob {digest} is damaged. Nothing was imported")
    return data


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- archives ---------------------------------------------------------------------------------------------------

_BY_MAGIC: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
_ZSTD = b"\x28\xb5\x2f\xfd"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open an archive that a user provides, and yield its content, which is decompressed while it is read. Raises
    PhalanxError."""
    try:
        with path.open("rb") as file, _unpacked(file, str(path)) as content:
            yield content
    except (lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise PhalanxError(f"{path} is damaged: {error}. Nothing was imported") from error


@contextmanager
def opened_layer(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a layer of a layout, and yield its content, which is decompressed while it is read. Raises OSError,
    PhalanxError."""
    try:
        with folder(path) as root, os.fdopen(open_inside(root, name), "rb") as file, _unpacked(file, name) as content:
            yield content
    except (lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise PhalanxError(f"the layer {name} is damaged: {error}. Nothing was imported") from error


@contextmanager
def _unpacked(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(_ZSTD):
        with _by_zstd(file, name) as content:
            yield content
        return
    for known, reader in _BY_MAGIC.items():
        if magic.startswith(known):
            with reader(file) as content:
                yield content
            return
    yield file


@contextmanager
def _by_zstd(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    if shutil.which("zstd") is None:
        raise PhalanxError(f"{name} is compressed by zstd, which is not installed: apt-get install zstd")
    with subprocess.Popen(["zstd", "-dcq"], stdin=file, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
