"""Start and stop one container of a pod on this node, and track its attempts and the reason for waiting. `stop` is
level-triggered: it may be called in every iteration, and takes the step that is due.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from phalanx.client.connection import ApiError, Object
from phalanx.client.quantity import amount
from phalanx.embedded.node.agent.cause import out_of_memory
from phalanx.embedded.node.agent.cpus import listed
from phalanx.embedded.node.agent.root import capabilities, resolver, root_of, security_context
from phalanx.embedded.node.container import cgroup
from phalanx.embedded.node.container.attempt import (
    NEVER_STARTED,
    Attempt,
    Exited,
    Mount,
    Planned,
    Process,
    RunningAttempt,
    RunSpec,
    attempts,
)
from phalanx.embedded.node.container.cgroup import CgroupLimits
from phalanx.embedded.node.container.exec import run_hook
from phalanx.embedded.node.container.image import HOST_IMAGE, Image
from phalanx.embedded.node.container.isolation import ROOT_PREFIX
from phalanx.embedded.node.container.log.reading import last_lines
from phalanx.embedded.node.container.probe import Health
from phalanx.embedded.node.machine.devices.pool import GrantedDevices
from phalanx.embedded.node.machine.owners import MachineOwner
from phalanx.embedded.node.machine.surroundings import VOLUMES, Surroundings
from phalanx.embedded.node.network.fence import Fenced
from phalanx.embedded.node.network.names import host_name
from phalanx.embedded.node.pod import volumes
from phalanx.embedded.node.pod.admission import demand, every_container, limits, oom_score, requests
from phalanx.embedded.node.pod.allotment import device_variables
from phalanx.embedded.node.pod.environment import EnvironmentFault, command_line, environment
from phalanx.embedded.node.pod.lifecycle import Known, Waiting
from phalanx.embedded.node.pod.record import PodRecord
from phalanx.errors import PhalanxError

_HOSTS = "/etc/hosts"
_LOOK_S = 0.05  # the interval of checks for the run record of a container that another process started
_PIDS = 8192  # the most processes of a user's container, so that a fork bomb harms only its user
_KEPT_ATTEMPTS = 2  # the present attempt and the one before, for `kubectl logs --previous`
# The part of the log that FallbackToLogsOnError takes as the termination message.
_MESSAGE_BYTES, _MESSAGE_LINES = 2048, 80
_LOG_END_BYTES, _LOG_END_LINES = 1024, 5  # the end of the log that the reason of the end quotes


class Container:
    """A container of a pod. `changed` is called when the state of the container may have changed."""

    def __init__(
        self, name: str, pod: Object, record: PodRecord, around: Surroundings, changed: Callable[[], None]
    ) -> None:
        self.name, self.pod, self.known = name, pod, Known()
        self.backed_off: set[int] = set()  # restart counts whose pause was told as an event
        self.doomed = ""  # why a running container must end and start anew: a liveness probe's verdict
        self._record, self._around, self._changed = record, around, changed
        self._attempt: Attempt | None = None
        self._watch: asyncio.Task[None] | None = None
        self._health: Health | None = None
        self._stopping_since_s: float | None = None
        self._hook: asyncio.Task[None] | None = None
        self._told = False  # SIGTERM was sent
        if found := attempts(self.folder):
            self._adopt(found[-1])
            before = found[-2].settle() if len(found) > 1 else None
            previous = before if isinstance(before, Exited) else None
            self.known = replace(self.known, previous=previous, failures=found[-1].number)

    @property
    def folder(self) -> Path:
        return self._around.pod_dir(self._record.uid) / self.name

    @property
    def spec(self) -> Object:
        return next(one for one in every_container(self.pod["spec"]) if one["name"] == self.name)

    @property
    def is_ephemeral(self) -> bool:
        """Return True if the container is ephemeral: it was added to a running pod in order to inspect it."""
        return any(one["name"] == self.name for one in self.pod["spec"].get("ephemeralContainers") or ())

    @property
    def part(self) -> str:
        """Return the container's field path, as Events name it."""
        is_init = any(one["name"] == self.name for one in self.pod["spec"].get("initContainers") or ())
        sort = "ephemeralContainers" if self.is_ephemeral else "initContainers" if is_init else "containers"
        return f"spec.{sort}{{{self.name}}}"

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the directories of its own control groups, without those of its pod."""
        return self._attempt.spec.cgroup_dirs[::2] if self._attempt is not None else ()

    # --- what is ----------------------------------------------------------------------------------------------------

    def refresh(self) -> Known:
        """Look again."""
        if self._attempt is None or self.known.state is None:
            return self.known
        state = self._attempt.settle()
        if isinstance(self.known.state, Planned) and not isinstance(state, Planned):
            self._adopt(self._attempt)
        elif isinstance(state, Exited) and not isinstance(self.known.state, Exited):
            self._note_end(state)
        elif isinstance(state, RunningAttempt) and self._health is not None:
            self.known = replace(self.known, ready=self._health.ready, started=self._health.started)
        return self.known

    def _adopt(self, attempt: Attempt) -> None:
        self._attempt, state = attempt, attempt.settle()
        self.known = replace(self.known, number=attempt.number, state=state, waiting=None, ready=False, started=False)
        self.known = replace(self.known, image_id=attempt.spec.image_id)
        self.doomed, self._stopping_since_s, self._told = "", None, False
        if isinstance(state, RunningAttempt | Planned) and attempt.spec.confined and self._around.fence is not None:
            self._around.fence.note(self._record.uid, self._fenced(attempt.spec.user or 0))
        if isinstance(state, Exited) and state.reason == NEVER_STARTED:
            # The state before the attempt; the attempt's number is not used again.
            self.known = replace(self.known, state=None)
        elif isinstance(state, Exited):
            self._note_end(state)
        elif isinstance(state, Planned):  # an agent that is gone started it just now
            self._watch = asyncio.create_task(self._await_record(attempt))
        else:
            self._watch = asyncio.create_task(self._follow(attempt))
            self._health = Health(self.spec, attempt, self._record.pod_ip, state.started_s, self._on_health)
            self.known = replace(self.known, ready=self._health.ready, started=self._health.started)

    async def _await_record(self, attempt: Attempt) -> None:
        while isinstance(attempt.settle(), Planned):  # noqa: ASYNC110 - it is another process that tells
            await asyncio.sleep(_LOOK_S)
        self._changed()

    async def _follow(self, attempt: Attempt) -> None:
        await attempt.ended()
        self._changed()

    def _on_health(self, doomed: str) -> None:
        if doomed and not self.doomed:
            self.doomed = doomed
            self._tell("Unhealthy", doomed, kind="Warning")
        self._changed()

    def _note_end(self, state: Exited) -> None:
        """Release the resources of an attempt that has ended. Called once for each attempt."""
        assert self._attempt is not None
        self.release()
        dirs = self._attempt.spec.cgroup_dirs
        cgroup.kill(dirs)
        cgroup.remove(dirs)
        if (
            state.exit_code
            and not state.message
            and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        ):
            state = replace(state, message=last_lines(self._attempt.log, _MESSAGE_LINES, _MESSAGE_BYTES))
        if state.reason == "OOMKilled" and not state.message:
            state = replace(state, message=out_of_memory(self.spec, state))
        if state.exit_code or state.told:
            state = replace(state, log_end=last_lines(self._attempt.log, _LOG_END_LINES, _LOG_END_BYTES))
        long = state.finished_s - state.started_s > 2 * self._around.settings.patience.backoff_most_s
        failures = 0 if long else self.known.failures
        self.known = replace(self.known, state=state, ready=False, started=False, failures=failures)

    def release(self) -> None:
        """Cancel the tasks that watch the container. Its processes continue."""
        for task in (self._watch, self._hook):
            if task is not None:
                task.cancel()
        if self._health is not None:
            self._health.close()
        self._watch = self._hook = self._health = None

    # --- starting ---------------------------------------------------------------------------------------------------

    async def start(self, pod_with_status: Object) -> None:
        """Start the next attempt. If that is not possible, `known.waiting` gets the reason."""
        image = self._image()
        if image is None:
            return
        number = 0 if self._attempt is None else self._attempt.number + 1
        is_routine = number == 0 and self.known.waiting is None
        attempt = Attempt(self.folder, number)
        try:
            with self._around.images.in_use() if image.layers else nullcontext():
                spec = await self._run_spec(pod_with_status, number, image)
                try:
                    await attempt.start(spec)
                except OSError as error:  # a full disk
                    self._wait("CreateContainerError", f"{attempt.folder}: {error.strerror}; free some space there")
                    return
        except (PhalanxError, ApiError, OSError) as error:
            self._wait("CreateContainerConfigError", str(error))
            return
        previous = self.known.state if isinstance(self.known.state, Exited) else self.known.previous
        self.known = Known(number=number, previous=previous, failures=self.known.failures + (number > 0))
        self._adopt(attempt)
        self._forget_old(number)
        await self._tell_start(is_routine=is_routine)

    def _image(self) -> Image | None:
        """Return the container's image on this machine; otherwise the container waits."""
        image, before = self.spec["image"], self.known.waiting
        if (found := self._around.image(image)) is not None:
            return found
        patience = self._around.settings.patience
        text = (
            f'image "{image}" is not on this machine, which pulls none by itself: import it (`phalanx image import '
            f'{image} SOURCE`, as who runs `phalanx up`), use "image: {HOST_IMAGE}" and a command that is installed '
            "here, or say with `phalanx up --local-images FILE` what of this machine stands in for it"
        )
        if before is None or before.reason not in ("ErrImagePull", "ImagePullBackOff"):
            self._tell("Failed", f'Failed to pull image "{image}": {text}', kind="Warning")
            self._tell("Failed", "Error: ErrImagePull", kind="Warning")
            self._hold("ErrImagePull", text, patience.backoff_first_s)
        else:
            if before.reason == "ErrImagePull":
                self._tell("BackOff", f'Back-off pulling image "{image}"')
                self._tell("Failed", "Error: ImagePullBackOff", kind="Warning")
            self._hold("ImagePullBackOff", f'Back-off pulling image "{image}": {text}', patience.backoff_most_s)
        return None

    def move(self) -> None:
        """Move the container to the shared CPUs, unless it has exclusive ones."""
        if (
            self._attempt is None
            or self._record.cpus.get(self.name)
            or not isinstance(self.known.state, RunningAttempt)
        ):
            return
        if file := self._attempt.spec.cpus_file:
            with suppress(OSError):  # the program has just ended
                Path(file).write_text(listed(self._around.shared_cpus))

    def image_changed(self) -> None:
        self.known = replace(self.known, waiting=None)

    def _wait(self, reason: str, message: str) -> None:
        if self.known.waiting is None or self.known.waiting.message != message:
            self._tell("Failed", f"Error: {message}", kind="Warning")
        self._hold(reason, message, self._around.settings.patience.config_retry_s)

    def _hold(self, reason: str, message: str, pause_s: float) -> None:
        self.known = replace(self.known, waiting=Waiting(reason=reason, message=message, retry_s=time.time() + pause_s))

    async def _run_spec(self, pod: Object, number: int, image: Image) -> RunSpec:
        """Raises EnvironmentFault, ApiError, OSError."""
        around, spec = self._around, self.spec
        asked = await environment(spec, pod, around.allocatable, around.look_up)
        gpus = self._record.devices.get(self.name, ())
        granted = await around.devices.grant(self._record.named.get(self.name, {}))
        devices = device_variables(
            gpus,
            {gpu.index: gpu.uuid for gpu in around.gpus},
            on_gpu_node=around.has_gpus,
        )
        owner = around.owner(self._record.namespace)
        own_words = owner.variables if owner is not None and not image.layers else {}
        env = around.variables(own_root=bool(image.layers)) | own_words | dict(image.env)
        env |= {"TERM": "xterm"} if spec.get("tty") else {}
        env |= {"HOSTNAME": host_name(pod)} | devices | dict(granted.env) | asked
        user, group = _user(spec, pod, image) if owner is None else _user_of(owner, spec, pod)
        mounts = self._mounts(pod, image, asked, owner, granted)
        own = around.device_files(gpus)
        root = None
        if image.layers:
            place = around.pod_dir(self._record.uid) / VOLUMES / f"{ROOT_PREFIX}{self.name}-{number}"
            files = (*((path, path) for path in own), *((one.source, one.target) for one in granted.files))
            root = await asyncio.to_thread(root_of, image, place, around.isolation, spec, pod, files)
        limit = self._limits(owner, around.others_files((*own, *(one.source for one in granted.files))))
        whole = around.limits_of_pod(pod["spec"]) if self.is_ephemeral else CgroupLimits()
        whole = replace(whole, cpu_request_milli=demand(pod["spec"]).get("cpu", 0))
        group_of = around.cgroups.create(self._record.uid, f"{self.name}-{number}", limit, whole)
        own_processes = root is not None or owner is not None
        if owner is not None and around.fence is not None:
            await around.fence.admit(self._record.uid, self._fenced(owner.user))
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
            processes_of=self._target() if own_processes else None,
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

    def _fenced(self, user: int) -> Fenced:
        address = self._record.pod_ip
        return Fenced(user=user, address="" if address == self._around.settings.address else address)

    def _limits(self, owner: MachineOwner | None, others_files: tuple[str, ...]) -> CgroupLimits:
        """Return the limits that the kernel enforces on the container. An ephemeral container has no memory limit of
        its own: it shares the limit of its pod."""
        around = self._around
        found = around.limits(requests(self.spec), limits(self.spec))
        return replace(
            found,
            memory_limit_bytes=None if self.is_ephemeral else found.memory_limit_bytes,
            pids_limit=_PIDS if owner is not None else None,
            cpus=listed(self._record.cpus.get(self.name) or around.shared_cpus),
            others_files=others_files,
        )

    def _target(self) -> Process | None:
        """Return the process whose PID namespace an ephemeral container joins: that of its target container. None
        without a target. Raises EnvironmentFault."""
        name = self.spec.get("targetContainerName")
        if not name:
            return None
        found = attempts(self.folder.parent / name)
        state = found[-1].settle() if found else None
        if not isinstance(state, RunningAttempt):
            raise EnvironmentFault(f'target container "{name}" does not run')
        return Process(pid=state.pid, start=state.pid_start) if found[-1].spec.own_processes else None

    def _mounts(
        self, pod: Object, image: Image, asked: Mapping[str, str], owner: MachineOwner | None, granted: GrantedDevices
    ) -> tuple[Mount, ...]:
        """Raises EnvironmentFault, OSError."""
        around, root = self._around, self._around.pod_dir(self._record.uid) / VOLUMES
        files = () if image.layers else granted.files  # into a root of its own they come with the others of /dev
        moved = tuple(Mount(source=one.source, target=one.target) for one in files if one.source != one.target)
        mounts = (*image.paths, *granted.mounts, *moved, *volumes.mounts(self.spec, pod, root, asked))
        if owner is not None:
            volumes.check_paths_of_machine(pod)
            if not image.layers:
                mounts = (*volumes.private_folders(root, owner.user, owner.group, mounts), *mounts)
        if mounts and around.isolation.refusal:
            raise EnvironmentFault(
                f"container {self.name} mounts volumes or paths of its image, and this node cannot mount "
                f"({around.isolation.refusal}). Start it as root, or do without them and use the machine's paths"
            )
        if not around.isolation.refusal and not any(mount.target == _HOSTS for mount in mounts):
            mounts = (*mounts, Mount(source=str(around.naming.hosts(pod)), target=_HOSTS))
        return (*mounts, *resolver(mounts)) if image.layers else mounts

    async def _tell_start(self, *, is_routine: bool) -> None:
        """Record the start as Events, and run the hook of the container. `is_routine`: the container starts for the
        first time and did not wait. Such a start makes no Event, because the status of the pod says the same."""
        state = self.known.state
        has_failed = isinstance(state, Exited) and state.reason == "StartError"
        if has_failed or not is_routine:
            self._tell("Pulled", f'Container image "{self.spec["image"]}" already present on machine')
            self._tell("Created", f"Created container: {self.name}")
        if isinstance(state, Exited) and has_failed:
            self._tell("Failed", f"Error: {state.message}", kind="Warning")
            return
        if not is_routine:
            self._tell("Started", f"Started container {self.name}")
        hook = ((self.spec.get("lifecycle") or {}).get("postStart") or {}).get("exec")
        if hook and self._attempt is not None and (failure := await run_hook(self._attempt, hook["command"], None)):
            self.doomed = f"PostStartHook failed: {failure}"
            self._tell("FailedPostStartHook", self.doomed, kind="Warning")

    def _forget_old(self, number: int) -> None:
        for attempt in attempts(self.folder):
            if attempt.number <= number - _KEPT_ATTEMPTS:
                for path in self.folder.glob(f"{attempt.number}.*"):
                    path.unlink(missing_ok=True)

    # --- stopping ---------------------------------------------------------------------------------------------------

    def stop(self, grace_s: float, told: str, event: str = "") -> float | None:
        """Take the step of stopping that is due: SIGTERM, later SIGKILL. Return the Unix time of the next step, or None
        if nothing runs. `told`: the reason for stopping."""
        if self._attempt is None or not isinstance(self.known.state, RunningAttempt | Planned):
            return None
        now_s = time.time()
        if self._stopping_since_s is None:
            self._stopping_since_s = now_s
            with suppress(OSError):  # a full disk costs us the reason, not the stop
                self._attempt.note(told)
            self._tell("Killing", event or f"Stopping container {self.name}")
            self._begin_hook(grace_s)
        deadline_s = self._stopping_since_s + grace_s
        if now_s >= deadline_s:
            self._attempt.kill()
            return now_s + 1.0
        if not self._told and (self._hook is None or self._hook.done()):
            self._told = True
            self._attempt.terminate()
        return deadline_s

    def _begin_hook(self, grace_s: float) -> None:
        command: Mapping[str, list[str]] | None = ((self.spec.get("lifecycle") or {}).get("preStop") or {}).get("exec")
        if command and self._attempt is not None:
            self._hook = asyncio.create_task(self._pre_stop(self._attempt, command["command"], grace_s))

    async def _pre_stop(self, attempt: Attempt, command: list[str], grace_s: float) -> None:
        if failure := await run_hook(attempt, command, grace_s):
            self._tell("FailedPreStopHook", f"PreStopHook failed: {failure}", kind="Warning")
        self._changed()

    def _tell(self, reason: str, message: str, *, kind: str = "Normal") -> None:
        self._around.tell.tell(self.pod, reason, message, kind=kind, container=self.part)


