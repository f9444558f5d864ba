"""Read the kubeconfig of a worker. The kubeconfig is in a Secret of the manager (namespace `kueue-system`, key
`kubeconfig`), or in a file.

A kubeconfig in a Secret must not name files or programs. Otherwise users with write access to the Secret could read
files and start programs on the scheduler's machine. A kubeconfig in a file may name files and programs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.client.access.kubeconfig import (
    KubeconfigCluster,
    KubeconfigError,
    KubeconfigUser,
    read_embedded,
    read_kubeconfig,
)
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import SECRETS

NAMESPACE = "kueue-system"  # the namespace of the Secrets; MultiKueue reads them in the namespace of its controller
KEY = "kubeconfig"
_LONGEST = 1 << 20  # the largest kubeconfig, in bytes; the API server allows no larger Secret


class SourceError(Exception):
    """The reason why a kubeconfig cannot be used. `text`: what is wrong. `mend`: how to correct it."""

    def __init__(self, text: str, mend: str) -> None:
        super().__init__(text)
        self.text, self.mend = text, mend


@dataclass(frozen=True, slots=True)
class Source:
    """The place of a kubeconfig. `location`: the name of a Secret; if `secret` is False, the path of a file."""

    location: str
    secret: bool = True

    @property
    def named(self) -> str:
        return f"Secret {NAMESPACE}/{self.location}" if self.secret else f"file {self.location}"


def source_of(cluster: Mapping[str, Any]) -> Source | SourceError:
    """Return the source that a MultiKueueCluster names in the fields of v1beta1 or of v1beta2; a SourceError if it
    names no usable source."""
    spec = cluster.get("spec") or {}
    said = (spec.get("clusterSource") or {}).get("kubeConfig") or spec.get("kubeConfig")
    if not said or not said.get("location"):
        return SourceError(
            "its cluster is named by a ClusterProfile, which is not supported",
            f"Write clusterSource.kubeConfig: the name of a Secret of {NAMESPACE} with the key {KEY}.",
        )
    return Source(str(said["location"]), secret=said.get("locationType", "Secret") != "Path")


async def credentials(api: Connection, source: Source) -> tuple[KubeconfigCluster, KubeconfigUser]:
    """Return the server and the credentials of a kubeconfig. Raises SourceError; ApiUnknown if the manager's API does
    not answer."""
    try:
        if source.secret:
            return read_embedded(await _text_of(api, source), source.named)
        return _in_file(Path(source.location))
    except KubeconfigError as error:
        raise SourceError(str(error), f"Write a valid kubeconfig into {source.named}.") from error
    except OSError as error:
        mend = "Mount the file where the scheduler runs, or use a Secret."
        raise SourceError(f"{source.named} cannot be read: {error.strerror or error}", mend) from error


def _in_file(path: Path) -> tuple[KubeconfigCluster, KubeconfigUser]:
    if path.stat().st_size > _LONGEST:
        raise KubeconfigError(f"{path} is too large for a kubeconfig")
    return read_kubeconfig([path], None)


async def _text_of(api: Connection, source: Source) -> str:
    how = f"kubectl create secret generic {source.location} -n {NAMESPACE} --from-file={KEY}=FILE"
    try:
        data = (await api.get(SECRETS, source.location, NAMESPACE)).get("data") or {}
    except ApiRefusal as error:
        if error.code == 404:
            raise SourceError(f"there is no {source.named}", f"Create it: `{how}`.") from error
        mend = f"Let the scheduler read Secrets of {NAMESPACE} (deploy/components/kueue)."
        raise SourceError(f"{source.named} cannot be read: {error}", mend) from error
    try:
        return base64.b64decode(data[KEY], validate=True).decode()
    except KeyError:
        raise SourceError(f"{source.named} has no key {KEY}", f"Create it again: `{how}`.") from None
    except (binascii.Error, UnicodeDecodeError) as error:
        raise SourceError(f"{source.named}: its key {KEY} is not text", f"Create it again: `{how}`.") from error
