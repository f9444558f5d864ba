"""What the names of images mean on a node that pulls none: parts of this machine that stand in for them.

A file says for each image what its configuration would say (OCI image-spec, config.md: Entrypoint, Cmd, Env,
WorkingDir) and which directories and files of this machine its containers see at which path. So a manifest or a client
that was written for a container image runs unchanged, as processes. The image `host` is always there: the machine as it
is.
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
    """`command`: of a container that says neither command nor args. `paths`: what its containers see where.

    `layers`: folders of its files, the uppermost first, which its containers have for their root; without any they see
    the machine's. `user`: as whom, unless they say so. `digest`: which image it is, whatever its name."""

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
    """Image name -> what stands in for it. Relative paths count from the file. Raises PhalanxError."""
    try:
        said = msgspec.convert(yaml.safe_load(file.read_text()), type=_File)
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"the images {file} cannot be read: {error}. Nothing was started.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise PhalanxError(f"the images {file} are no YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise PhalanxError(f"the images {file}: {error}; write for instance {_EXAMPLE}") from error
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
        raise PhalanxError(f"{where}: the path {target!r} is no absolute path below /")
    if not source.exists():
        raise PhalanxError(f"{where}: {source}, to be seen as {target}, does not exist")
    return Mount(source=str(source), target=target)


def argv(image: Image, container: Mapping[str, Any]) -> list[str]:
    """As a container runtime puts them together: `command` replaces the entry point and drops the image's own command;
    `args` replace that command."""
    if container.get("command"):
        return [*container["command"], *(container.get("args") or ())]
    return [*image.entrypoint, *(container.get("args") or image.command)]
