"""The record of a start, written on the objects before anything is bound: what a restart needs to know. And the mark of
a preemption, written on them before anything of them ends.

It stands as JSON in the annotation `phalanx.dev/admitted`: of a Job, set by the same PATCH that resumes it; of bare
pods, carried by the Binding, whose annotations the API server copies to the pod. A record that cannot be read (somebody
edited it) counts as none: the job is then one that was resumed without us.

The mark stands in `phalanx.dev/preempted`. It names the start that it ends: one of an earlier start says nothing.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from phalanx.dialects.fields import LONGEST_S
from phalanx.kube.read.labels import ADMITTED, MOST, PREEMPTED, read_json

Moment: TypeAlias = Annotated[float, Meta(ge=0.0, le=253402300799.0)]  # until the year 9999


class StartRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`at_s`: when it was decided (seconds since the epoch). `gang=False`: its pods are placed one by one. `flavors`:
    the flavor of each role, if its queue names any. `limit_s`: it is stopped when it has run that long."""

    attempt: Annotated[int, Meta(ge=1, le=MOST)]
    queue: str
    count: Annotated[int, Meta(ge=0, le=MOST)]
    priority: Annotated[int, Meta(ge=-MOST, le=MOST)] = 0
    at_s: Moment = 0.0
    gang: bool = True
    flavors: tuple[str, ...] = ()
    limit_s: Annotated[float, Meta(gt=0.0, le=LONGEST_S)] | None = None

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class PreemptionMark(msgspec.Struct, frozen=True, kw_only=True):
    """`by`: the job that gets the room. `start_s`: `at_s` of the start that ends."""

    by: str
    start_s: Moment

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def read_start_record(annotations: dict[str, str] | None) -> StartRecord | None:
    if not annotations or ADMITTED not in annotations:
        return None
    try:
        return read_json(annotations[ADMITTED], StartRecord)
    except ValueError:
        return None


def read_preemption_mark(annotations: dict[str, str] | None) -> PreemptionMark | None:
    if not annotations or PREEMPTED not in annotations:
        return None
    try:
        return read_json(annotations[PREEMPTED], PreemptionMark)
    except ValueError:
        return None