def _user_of(owner: MachineOwner, spec: Object, pod: Object) -> tuple[int, int]:
    """Return the uid and gid of the namespace's owner. A pod that requests another user or group is refused. Raises
    EnvironmentFault."""
    context = security_context(spec, pod)
    user, group = context.get("runAsUser"), context.get("runAsGroup")
    if user not in (None, owner.user) or group not in (None, owner.group, *owner.groups):
        raise EnvironmentFault(
            f"runAsUser {user} and runAsGroup {group} are not those of namespace {pod['metadata']['namespace']}: its "
            f"pods run as user {owner.user}, with the groups {', '.join(map(str, owner.groups))}"
        )
    if context.get("privileged"):
        raise EnvironmentFault("privileged containers are refused on a machine that is shared")
    return owner.user, owner.group if group is None else group


def _user(spec: Object, pod: Object, image: Image) -> tuple[int | None, int | None]:
    """Return runAsUser and runAsGroup: the container's, otherwise the pod's. Raises EnvironmentFault if the agent may
    not start processes of this user."""
    context = security_context(spec, pod)
    user, group = context.get("runAsUser"), context.get("runAsGroup")
    if os.geteuid() != 0:
        if image.layers:  # the user namespace maps the user inside of it
            return None, None
        if (user not in (None, os.geteuid())) or (group not in (None, os.getegid())):
            raise EnvironmentFault(
                f"runAsUser {user} needs a node agent that runs as root; this one is user {os.geteuid()}"
            )
        return None, None
    if context.get("runAsNonRoot") and not (user if user is not None else _is_number_of_user(image.user)):
        raise EnvironmentFault("container has runAsNonRoot and image will run as root; set runAsUser")
    return user, group


def _is_number_of_user(text: str) -> bool:
    """Return True if the image's user is a number other than root; a name cannot be checked."""
    user = text.partition(":")[0]
    return user.isdigit() and int(user) != 0
