"""Publish the addresses of a job's pods: each pod writes an annotation on the Job. A program reads these annotations if
it may not read pods.

After a restart of the job, the annotations of the old pods still exist. So each annotation contains the start time in
the Job's status, and is valid only while the Job has this start time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import JOBS, ApiClient, Object
from phalanx.slurm.jobs.ask import POD, POD_NAME


class PodAddress(NamedTuple):
    """A pod of a job, with the name of its node and its address."""

    name: str
    node: str
    address: str


def told(job: Mapping[str, Any]) -> dict[int, PodAddress]:
    """Return the pods that have published their addresses: completion index -> pod. Annotations from earlier starts of
    the Job are ignored."""
    found: dict[int, PodAddress] = {}
    for name, text in (job["metadata"].get("annotations") or {}).items():
        index = name.removeprefix(POD)
        if name.startswith(POD) and index.isdecimal():
            with suppress(msgspec.MsgspecError):  # a user changed the annotation
                started, *pod = msgspec.json.decode(text, type=tuple[str, str, str, str])
                if started == _started(job):
                    found[int(index)] = PodAddress(*pod)
    return found


def tell() -> None:
    """Write the node and the address of this pod on the Job, if the pod has an API token. The step daemon calls this
    function in a thread, and continues if the write fails."""
    name = os.environ.get(POD_NAME, "")
    if not name:
        return
    path = f"{JOBS}/{job_of(name)}"
    with suppress(PhalanxError):
        api = ApiClient.open()
        entry = (_started(api.get(path)), name, os.environ["SLURMD_NODENAME"], os.environ["PHALANX_POD_IP"])
        index, text = os.environ.get("JOB_COMPLETION_INDEX", "0"), msgspec.json.encode(entry).decode()
        api.patch(path, {"metadata": {"annotations": {f"{POD}{index}": text}}})


def job_of(pod: str) -> str:
    """Return the name of the Job to which the pod belongs. The Job controller names its pods `JOB-INDEX-RANDOM`."""
    return pod.rsplit("-", 2)[0]


def _started(job: Mapping[str, Any] | Object) -> str:
    return str((job.get("status") or {}).get("startTime") or "")
