"""`phalanx login`: give a Unix user access to the cluster that is shared on this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec
import yaml

from phalanx.cli.local.data_directory import LOGIN_SOCKET
from phalanx.cli.terminal.output import note
from phalanx.errors import PhalanxError

_PATIENCE_S = 30.0
_ANSWER_BYTES = 1 << 20


def login(*, login_socket: Path = LOGIN_SOCKET, output: Path | None = None) -> None:
    """Become a user of the cluster that is shared on this machine (`phalanx up --shared`), with your Unix name.

    The kernel tells the server who you are, so you need no password and copy no token. You get your own namespace, and
    pods in this namespace run as your Unix user. Afterwards kubectl and phalanx work without further options. Log in
    again when your groups change.

    For example:

        phalanx login
        phalanx run -- id

    Parameters
    ----------
    login_socket
        The Unix socket at which the cluster lets users log in.
    output
        The file into which the kubeconfig is written. [default: $KUBECONFIG if it names one file, else ~/.kube/config]
    """
    answer = _ask(login_socket)
    if "kubeconfig" not in answer:
        raise PhalanxError(f"you are not logged in: {answer.get('error', 'the response of the server is invalid')}")
    said = os.environ.get("KUBECONFIG", "")
    place = output or (Path(said) if said and ":" not in said else Path.home() / ".kube" / "config")
    _write(place, answer["kubeconfig"], certain=output is not None)
    note(f"you are logged in; your namespace is {answer['namespace']}; kubectl and phalanx read this from {place}")


def _ask(path: Path) -> dict[str, str]:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_PATIENCE_S)
            connection.connect(str(path))
            data = b""
            while len(data) < _ANSWER_BYTES and (chunk := connection.recv(65536)):
                data += chunk
        return msgspec.json.decode(data, type=dict[str, str])
    except OSError as error:
        raise PhalanxError(
            f"no server lets users log in at {path}: {error.strerror or error}. Does `phalanx up --shared` run on this "
            "machine? (If it is a service of systemd: systemctl status phalanx)"
        ) from error
    except msgspec.DecodeError as error:
        raise PhalanxError(f"the program that answered at {path} is not a cluster of this machine: {error}") from error


def _write(place: Path, text: str, *, certain: bool) -> None:
    """Write a file that only its owner can read. `certain`: True if the user named this path; then the file is replaced
    even if another program wrote it."""
    if place.exists() and not certain and not _is_ours(place):
        raise PhalanxError(
            f"{place} belongs to another cluster and was not changed. Name another file: phalanx login --output FILE, "
            "and "
            "then export KUBECONFIG=FILE"
        )
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        draft.rename(place)
    except OSError as error:
        raise PhalanxError(
            f"{place} cannot be written: {error.strerror}; name another file with --output FILE"
        ) from error


def _is_ours(place: Path) -> bool:
    try:
        found = yaml.safe_load(place.read_text())
        return [one["name"] for one in found["clusters"]] == ["phalanx"]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, RecursionError):
        return False
