"""Small root file systems of files of this machine, and images made of them, for tests that have no network."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PROGRAMS = ("sh", "cat", "id", "ls", "sleep", "touch", "mkdir", "stat", "readlink", "rm", "mknod", "grep", "head")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
Added = Callable[[tarfile.TarFile], None]


def small_root(folder: Path, release: str = "small", programs: tuple[str, ...] = PROGRAMS) -> Path:
    """A root file system with some programs, whose /etc/os-release says `release`."""
    for name in ("bin", "etc", "tmp", "dev"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    (folder / "etc" / "os-release").write_text(f'PRETTY_NAME="{release}"\nVERSION_CODENAME={release}\n')
    (folder / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\napp:x:1234:1235::/home/app:/bin/sh\n")
    (folder / "etc" / "group").write_text("root:x:0:\napp:x:1235:\nvideo:x:44:app\n")
    for program in programs:
        found = shutil.which(program)
        assert found is not None
        shutil.copy(Path(found).resolve(), folder / "bin" / program)
        for library in _libraries(found):
            place = folder / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)
    return folder


def _libraries(program: str) -> list[str]:
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", told)


def archive(*members: tuple[tarfile.TarInfo, bytes] | Path) -> bytes:
    """A tar of members, and of all below folders."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member in members:
            if isinstance(member, Path):
                tar.add(member, arcname=".")
            else:
                tar.addfile(member[0], io.BytesIO(member[1]))
    return buffer.getvalue()


def member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    found = tarfile.TarInfo(name)
    found.size = len(content)
    for field, value in fields.items():
        setattr(found, field, value)
    return found, content


def layout(folder: Path, *layers: bytes, tag: str = "", config: Mapping[str, Any] | None = None, **more: Any) -> Path:
    """An OCI layout of one image; its layers packed by gzip."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes, kind: str) -> dict[str, Any]:
        name = hashlib.sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{name}", "size": len(data)}

    packed = [blob(gzip.compress(one, compresslevel=1), "layer.v1.tar+gzip") for one in layers]
    said = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": dict(config or {}),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]},
        **more,
    }
    manifest = {"schemaVersion": 2, "config": blob(json.dumps(said).encode(), "config.v1+json"), "layers": packed}
    entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    entry |= {"annotations": {"org.opencontainers.image.ref.name": tag}} if tag else {}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder
