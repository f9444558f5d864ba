"""Keep the logs of deleted pods for their users, for a limited time and up to a limited size.

When a pod is deleted, its log files move to DIR/kept-logs/NAMESPACE/UID, with a record of the pod. Each namespace has a
limit in bytes: the logs of the oldest pods are deleted first. On a shared machine each user has a namespace. When the
disk is nearly full, all kept logs are deleted before any pod is evicted.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from phalanx.embedded.node.container.durable import write_whole

FOLDER = "kept-logs"  # the folder of kept logs in the data directory of a node
_RECORD = "pod.json"
# the form of the names of namespaces and containers, and of uids; a path never has this form
_NAME = re.compile(r"[a-z0-9][-a-z0-9.]{0,252}")
_MOST_PODS = 5_000  # the maximum number of pods in each namespace whose logs are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPod:
    """A deleted pod whose logs are kept. `owner`: KIND/NAME of its controller. `started_s`, `ended_s`: seconds since
    the epoch."""

    namespace: str
    pod: str
    uid: str
    owner: str = ""
    owner_uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    containers: tuple[str, ...] = ()
    started_s: float = 0.0
    ended_s: float = 0.0


class KeptLogs:
    """The kept logs of a node. `most_bytes`: the maximum size of the kept logs in each namespace; 0 if no logs are
    kept. `most_s`: how long logs are kept."""

    def __init__(self, data_dir: Path, most_bytes: int, most_s: float) -> None:
        self._folder, self._most_bytes, self._most_s = data_dir / FOLDER, most_bytes, most_s

    def keep(self, pod: KeptPod, folder: Path) -> None:
        """Move the logs from the folder of a pod to the kept logs. Raises OSError."""
        logs = [path for path in folder.glob("*/*.log*") if path.is_file() and not path.is_symlink()]
        logs = [path for path in logs if path.stat().st_size]
        if not logs or self._most_bytes <= 0:
            return
        kept = self._folder / pod.namespace / pod.uid
        for path in logs:
            (kept / path.parent.name).mkdir(mode=0o700, parents=True, exist_ok=True)
            path.rename(kept / path.parent.name / path.name)
        names = tuple(sorted({path.parent.name for path in logs}))
        write_whole(kept / _RECORD, msgspec.json.encode(replace(pod, containers=names)))

    def of(self, namespace: str) -> list[KeptPod]:
        """Return the pods of a namespace, in the order in which they started."""
        if not _NAME.fullmatch(namespace):
            return []
        return sorted(_records(self._folder / namespace), key=lambda pod: (pod.started_s, pod.pod))

    def log(self, namespace: str, uid: str, container: str, *, previous: bool = False) -> Path | None:
        """Return the log of the last attempt of a container or, with `previous`, of the attempt before it; None if the
        log is not kept."""
        if not all(_NAME.fullmatch(part) for part in (namespace, uid, container)):
            return None
        logs = sorted((self._folder / namespace / uid / container).glob("*.log"), key=lambda path: int(path.stem))
        position = -2 if previous else -1
        return logs[position] if len(logs) >= -position else None

    def prune(self, now_s: float, *, low: bool = False) -> None:
        """Delete logs that are too old, and the oldest logs of each namespace that exceeds its limit. `low`: True if
        the disk is nearly full; then all logs are deleted."""
        if not self._folder.exists():
            return
        for namespace in self._folder.iterdir():
            self._prune(namespace, 0 if low else self._most_bytes, now_s)

    def _prune(self, namespace: Path, most_bytes: int, now_s: float) -> None:
        known = {pod.uid: pod for pod in _records(namespace)}
        for folder in namespace.iterdir():
            if folder.name not in known:  # an earlier node agent was killed while it moved these logs
                shutil.rmtree(folder, ignore_errors=True)
        total = 0
        for number, pod in enumerate(sorted(known.values(), key=lambda pod: -pod.ended_s)):
            folder = namespace / pod.uid
            total += sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            if total > most_bytes or number >= _MOST_PODS or pod.ended_s < now_s - self._most_s:
                shutil.rmtree(folder, ignore_errors=True)


def _records(namespace: Path) -> Iterator[KeptPod]:
    for path in namespace.glob(f"*/{_RECORD}"):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=KeptPod)
        except (OSError, msgspec.DecodeError):
            continue
