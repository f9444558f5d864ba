"""Map image names to commands and files of this machine. The node pulls no images.

A file lists the images. For each image, this file has the configuration (OCI image-spec, config.md: Entrypoint, Cmd,
Env, WorkingDir). It also names directories and files of this machine, and the paths at which containers of the image
see them. So pods with container images run with unchanged manifests, as processes of this machine. The image `host`
always exists: its files are those of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from phalanx.embedded.node.container.attempt import Mount
from phalanx.errors import PhalanxError

HOST_IMAGE = "host"
_EXAMPLE = "{images: {'acme/train:1': {entrypoint: [/app/start], paths: {/app: ./app}}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image on this machine. `command`: the command of a container without command and args. `paths`: the mounts of
    files and directories of the machine.

    `layers`: the folders of the image's layers, the uppermost first, which form the root of the image's containers.
    Without layers, the containers see the machine's root. `user`: the user of containers that set none. `digest`: the
    identity of the image's content; it does not depend on the name."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    paths: tuple[Mount, ...] = ()
    layers: tuple[str, ...] = ()
    user: str = ""
    digest: str = ""


HOST = Image()


class _Said(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    working_dir: str = ""
    paths: dict[str, str] = {}


class _File(msgspec.Struct, forbid_unknown_fields=True):
    images: dict[str, _Said]


def read_images(file: Path) -> dict[str, Image]:
    """Return image name -> the image on this machine. Relative paths are relative to the folder of the file. Raises
    PhalanxError."""
    try:
        said = msgspec.convert(yaml.safe_load(file.read_text()), type=_File)
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"the file of images {file} cannot be read: {error}. Nothing was started.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise PhalanxError(f"the file of images {file} is not YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise PhalanxError(f"the file of images {file}: {error}; write, for example, {_EXAMPLE}") from error
    return {name: _image(f"{file}: image {name}", file.resolve().parent, one) for name, one in said.images.items()}


def _image(where: str, folder: Path, said: _Said) -> Image:
    mounts = tuple(_mount(where, target, folder / source) for target, source in sorted(said.paths.items()))
    if said.working_dir and not said.working_dir.startswith("/"):
        raise PhalanxError(f"{where}: workingDir {said.working_dir!r} does not begin with /")
    return Image(
        entrypoint=said.entrypoint,
        command=said.command,
        env=said.env,
        cwd=said.working_dir,
        paths=tuple(sorted(mounts, key=lambda mount: mount.target.count("/"))),
    )


def _mount(where: str, target: str, source: Path) -> Mount:
    if not target.startswith("/") or ".." in Path(target).parts or target == "/":
        raise PhalanxError(f"{where}: the path {target!r} is not an absolute path below /")
    if not source.exists():
        raise PhalanxError(f"{where}: {source}, the source of {target}, does not exist")
    return Mount(source=str(source), target=target)


def argv(image: Image, container: Mapping[str, Any]) -> list[str]:
    """Return the command line of a container, as a container runtime composes it: `command` replaces the entry point
    and the command of the image; `args` replace the command of the image."""
    if container.get("command"):
        return [*container["command"], *(container.get("args") or ())]
    return [*image.entrypoint, *(container.get("args") or image.command)]
