"""Renew the token files of service accounts in pods, long before the tokens expire.

The modification time of the file is the time at which the token was issued, so the age of the token is known even after
a restart of the agent. The new file replaces the old one atomically in the same directory, because the containers have
mounted this directory.

A token is renewed after four fifths of its lifetime, but at the latest after a day
(pkg/kubelet/token/token_manager.go)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from phalanx.embedded.node.pod.environment import Object
from phalanx.embedded.node.pod.volumes import TokenRequest

_LIFE_S = 3600.0  # the API's default lifetime
_PART, _LONGEST_S = 0.8, 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """A token file in a volume. `source`: the token's entry in the volume."""

    path: Path
    source: Object

    def due_s(self) -> float:
        """Return the time of the next renewal (Unix time); 0 if the file does not exist."""
        life_s = float(self.source.get("expirationSeconds") or _LIFE_S)
        try:
            return self.path.stat().st_mtime + min(_PART * life_s, _LONGEST_S)
        except FileNotFoundError:
            return 0.0

    def write(self, token: str) -> None:
        """Replace the token in the file. The file keeps its mode. Raises OSError."""
        mode = self.path.stat().st_mode & 0o777 if self.path.exists() else 0o600
        new = self.path.with_name(f".{self.path.name}.new")
        new.unlink(missing_ok=True)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(token)
        new.chmod(mode)
        if self.path.exists():  # the new file gets the owner of the old file
            os.chown(new, self.path.stat().st_uid, self.path.stat().st_gid)
        new.rename(self.path)


def token_files(pod: Object, root: Path) -> tuple[TokenFile, ...]:
    """Return the token files of a pod. `root`: the folder of its volumes."""
    return tuple(
        TokenFile(path=root / volume["name"] / said["path"], source=said)
        for volume in pod["spec"].get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
        if (said := source.get("serviceAccountToken"))
    )


async def renew(files: tuple[TokenFile, ...], pod: Object, request: TokenRequest, now_s: float) -> float | None:
    """Renew the tokens that are due. Return the time of the next renewal (Unix time); None if there are no tokens.
    Raises ApiError, EnvironmentFault, OSError."""
    account = pod["spec"].get("serviceAccountName") or "default"
    for file in files:
        if file.due_s() <= now_s:
            file.write(await request(pod["metadata"]["namespace"], account, file.source))
    return min((file.due_s() for file in files), default=None)
