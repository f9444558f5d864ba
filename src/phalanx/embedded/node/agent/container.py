"""Manage one container of a pod on this node over all its attempts (starts). The module stores the container's last
known state, and the reason why the next attempt waits. `stop` is level-triggered: the caller may call it in every
iteration, and each call performs the step that is due.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from phalanx.client.connection import ApiError, Object
from phalanx.embedded.node.agent.attempt_watch import AttemptWatch, clean_up, run_post_start
from phalanx.embedded.node.agent.starting.container_start import ContainerStart
from phalanx.embedded.node.agent.starting.image_wait import image_wait
from phalanx.embedded.node.agent.starting.run_spec import fenced, run_spec
from phalanx.embedded.node.container.attempt import (
    NEVER_STARTED,
    Attempt,
    Exited,
    Planned,
    RunningAttempt,
    RunSpec,
    attempts,
)
from phalanx.embedded.node.container.image import Image
from phalanx.embedded.node.machine.cpus import listed
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.pod.admission import every_container, field_path
from phalanx.embedded.node.pod.lifecycle import ContainerStateWaiting, Known
from phalanx.embedded.node.pod.record import PodRecord
from phalanx.errors import PhalanxError

_KEPT_ATTEMPTS = 2  # keep the present attempt and the attempt before it, for `kubectl logs --previous`


class Container:
    """A container of a pod. `known`: its last known state. `changed`: a function that is called when the state of the
    container may have changed."""

    def __init__(
        self, name: str, pod: Object, record: PodRecord, around: Surroundings, changed: Callable[[], None]
    ) -> None:
        self.name, self._pod, self.known = name, pod, Known()
        self._record, self._around, self._changed = record, around, changed
        self._attempt: Attempt | None = None
        self._watch: AttemptWatch | None = None  # None if no attempt runs
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
        return next(one for one in every_container(self._pod["spec"]) if one["name"] == self.name)

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the directories of the container's own control groups; the groups of its pod are not included."""
        return self._attempt.spec.cgroup_dirs[::2] if self._attempt is not None else ()

    @property
    def doomed(self) -> str:
        """Return the reason why the running attempt must be ended and the container restarted; "" if there is none."""
        return self._watch.doomed if self._watch is not None else ""

    # --- the state of the container -----------------------------------------------------------------------------------

    def refresh(self) -> Known:
        """Read the state of the present attempt again from its files."""
        if self._attempt is None or self.known.state is None:
            return self.known
        state = self._attempt.settle()
        if isinstance(self.known.state, Planned) and not isinstance(state, Planned):
            self._adopt(self._attempt)
        elif isinstance(state, Exited) and not isinstance(self.known.state, Exited):
            self._note_end(self._attempt, state)
        elif isinstance(state, RunningAttempt) and self._watch is not None:
            self.known = replace(self.known, ready=self._watch.is_ready, started=self._watch.is_started)
        return self.known

    def _adopt(self, attempt: Attempt) -> None:
        """Set this attempt as the present attempt. The attempt may be planned, running or ended."""
        self.release()
        self._attempt, state, spec = attempt, attempt.settle(), attempt.spec
        self.known = replace(self.known, number=attempt.number, state=state, waiting=None, ready=False, started=False)
        self.known = replace(self.known, image_id=spec.image_id)
        if isinstance(state, Exited) and state.reason == NEVER_STARTED:
            # Restore the state before the attempt. The number of this attempt is not used again.
            self.known = replace(self.known, state=None)
        elif isinstance(state, Exited):
            self._note_end(attempt, state)
        else:
            if spec.confined and self._around.fence is not None:
                self._around.fence.note(self._record.uid, fenced(self._record, self._around, spec.user or 0))
            self._watch = AttemptWatch(attempt, state, self.spec, self._record.pod_ip, self._tell, self._changed)
            self.known = replace(self.known, ready=self._watch.is_ready, started=self._watch.is_started)

    def _note_end(self, attempt: Attempt, end: Exited) -> None:
        """Store the end of the attempt in the known state. The caller calls this method once for each attempt."""
        self.release()
        end = clean_up(attempt, end, self.spec)
        long = end.finished_s - end.started_s > 2 * self._around.settings.patience.backoff_most_s
        failures = 0 if long else self.known.failures
        self.known = replace(self.known, state=end, ready=False, started=False, failures=failures)

    def release(self) -> None:
        """Cancel the tasks that watch the container. Its processes continue."""
        if self._watch is not None:
            self._watch.release()
        self._watch = None

    # --- the attempts of the container --------------------------------------------------------------------------------

    async def start(self, pod_with_status: Object) -> None:
        """Start the next attempt. If that is not possible, set `known.waiting` to the reason."""
        if (image := self._image()) is None:
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
                    self._wait("CreateContainerError", f"{attempt.folder}: {error.strerror}; free some space on it")
                    return
        except (PhalanxError, ApiError, OSError) as error:
            self._wait("CreateContainerConfigError", str(error))
            return
        previous = self.known.state if isinstance(self.known.state, Exited) else self.known.previous
        self.known = Known(number=number, previous=previous, failures=self.known.failures + (number > 0))
        self._adopt(attempt)
        _forget_old(self.folder, number)
        self._tell_start(is_routine=is_routine)
        is_failed = isinstance(self.known.state, Exited) and self.known.state.reason == "StartError"
        if not is_failed and (doomed := await run_post_start(attempt, self.spec)):
            self._tell("FailedPostStartHook", doomed, kind="Warning")
            if self._watch is not None:
                self._watch.doomed = doomed

    async def _run_spec(self, pod: Object, number: int, image: Image) -> RunSpec:
        around, record = self._around, self._record
        owner = around.owner(record.namespace)
        start = ContainerStart(
            pod=pod, spec=self.spec, number=number, image=image, record=record, around=around, owner=owner
        )
        return await run_spec(start)

    def _image(self) -> Image | None:
        """Return the container's image on this machine. If the machine does not have the image, return None, and set
        the reason why the container waits."""
        if (found := self._around.image(self.spec["image"])) is not None:
            return found
        patience = self._around.settings.patience
        waiting, events = image_wait(self.spec["image"], self.known.waiting, patience, time.time())
        for reason, message, kind in events:
            self._tell(reason, message, kind=kind)
        self.known = replace(self.known, waiting=waiting)
        return None

    def see_pod(self, pod: Object) -> None:
        """Store the pod's current object. If the image has changed, stop waiting for the old image."""
        image, self._pod = self.spec["image"], pod
        if self.spec["image"] != image:
            self.known = replace(self.known, waiting=None)

    def wait(self, waiting: ContainerStateWaiting) -> None:
        """Set the reason why the container waits."""
        self.known = replace(self.known, waiting=waiting)

    def _wait(self, reason: str, message: str) -> None:
        if self.known.waiting is None or self.known.waiting.message != message:
            self._tell("Failed", f"Error: {message}", kind="Warning")
        retry_s = time.time() + self._around.settings.patience.config_retry_s
        self.wait(ContainerStateWaiting(reason=reason, message=message, retry_s=retry_s))

    def move(self) -> None:
        """Restrict the container to the shared CPUs, unless it has exclusive CPUs."""
        is_exclusive = bool(self._record.cpus.get(self.name))
        if self._attempt is None or is_exclusive or not isinstance(self.known.state, RunningAttempt):
            return
        if file := self._attempt.spec.cpus_file:
            with suppress(OSError):  # the program has ended in the meantime
                Path(file).write_text(listed(self._around.shared_cpus))

    def stop(self, grace_s: float, reason: str, event: str = "") -> float | None:
        """Take the next step of stopping the container, as `AttemptWatch.stop` does. Return None if no attempt runs."""
        return self._watch.stop(grace_s, reason, event) if self._watch is not None else None

    # --- reports ------------------------------------------------------------------------------------------------------

    def _tell_start(self, *, is_routine: bool) -> None:
        """Record the start as Events. `is_routine`: True if the container starts for the first time and did not wait.
        Such a start gets no Event, because the status of the pod shows the start."""
        state = self.known.state
        failed = state if isinstance(state, Exited) and state.reason == "StartError" else None
        if failed is not None or not is_routine:
            self._tell("Pulled", f'Container image "{self.spec["image"]}" already present on machine')
            self._tell("Created", f"Created container: {self.name}")
        if failed is not None:
            self._tell("Failed", f"Error: {failed.message}", kind="Warning")
        elif not is_routine:
            self._tell("Started", f"Started container {self.name}")

    def _tell(self, reason: str, message: str, *, kind: str = "Normal") -> None:
        self._around.tell.tell(self._pod, reason, message, kind=kind, container=field_path(self._pod, self.name))


def _forget_old(folder: Path, number: int) -> None:
    """Remove the files of old attempts. The files of attempt `number` and of the attempt before it stay."""
    for attempt in attempts(folder):
        if attempt.number <= number - _KEPT_ATTEMPTS:
            for path in folder.glob(f"{attempt.number}.*"):
                path.unlink(missing_ok=True)
