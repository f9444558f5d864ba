"""The plugins of a Job, by name: what each does to a pod, and the objects that the job has for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from phalanx.client.connection import Object
from phalanx.client.kind import Kind
from phalanx.embedded.controllers.operators.volcano.job_spec import JobFault, JobSpec, VolcanoTask
from phalanx.embedded.controllers.operators.volcano.plugins import frameworks
from phalanx.embedded.controllers.operators.volcano.plugins.keys import join_keys
from phalanx.embedded.controllers.operators.volcano.plugins.services import join_service, service_objects

OnPod = Callable[[JobSpec, VolcanoTask, int, Object, Sequence[str]], None]


def _service(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    join_service(job, pod)


def _keys(job: JobSpec, task: VolcanoTask, index: int, pod: Object, arguments: Sequence[str]) -> None:
    join_keys(job, pod, arguments)


PLUGINS: Final[dict[str, OnPod]] = {
    "env": frameworks.environment,
    "svc": _service,
    "ssh": _keys,
    "tensorflow": frameworks.tensorflow,
    "pytorch": frameworks.pytorch,
    "mpi": frameworks.mpi,
    "ray": frameworks.ray,
    "hcclrank": frameworks.hcclrank,
}


def apply_plugins(job: JobSpec, task: VolcanoTask, index: int, pod: Object) -> None:
    """Change the pod by all plugins of the job. Raises JobFault."""
    for name, arguments in job.plugins.items():
        if name not in PLUGINS:
            raise JobFault(f"unable to find job plugin: {name}; there are {', '.join(PLUGINS)}")
        PLUGINS[name](job, task, index, pod, arguments)


def plugin_objects(job: JobSpec) -> Iterator[tuple[Kind, Object]]:
    """Yield the further objects of the job's plugins, except for the Secret of `ssh`, because its key must be generated
    first."""
    if "svc" in job.plugins:
        yield from service_objects(job, job.plugins["svc"])
    if "ray" in job.plugins:
        yield from frameworks.ray_objects(job, job.plugins["ray"])
