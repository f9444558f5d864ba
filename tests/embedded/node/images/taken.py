"""Images of small layers, and how they are imported."""

from __future__ import annotations

import tarfile
from pathlib import Path

from phalanx.embedded.node.images.sources import import_image
from phalanx.embedded.node.images.store import ImageStore, StoredImage
from phalanx.embedded.node.images.unpack import Allowance
from tests.embedded.node.images.roots import archive, member


def taken(store: ImageStore, source: Path | str, name: str = "x") -> StoredImage:
    return import_image(store, name, str(source), Allowance())


def packed(folder: Path, place: Path) -> Path:
    with tarfile.open(place, "w:gz") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, path.relative_to(folder))
    return place


LOWER = archive(member("etc/os-release", b"lower"), member("etc/gone", b"x"), member("only/lower", b"x"))


UPPER = archive(member("etc/os-release", b"upper"), member("etc/.wh.gone"), member("only/.wh..wh..opq"))


CONFIG = {
    "Entrypoint": ["/app"],
    "Cmd": ["--quick"],
    "Env": ["A=b=c", "PATH=/bin"],
    "WorkingDir": "/work",
    "User": "app:video",
}
