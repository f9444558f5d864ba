"""`phalanx image`: images that containers of this machine run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from cyclopts.validators import Number

from phalanx.cli.local.data_directory import chosen_directory
from phalanx.cli.terminal.output import note, print_json, print_table
from phalanx.embedded.node.images.sources import build_debian as build
from phalanx.embedded.node.images.sources import import_image
from phalanx.embedded.node.images.store import ImageStore, StoredImage
from phalanx.embedded.node.images.unpack import Allowance
from phalanx.errors import PhalanxError

_EXAMPLES = """For example:

    phalanx image import team/train:1.4 ./train.oci.tar
    phalanx image build-debian trixie
    phalanx image list
    phalanx image remove team/train:1.4
"""
image = App(
    name="image",
    help="Images that containers of this machine run (`phalanx up`): each its own files, another Debian for instance.",
    help_epilogue=_EXAMPLES,
    help_format="markdown",
)
_Count = Annotated[int, Parameter(validator=Number(gte=1))]
_ALLOWANCE = Allowance()


@image.command(name="import")
def import_(
    name: str,
    source: str,
    /,
    *,
    data: Path | None = None,
    most_bytes: _Count = _ALLOWANCE.bytes_left,
    most_files: _Count = _ALLOWANCE.files_left,
) -> None:
    """Import an image. Pods can then use it as `image: NAME`.

    An image of the same name is replaced; running pods keep the old one. Layers that other images have are not stored
    again.

    For example:

        phalanx image import team/train:1.4 ./train.oci.tar     # as skopeo, buildah, podman or docker save it
        phalanx image import team/train:1.4 ./layout:1.4        # an OCI layout, and a tag in it
        phalanx image import trixie ./trixie-root               # a root file system, or a tar of one
        phalanx image import debian:13 docker://debian:13       # from a registry, by skopeo

    Parameters
    ----------
    name
        The name of the image in pods.
    source
        An OCI layout or archive, an archive of `docker save`, a root file system as a folder or archive, or
        docker://NAME. PATH:TAG selects one of several images in a source.
    data
        The directory of the cluster. [default: as of `phalanx up`]
    most_bytes
        Refuse images that are larger than this, unpacked.
    most_files
        Refuse images with more files than this.
    """
    allowance = Allowance(bytes_left=most_bytes, files_left=most_files)
    found = import_image(_store(data), name, source, allowance)
    left_out = f"; {allowance.devices} device files were left out" if allowance.devices else ""
    note(f"{found.name} is there ({_size(found)}){left_out}")


@image.command(name="list")
def list_(*, data: Path | None = None, output: Annotated[str, Parameter(name=["--output", "-o"])] = "") -> None:
    """Show the images that there are.

    For example:

        phalanx image list
        phalanx image list -o json

    Parameters
    ----------
    data
        The directory of the cluster. [default: as of `phalanx up`]
    output
        json: everything, for programs.
    """
    if output not in ("", "json"):
        raise PhalanxError(f"--output {output} is not known; write json, or leave it out")
    found = _listed(data)
    if output:
        print_json([msgspec.to_builtins(one) for one in found])
        return
    rows = [(one.name, _size(one), str(len(one.layers)), _short(one), one.source) for one in found]
    print_table(("NAME", "SIZE", "LAYERS", "DIGEST", "SOURCE"), rows)


@image.command
def remove(*names: str, data: Path | None = None) -> None:
    """Take images away, with the layers that nobody else needs.

    A running container keeps its files until it ends. They are deleted by the next `phalanx image remove`.

    For example:

        phalanx image remove team/train:1.4

    Parameters
    ----------
    names
        Of the images. Without any, only layers that nobody needs any more are taken away.
    data
        The directory of the cluster. [default: as of `phalanx up`]
    """
    store = _store(data)
    try:
        for name in names:
            note(f"removed {store.remove(name).name}")
        gone = store.sweep()
    except OSError as error:
        raise PhalanxError(f"{error.filename or 'the images'}: {error.strerror}") from error
    if gone is None:
        note("their layers are still there: an image is being imported. Say it again later")
    else:
        note(f"{gone} layers went with it" if gone else "no layer had to go")


@image.command(name="build-debian")
def build_debian(
    suite: str,
    /,
    *,
    name: str = "",
    mirror: str = "",
    include: Annotated[str, Parameter(negative=())] = "",
    data: Path | None = None,
) -> None:
    """Build a small Debian system as an image, by debootstrap. Needs root, and takes a minute.

    For example:

        phalanx image build-debian trixie
        phalanx image build-debian bookworm --name lab/python --include python3,ca-certificates

    Parameters
    ----------
    suite
        The release: bookworm, trixie, or what else debootstrap knows.
    name
        The name of the image in pods. [default: debian:SUITE]
    mirror
        Where packages come from. [default: debootstrap's]
    include
        Packages to install besides, with commas between them.
    data
        The directory of the cluster. [default: as of `phalanx up`]
    """
    packages = [one for one in include.split(",") if one]
    found = build(_store(data), name or f"debian:{suite}", suite, mirror, packages)
    note(f"{found.name} is there ({_size(found)})")


def _store(data: Path | None) -> ImageStore:
    directory = chosen_directory(data, os.environ).path
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PhalanxError(f"{directory} cannot be made: {error.strerror}. Nothing was done") from error
    return ImageStore(directory)


def _listed(data: Path | None) -> list[StoredImage]:
    try:
        return ImageStore(chosen_directory(data, os.environ).path).listed()
    except OSError as error:
        raise PhalanxError(f"{error.filename}: {error.strerror}. Images are their owner's alone") from error


def _short(one: StoredImage) -> str:
    return one.digest.removeprefix("sha256:")[:12]


def _size(one: StoredImage) -> str:
    size = float(one.size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
