"""The record of a start, written on the objects before anything is bound: what a restart needs to know.

It stands as JSON in the annotation `phalanx.dev/admitted`: of a Job, set by the same PATCH that resumes it; of bare
pods, carried by the Binding, whose annotations the API server copies to the pod. A record that cannot be read (somebody
edited it) counts as none: the job is then one that was resumed without us.
"""

from __future__ import annotations

import msgspec

from phalanx.kube.labels import ADMITTED


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`at_s`: when it was decided (seconds since the epoch). `gang=False`: its pods are placed one by one."""

    attempt: int
    queue: str
    count: int
    priority: int = 0
    at_s: float = 0.0
    gang: bool = True

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def read_record(annotations: dict[str, str] | None) -> Record | None:
    if not annotations or ADMITTED not in annotations:
        return None
    try:
        return msgspec.json.decode(annotations[ADMITTED], type=Record)
    except (msgspec.MsgspecError, TypeError):
        return None
