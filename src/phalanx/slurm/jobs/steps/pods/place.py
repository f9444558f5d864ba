"""Find the pods of an allocation and the key of their step daemons, and connect to the daemons."""

from __future__ import annotations

import base64
import os
import socket
import time
from dataclasses import dataclass

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import JOBS, PODS, SECRETS, ApiClient, Object, RequestRefused
from phalanx.slurm.jobs.ask import KEY, NUMBER, SECRET, TOOLS, TOOLS_PATH, Ask, read_ask
from phalanx.slurm.jobs.names import path_within
from phalanx.slurm.jobs.steps.pods.channel import PORT, Broken, Channel
from phalanx.slurm.jobs.steps.pods.told import PodAddress, told
from phalanx.slurm.notation.hostlist import sort_key

_AGAIN_S, _START_S = 0.02, 60.0
_PIPE = [f"{TOOLS}/python", "-I", "-m", "phalanx.slurm.jobs.steps.pods.tunnel.pipe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A started job. `number`: the job number. `pods`: the pods, sorted by the names of their nodes. `head`: the index
    of the pod that runs the script; the job ends when this pod ends. `key`: the key of the step daemons. `through`: the
    client of the API server that forwards connections to the step daemons. None if the daemons are reached at the
    addresses of their pods. This is so for pods with the image `host`, which are processes on the user's machine."""

    number: int
    ask: Ask
    pods: tuple[PodAddress, ...]
    head: int
    key: str
    through: ApiClient | None

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(pod.node for pod in self.pods)

    def channel(self, index: int, wait_s: float = _START_S) -> Channel:
        """Return a channel to the step daemon of the pod with this index. Wait at most `wait_s` seconds until the
        daemon has started and answers. Raises Broken."""
        until_s = time.monotonic() + wait_s
        while True:
            try:
                return Channel(self._connected(self.pods[index]), self.key, server=False)
            except Broken:
                raise
            except OSError as error:
                if time.monotonic() > until_s:
                    raise Broken(f"node {self.nodes[index]} does not answer: {error}") from error
                time.sleep(_AGAIN_S)

    def _connected(self, pod: PodAddress) -> socket.socket:
        """Return a socket that is connected to the step daemon of the pod. Raises Broken. Raises OSError if the daemon
        does not listen yet."""
        if self.through is not None:
            from phalanx.slurm.jobs.steps.pods.tunnel.through import connect

            return connect(self.through, pod.name, _PIPE, _START_S)
        connection = socket.create_connection((pod.address, PORT), timeout=5.0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


class Gone(PhalanxError):
    """The error if the job does not exist or has ended."""


class Waits(Gone):
    """The error if the job has not started yet."""


def allocation(api: ApiClient, number: int, wait_s: float = _START_S) -> Allocation:
    """Wait at most `wait_s` seconds until all pods of the job have addresses, and return the allocation. Raises Gone if
    the job has ended, and its subclass Waits if the job has not started. Raises PhalanxError."""
    until_s = time.monotonic() + wait_s
    while True:
        job = _job(api, number)
        annotations = job["metadata"]["annotations"]
        ask = read_ask(annotations)
        if ask is None:
            raise Gone(f"Job {number} was not created by sbatch, salloc or srun")
        placed = told(job) if api.of_job else _listed(api, number)
        if len(placed) == ask.node_count:
            order = sorted(placed.values(), key=lambda pod: sort_key(pod.node))
            key, brought = _key(api, annotations[SECRET])
            return Allocation(
                number=number, ask=ask, pods=tuple(order), head=order.index(placed[0]), key=key,
                through=api if brought else None,
            )  # fmt: skip
        if not api.of_job and job["spec"].get("suspend"):
            raise Waits(f"Job {number} is pending execution")
        if time.monotonic() > until_s:
            raise PhalanxError(f"the pods of job {number} did not start within {wait_s:g} s")
        time.sleep(_AGAIN_S)


def _job(api: ApiClient, number: int) -> Object:
    """Return the Job with the Slurm job number `number`. Raises Gone, PhalanxError."""
    if not api.of_job:
        jobs: list[Object] = api.get(JOBS, labelSelector=f"{NUMBER}={number}")["items"]
        found = jobs[0] if jobs else None
    else:
        try:
            found = api.find(path_within(number, os.environ))
        except RequestRefused as error:
            raise PhalanxError(
                f"job {number} cannot be read from here: {error.message}. A pod's own token is for its own job; "
                "for others a kubeconfig is needed in the container (docs/guide/slurm.md)."
            ) from None
    if found is None:
        raise Gone(f"Job {number} is over")
    return found


def _listed(api: ApiClient, number: int) -> dict[int, PodAddress]:
    """Return the pods of the job that have an address: completion index -> pod."""
    return {
        int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]): PodAddress(
            pod["metadata"]["name"], pod["spec"]["nodeName"], pod["status"]["podIP"]
        )
        for pod in api.get(PODS, labelSelector=f"{NUMBER}={number}")["items"]
        if (pod.get("status") or {}).get("podIP") and "deletionTimestamp" not in pod["metadata"]
    }


def _key(api: ApiClient, secret: str) -> tuple[str, bool]:
    """Return the key of the step daemons, and True if the site's tools were copied into the pods (only pods with other
    images than `host` get them). `secret`: the name of the job's Secret."""
    try:
        data = api.get(f"{SECRETS}/{secret}").get("data") or {}
    except RequestRefused as error:
        raise PhalanxError(f"the Secret of the job cannot be read: {error}") from None
    if KEY not in data:
        raise PhalanxError("this job's pods take no steps: their image has no Phalanx (docs/guide/slurm.md)")
    return base64.b64decode(data[KEY]).decode(), TOOLS_PATH in data
