"""Where the pods of an allocation are, and the key of their daemons."""

from __future__ import annotations

import base64
import socket
import time
from dataclasses import dataclass

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import JOBS, PODS, SECRETS, Api, Refused
from phalanx.slurm.jobs.ask import KEY, NUMBER, SECRET, Ask, read_ask
from phalanx.slurm.jobs.steps.pods.channel import PORT, Broken, Channel
from phalanx.slurm.notation.hostlist import sort_key

_AGAIN_S, _START_S = 0.02, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A started job. `nodes` and `addresses`: of its pods, by name of the node. `head`: the one whose end is the job's,
    and which has the script."""

    number: int
    ask: Ask
    nodes: tuple[str, ...]
    addresses: tuple[str, ...]
    head: int
    key: str

    def channel(self, index: int, wait_s: float = _START_S) -> Channel:
        """To the daemon of that pod, which may take a moment to start, and another to answer. Raises Broken."""
        until_s = time.monotonic() + wait_s
        while True:
            try:
                connection = socket.create_connection((self.addresses[index], PORT), timeout=5.0)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return Channel(connection, self.key, server=False)
            except Broken:
                raise
            except OSError as error:
                if time.monotonic() > until_s:
                    raise Broken(f"node {self.nodes[index]} does not answer: {error}") from error
                time.sleep(_AGAIN_S)


class Gone(PhalanxError):
    """There is no such job, or it is over."""


def allocation(api: Api, number: int, wait_s: float = _START_S) -> Allocation:
    """Once all its pods have addresses. Raises Gone, PhalanxError."""
    until_s = time.monotonic() + wait_s
    while True:
        jobs = api.get(JOBS, labelSelector=f"{NUMBER}={number}")["items"]
        if not jobs:
            raise Gone(f"Job {number} is over")
        annotations = jobs[0]["metadata"]["annotations"]
        ask = read_ask(annotations)
        if ask is None:
            raise Gone(f"Job {number} is none of sbatch's, salloc's or srun's")
        pods = api.get(PODS, labelSelector=f"{NUMBER}={number}")["items"]
        placed = {
            int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]): pod
            for pod in pods
            if (pod.get("status") or {}).get("podIP") and "deletionTimestamp" not in pod["metadata"]
        }
        if len(placed) == ask.node_count:
            order = sorted(placed.values(), key=lambda pod: sort_key(pod["spec"]["nodeName"]))
            return Allocation(
                number=number, ask=ask, nodes=tuple(pod["spec"]["nodeName"] for pod in order),
                addresses=tuple(pod["status"]["podIP"] for pod in order), head=order.index(placed[0]),
                key=_key(api, annotations[SECRET]),
            )  # fmt: skip
        if time.monotonic() > until_s:
            raise PhalanxError(f"the pods of job {number} did not start within {wait_s:g} s")
        time.sleep(_AGAIN_S)


def _key(api: Api, secret: str) -> str:
    try:
        data = api.get(f"{SECRETS}/{secret}").get("data") or {}
    except Refused as error:
        raise PhalanxError(f"the Secret of the job cannot be read: {error}") from None
    if KEY not in data:
        raise PhalanxError("this job's pods take no steps: their image has no Phalanx (docs/guide/slurm.md)")
    return base64.b64decode(data[KEY]).decode()
