"""Store the facts about an admitted pod that the agent needs after a restart. They are in a file in the pod's folder.

A pod with a record has been admitted. After a restart of the agent, it is still admitted, and is not checked again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from phalanx.client.connection import Object
from phalanx.embedded.node.container.durable import write_whole

_NAME = "pod.json"
_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """The record of an admitted pod. `devices`: container -> the ids of the GPUs that only this container may use;
    `named`: container -> resource -> the ids of its other devices; `cpus`: container -> its exclusive CPUs. `failure`:
    (reason, message) for which the node ended the pod; None if the node did not end it. `disrupted`: True if the reason
    for ending the pod was outside the pod. `owner`, `owner_uid`: KIND/NAME and uid of its controller. `labels`: the
    labels of the pod, and its completion index. They identify the pod's kept logs after its deletion."""

    uid: str
    namespace: str
    name: str
    pod_ip: str
    start_time: str
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    failure: tuple[str, str] | None = None
    disrupted: bool = False
    owner: str = ""
    owner_uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        pod: Object,
        pod_ip: str,
        start_time: str,
        devices: Mapping[str, tuple[str, ...]],
        named: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
        cpus: Mapping[str, tuple[int, ...]] | None = None,
    ) -> PodRecord:
        meta = pod["metadata"]
        owner = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
        index = (meta.get("annotations") or {}).get(_INDEX)
        return cls(
            uid=meta["uid"],
            namespace=meta["namespace"],
            name=meta["name"],
            pod_ip=pod_ip,
            start_time=start_time,
            devices=devices,
            named=named or {},
            cpus=cpus or {},
            owner=f"{owner['kind']}/{owner['name']}" if owner is not None else "",
            owner_uid=owner["uid"] if owner is not None else "",
            labels={**(meta.get("labels") or {}), **({_INDEX: index} if index is not None else {})},
        )

    def write(self, folder: Path) -> None:
        """Write the record into the pod's folder. Raises OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder / _NAME, msgspec.json.encode(self))


def records(pods_dir: Path) -> Iterator[PodRecord]:
    """Yield the records of all pods that the node has admitted and not removed. A record that cannot be read is
    skipped."""
    for path in sorted(pods_dir.glob(f"*/{_NAME}")):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=PodRecord)
        except (OSError, msgspec.DecodeError):
            continue
