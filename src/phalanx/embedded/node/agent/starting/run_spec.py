"""Compute the settings of one start of a container: its command, environment, user, files and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from phalanx.client.quantity import amount
from phalanx.embedded.node.agent.starting.api_objects import ApiObjects
from phalanx.embedded.node.agent.starting.container_start import (
    ContainerStart,
    container_mounts,
    image_root,
    target_process,
)
from phalanx.embedded.node.agent.starting.kernel_limits import container_limits, pod_limits
from phalanx.embedded.node.agent.starting.root import capabilities, security_context
from phalanx.embedded.node.agent.starting.user import owner_user, requested_user
from phalanx.embedded.node.container.attempt import RunSpec
from phalanx.embedded.node.container.cgroup import CgroupLimits
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.network.fence import Fenced
from phalanx.embedded.node.network.names import host_name
from phalanx.embedded.node.pod.admission import demand, is_ephemeral, oom_score
from phalanx.embedded.node.pod.allotment import device_variables
from phalanx.embedded.node.pod.environment import command_line, environment
from phalanx.embedded.node.pod.record import PodRecord


async def run_spec(start: ContainerStart) -> RunSpec:
    """Return the settings of the container's process, and create its files and its control group. Raises
    EnvironmentFault, ApiError, OSError."""
    around, spec, pod, image, owner = start.around, start.spec, start.pod, start.image, start.owner
    asked = await environment(spec, pod, around.allocatable, ApiObjects(around.connection).look_up)
    gpus = start.record.devices.get(start.name, ())
    granted = await around.devices.grant(start.record.named.get(start.name, {}))
    env = _variables(start, gpus) | dict(granted.env) | asked
    user, group = requested_user(spec, pod, image) if owner is None else owner_user(owner, spec, pod)
    mounts = container_mounts(start, asked, granted)
    own = around.device_files(gpus)
    root = await image_root(start, own, granted) if image.layers else None
    limit = container_limits(start, around.others_files((*own, *(one.source for one in granted.files))))
    whole = pod_limits(around, pod["spec"]) if is_ephemeral(pod, start.name) else CgroupLimits()
    whole = replace(whole, cpu_request_milli=demand(pod["spec"]).get("cpu", 0))
    group_of = around.cgroups.create(start.record.uid, f"{start.name}-{start.number}", limit, whole)
    own_processes = root is not None or owner is not None
    if owner is not None and around.fence is not None:
        await around.fence.admit(start.record.uid, fenced(start.record, around, owner.user))
    return RunSpec(
        argv=command_line(spec, env, image),
        env=env,
        cwd=spec.get("workingDir") or image.cwd or "/",
        mounts=mounts,
        host_name="" if around.isolation.refusal or pod["spec"].get("hostNetwork") else host_name(pod),
        user_namespace=around.isolation.user_namespace,
        cgroup_procs=group_of.procs,
        cgroup_dirs=group_of.dirs,
        oom_files=group_of.oom_files,
        peak_files=group_of.peak_files,
        cpus_file=group_of.cpus_file,
        user=user,
        group=group,
        groups=owner.groups if owner is not None else (),
        confined=owner is not None,
        processes_of=target_process(start) if own_processes else None,
        root=root,
        image_id=image.digest,
        memory_limit_bytes=limit.memory_limit_bytes or 0,
        oom_score=oom_score(pod, spec, amount("memory", around.allocatable["memory"])),
        capabilities=None if root is None else () if owner is not None else capabilities(spec, pod),
        stdin=bool(spec.get("stdin")),
        stdin_once=bool(spec.get("stdinOnce")),
        tty=bool(spec.get("tty")),
        no_new_rights=security_context(spec, pod).get("allowPrivilegeEscalation") is False,
    )


def fenced(record: PodRecord, around: Surroundings, user: int) -> Fenced:
    """Return the user and the address of the pod for the firewall rules that separate the connections of users
    (`network.fence`)."""
    return Fenced(user=user, address="" if record.pod_ip == around.settings.address else record.pod_ip)


def _variables(start: ContainerStart, gpus: Sequence[str]) -> dict[str, str]:
    """Return the environment variables that the agent adds to those in the container's spec."""
    around, image = start.around, start.image
    uuids = {gpu.index: gpu.uuid for gpu in around.gpus}
    of_owner = start.owner.variables if start.owner is not None and not image.layers else {}
    terminal = {"TERM": "xterm"} if start.spec.get("tty") else {}
    env = around.variables(own_root=bool(image.layers)) | of_owner | dict(image.env) | terminal
    return env | {"HOSTNAME": host_name(start.pod)} | device_variables(gpus, uuids, on_gpu_node=around.has_gpus)
