"""Import an image from an OCI layout, an archive, a folder, a registry, or a Debian suite.

The program skopeo reads images from registries (it also handles logins and signatures), and debootstrap builds Debian
systems. Both programs are called without a shell, and arguments from users cannot be parsed as options.

`copy_tree` copies the layers of an image into one tree of files, for machines without overlay mounts, and copies root
file systems from a folder. A link is copied as a link. Device files and sockets are left out."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tarfile
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from phalanx.embedded.node.images.layout import Execution, LaidOut, opened, opened_layer, read_layout
from phalanx.embedded.node.images.store import ImageStore, StoredImage, bytes_of, normalized
from phalanx.embedded.node.images.unpack import Allowance, unpack
from phalanx.errors import PhalanxError

_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")


def copy_tree(source: Path, target: Path, allowance: Allowance) -> None:
    """Copy the layer `source` over the tree `target`; a whiteout file deletes the file that it names. Raises OSError,
    PhalanxError."""
    _copy_status(source, target)
    with os.scandir(source) as found:
        for entry in found:
            allowance.take_file()
            _copy(Path(entry.path), target / entry.name, entry.stat(follow_symlinks=False), allowance)


def _copy(source: Path, target: Path, status: os.stat_result, allowance: Allowance) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        if _is_opaque(source) or not _is_folder(target):
            _clear(target)
        with suppress(FileExistsError):
            target.mkdir()
        copy_tree(source, target, allowance)
        return
    _clear(target)
    match kind:
        case stat.S_IFREG:
            allowance.take_bytes(status.st_size, target.parent)
            shutil.copyfile(source, target, follow_symlinks=False)
        case stat.S_IFLNK:
            target.symlink_to(os.readlink(source))
        case stat.S_IFIFO:
            os.mkfifo(target)
        case stat.S_IFCHR if status.st_rdev == 0:  # a whiteout, which marks a deleted file
            return
        case _:
            allowance.devices += 1
            return
    _copy_status(source, target)


def _copy_status(source: Path, target: Path) -> None:
    status = source.lstat()
    if os.geteuid() == 0:
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    shutil.copystat(source, target, follow_symlinks=False)
    if os.geteuid() != 0 and stat.S_ISDIR(status.st_mode):
        target.chmod(stat.S_IMODE(status.st_mode) | 0o700)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _clear(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_opaque(path: Path) -> bool:
    for name in _OPAQUE:
        with suppress(OSError):
            if os.getxattr(path, name, follow_symlinks=False) == b"y":
                return True
    return False


_REGISTRY = "docker://"
_PARTS_OF_LAYOUT = re.compile(
    r"(\./)?(blobs/?|oci-layout|index\.json|manifest\.json|repositories|[0-9a-f]{64}(/|\.json|$)).*"
)
_SUITE = re.compile(r"[a-z][a-z0-9-]{0,40}")
_MIRROR = re.compile(r"(https?|file)://[^\s]+")
_PACKAGES = re.compile(r"[a-z0-9][a-z0-9.+-]*")


def import_image(store: ImageStore, name: str, source: str, allowance: Allowance) -> StoredImage:
    """Import an image into the store, and return it. Raises PhalanxError."""
    name = normalized(name)
    try:
        with store.in_use():
            if source.startswith(_REGISTRY):
                return _from_registry(store, name, source, allowance)
            return _from_disk(store, name, source, allowance)
    except OSError as error:
        what = error.filename or source
        raise PhalanxError(f"{what}: {error.strerror or error}. Nothing was imported") from error


def _from_disk(store: ImageStore, name: str, source: str, allowance: Allowance) -> StoredImage:
    path, tag = _path_and_tag(source)
    if path.is_dir():
        if any((path / one).exists() for one in ("oci-layout", "manifest.json")):
            return _from_layout(store, name, path, tag, source, allowance)
        if not any((path / one).is_dir() for one in ("etc", "usr", "bin")):
            raise PhalanxError(f"{path} is neither an OCI layout nor a root file system (with etc, usr or bin)")
        with store.draft() as draft:
            copy_tree(path, draft, allowance)
            return _whole(store, name, draft, source)
    with opened(path) as content, store.draft() as draft:
        if _is_layout(path):
            unpack(content, draft, allowance, layer=False)
            return _from_layout(store, name, draft, tag, source, allowance)
        unpack(content, draft, allowance, layer=False)
        return _whole(store, name, draft, source)


def _path_and_tag(source: str) -> tuple[Path, str]:
    """Split PATH[:TAG] (skopeo's notation) into an existing path and the tag."""
    path = Path(source)
    if path.exists() or ":" not in source:
        return path, ""
    path_text, _, tag = source.rpartition(":")
    return Path(path_text), tag


def _is_layout(path: Path) -> bool:
    """Return True if an archive contains an image layout, and False if it contains the files of a root file system. The
    name of the archive's first member decides."""
    try:
        with opened(path) as content, tarfile.open(fileobj=content, mode="r|") as archive:
            first = archive.next()
    except (tarfile.TarError, EOFError) as error:
        raise PhalanxError(f"{path} is not an archive: {error}. Nothing was imported") from error
    return first is not None and _PARTS_OF_LAYOUT.fullmatch(first.name) is not None


def _from_layout(store: ImageStore, name: str, path: Path, tag: str, source: str, allowance: Allowance) -> StoredImage:
    image = read_layout(path, tag)
    for layer, diff_id in zip(image.layers, image.diff_ids, strict=True):
        if store.layer(diff_id) is None:
            _add_layer(store, path, layer, diff_id, allowance)
    return _recorded(store, name, source, image.diff_ids, image)


def _add_layer(store: ImageStore, path: Path, layer: str, diff_id: str, allowance: Allowance) -> None:
    with store.draft() as draft:
        with opened_layer(path, layer) as content:
            found = unpack(content, draft, allowance, layer=True)
        if found != diff_id:
            raise PhalanxError(f"the layer {layer} is damaged: its SHA-256 is {found}, not {diff_id}")
        store.keep(draft, diff_id)


def _whole(store: ImageStore, name: str, draft: Path, source: str) -> StoredImage:
    """Store a root file system as an image with a single layer, which belongs only to this image."""
    layer = f"root-{uuid.uuid4().hex}"
    store.keep(draft, layer)
    image = LaidOut(digest=layer, execution=Execution(), layers=(), diff_ids=(layer,))
    return _recorded(store, name, source, (layer,), image)


def _recorded(store: ImageStore, name: str, source: str, layers: Sequence[str], image: LaidOut) -> StoredImage:
    said = image.execution
    record = StoredImage(
        name=name,
        digest=image.digest,
        layers=tuple(layers),
        entrypoint=tuple(said.entrypoint or ()),
        command=tuple(said.cmd or ()),
        env=dict(one.partition("=")[::2] for one in said.env or ()),
        working_dir=said.working_dir,
        user=said.user,
        size_bytes=bytes_of(place for one in layers if (place := store.layer(one)) is not None),
        imported_s=time.time(),
        source=source,
    )
    store.add(record)
    return record


# --- other programs ---------------------------------------------------------------------------------------------------


def _from_registry(store: ImageStore, name: str, source: str, allowance: Allowance) -> StoredImage:
    reference = normalized(source.removeprefix(_REGISTRY))
    program = _program("skopeo", "to pull images from registries")
    with store.draft() as draft:
        _run([program, "copy", f"{_REGISTRY}{reference}", f"oci:{draft}:image"], f"{reference} was not pulled")
        return _from_layout(store, name, draft, "image", source, allowance)


def build_debian(
    store: ImageStore, name: str, suite: str, mirror: str = "", include: Sequence[str] = ()
) -> StoredImage:
    """Build a small Debian system by `debootstrap --variant=minbase`, and return it as an image. Raises
    PhalanxError."""
    name = normalized(name)
    if not _SUITE.fullmatch(suite):
        raise PhalanxError(f"{suite!r} is not the name of a release; write bookworm, trixie or another")
    if mirror and not _MIRROR.fullmatch(mirror):
        raise PhalanxError(f"the mirror {mirror!r} is not a URL; write, for example, http://deb.debian.org/debian")
    if wrong := [one for one in include if not _PACKAGES.fullmatch(one)]:
        raise PhalanxError(f"{wrong[0]!r} is not the name of a package")
    program = _program("debootstrap", "to build Debian systems")
    if os.geteuid() != 0:
        raise PhalanxError("debootstrap needs root, because it creates files of other users. Nothing was built")
    more = [f"--include={','.join(include)}"] if include else []
    try:
        with store.in_use(), store.draft() as draft:
            words = [program, "--variant=minbase", *more, suite, str(draft), *([mirror] if mirror else [])]
            _run(words, f"{suite} was not built")
            for archive in (draft / "var/cache/apt/archives").glob("*.deb"):
                archive.unlink()
            return _whole(store, name, draft, f"debian:{suite}")
    except OSError as error:
        raise PhalanxError(f"{error.filename or suite}: {error.strerror}. Nothing was built") from error


def _program(name: str, why: str) -> str:
    if (found := shutil.which(name)) is None:
        raise PhalanxError(f"{name} is needed {why}, and is not installed on this machine: apt-get install {name}")
    return found


def _run(words: list[str], failure: str) -> None:
    """Run a program, with its output on standard error. Raises PhalanxError."""
    answer = subprocess.run(words, check=False, stdin=subprocess.DEVNULL, stdout=2)
    if answer.returncode != 0:
        raise PhalanxError(f"{failure}: {Path(words[0]).name} ended with exit code {answer.returncode} (see above)")
