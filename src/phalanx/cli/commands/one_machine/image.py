"""`phalanx image`: import, build, list and remove the images that containers of this machine run."""

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
    help="Manage the images (root file systems) that containers of this machine run (`phalanx up`).",
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

    An image with the same name is replaced; running pods keep the old image. A layer that another image already has is
    not stored again.

    For example:

        phalanx image import team/train:1.4 ./train.oci.tar     # an archive of skopeo, buildah, podman or docker
        phalanx image import team/train:1.4 ./layout:1.4        # an OCI layout, and a tag in it
        phalanx image import trixie ./trixie-root               # a folder or tar with a root file system
        phalanx image import debian:13 docker://debian:13       # from a registry, with skopeo

    Parameters
    ----------
    name
        The name by which pods use the image.     source
        An OCI layout or archive, an archive of `docker save`, a root file system as a folder or archive, or
        docker://NAME. PATH:TAG selects one of several images in a source.
    data
        The directory of the cluster. [default: as of `phalanx up`]
    most_bytes
        Refuse an image whose unpacked size in bytes is larger than this.
    most_files
        Refuse an image with more files than this.
    """
    allowance = Allowance(bytes_left=most_bytes, files_left=most_files)
    found = import_image(_store(data), name, source, allowance)
    left_out = f"; {allowance.devices} device files were left out" if allowance.devices else ""
    note(f"imported {found.name} ({_size(found)}){left_out}")


@image.command(name="list")
def list_(*, data: Path | None = None, output: Annotated[str, Parameter(name=["--output", "-o"])] = "") -> None:
    """List the images.

    For example:

        phalanx image list
        phalanx image list -o json

    Parameters
    ----------
    data
        The directory of the cluster. [default: as of `phalanx up`]
    output
        `json` prints all data of the images as JSON, for programs.
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
    """Remove images, and the layers that no other image needs.

    If a running container uses a layer, the next `phalanx image remove` after the container's end deletes the layer.

    For example:

        phalanx image remove team/train:1.4

    Parameters
    ----------
    names
        The names of the images. Without names, only layers that no image needs any more are removed.
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
        note("the layers were not removed, because an image is being imported. Repeat the command later")
    else:
        note(f"removed {gone} unused layers" if gone else "no unused layer was found")


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
    """Build a small Debian system as an image, with debootstrap. This needs root, and takes about a minute.

    For example:

        phalanx image build-debian trixie
        phalanx image build-debian bookworm --name lab/python --include python3,ca-certificates

    Parameters
    ----------
    suite
        The Debian release: bookworm, trixie, or another suite that debootstrap supports.
    name
        The name of the image in pods. [default: debian:SUITE]
    mirror
        The URL of the package mirror. [default: the mirror of debootstrap]
    include
        More packages to install, separated by commas.
    data
        The directory of the cluster. [default: as of `phalanx up`]
    """
    packages = [one for one in include.split(",") if one]
    found = build(_store(data), name or f"debian:{suite}", suite, mirror, packages)
    note(f"built {found.name} ({_size(found)})")


def _store(data: Path | None) -> ImageStore:
    directory = chosen_directory(data, os.environ).path
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PhalanxError(f"{directory} cannot be created: {error.strerror}. Nothing was done") from error
    return ImageStore(directory)


def _listed(data: Path | None) -> list[StoredImage]:
    try:
        return ImageStore(chosen_directory(data, os.environ).path).listed()
    except OSError as error:
        raise PhalanxError(f"{error.filename}: {error.strerror}. Only their owner can read images") from error


def _short(one: StoredImage) -> str:
    return one.digest.removeprefix("sha256:")[:12]


def _size(one: StoredImage) -> str:
    size = float(one.size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
