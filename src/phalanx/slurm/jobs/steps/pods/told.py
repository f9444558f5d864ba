"""The addresses of a job's pods, for programs that may not read pods: each pod writes one annotation on the Job.

A restarted job has new pods, while the annotations of the old pods still exist. So each entry has the start time of the
Job (from its status), and is valid for that start only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import JOBS, Api, Object
from phalanx.slurm.jobs.ask import POD, POD_NAME


class Pod(NamedTuple):
    """A pod of a job, with the name of its node and its address."""

    name: str
    node: str
    address: str


def told(job: Mapping[str, Any]) -> dict[int, Pod]:
    """Return the published pods by completion index. Entries of earlier starts of the Job are left out."""
    found: dict[int, Pod] = {}
    for name, text in (job["metadata"].get("annotations") or {}).items():
        index = name.removeprefix(POD)
        if name.startswith(POD) and index.isdecimal():
            with suppress(msgspec.MsgspecError):  # edited by hand
                started, *pod = msgspec.json.decode(text, type=tuple[str, str, str, str])
                if started == _started(job):
                    found[int(index)] = Pod(*pod)
    return found


def tell() -> None:
    """Publish the node and the address of this pod, if it has a token. The step daemon runs this in a thread, so a
    failure does not end it."""
    name = os.environ.get(POD_NAME, "")
    if not name:
        return
    path = f"{JOBS}/{job_of(name)}"
    with suppress(PhalanxError):
        api = Api.open()
        entry = (_started(api.get(path)), name, os.environ["SLURMD_NODENAME"], os.environ["PHALANX_POD_IP"])
        index, text = os.environ.get("JOB_COMPLETION_INDEX", "0"), msgspec.json.encode(entry).decode()
        api.patch(path, {"metadata": {"annotations": {f"{POD}{index}": text}}})


def job_of(pod: str) -> str:
    """Return the name of the Job whose pod has that name: `JOB-INDEX-RANDOM`."""
    return pod.rsplit("-", 2)[0]


def _started(job: Mapping[str, Any] | Object) -> str:
    return str((job.get("status") or {}).get("startTime") or "")
