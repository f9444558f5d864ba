"""Watch one attempt (one start of a container) while it runs. The module runs the probes and the hooks of the
container, and stops the container."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from phalanx.client.connection import Object
from phalanx.embedded.node.container import cgroup
from phalanx.embedded.node.container.attempt import Attempt, Exited, Planned, RunningAttempt
from phalanx.embedded.node.container.exec import run_hook
from phalanx.embedded.node.container.log.reading import last_lines
from phalanx.embedded.node.container.probe import Health
from phalanx.embedded.node.pod.cause import out_of_memory

_LOOK_S = 0.05  # the interval between checks for the run record of a container that another process started
# The maximum size of a termination message that is read from the end of the log (FallbackToLogsOnError).
_MESSAGE_BYTES, _MESSAGE_LINES = 2048, 80
# the exit record contains the end of the log, with at most this many bytes and lines
_LOG_END_BYTES, _LOG_END_LINES = 1024, 5


class AttemptWatch:
    """An attempt that runs or will start at once. `doomed`: the reason why the container must be restarted (a failed
    probe or a failed hook); "" if there is none. `tell`: a function that records an Event. `changed`: a function that
    is called when the state of the container may have changed."""

    def __init__(
        self,
        attempt: Attempt,
        state: Planned | RunningAttempt,
        container: Object,
        address: str,
        tell: Callable[..., None],
        changed: Callable[[], None],
    ) -> None:
        self.doomed = ""
        self._attempt, self._tell, self._changed = attempt, tell, changed
        self._container = container
        self._health: Health | None = None
        self._hook: asyncio.Task[None] | None = None
        self._stopping_since_s: float | None = None
        self._terminated = False  # True after SIGTERM was sent
        if isinstance(state, Planned):  # the previous agent process has just started the attempt
            self._end = asyncio.create_task(self._await_record())
        else:
            self._end = asyncio.create_task(self._await_end())
            self._health = Health(container, attempt, address, state.started_s, self._on_health)

    @property
    def is_ready(self) -> bool:
        return self._health is not None and self._health.ready

    @property
    def is_started(self) -> bool:
        return self._health is not None and self._health.started

    def release(self) -> None:
        """Cancel the tasks that watch the attempt. Its processes continue."""
        self._end.cancel()
        if self._hook is not None:
            self._hook.cancel()
        if self._health is not None:
            self._health.close()

    def stop(self, grace_s: float, reason: str, event: str = "") -> float:
        """Take the next step of stopping the attempt: send SIGTERM, and later SIGKILL. Return the Unix time of the next
        step. `reason`: the reason for stopping."""
        now_s = time.time()
        if self._stopping_since_s is None:
            self._stopping_since_s = now_s
            with suppress(OSError):  # stop the attempt even if the disk is full and the reason cannot be recorded
                self._attempt.note(reason)
            self._tell("Killing", event or f"Stopping container {self._container['name']}")
            if command := _hook_command(self._container, "preStop"):
                self._hook = asyncio.create_task(self._run_pre_stop(command, grace_s))
        deadline_s = self._stopping_since_s + grace_s
        if now_s >= deadline_s:
            self._attempt.kill()
            return now_s + 1.0
        if not self._terminated and (self._hook is None or self._hook.done()):
            self._terminated = True
            self._attempt.terminate()
        return deadline_s

    # --- tasks ------------------------------------------------------------------------------------------------------

    async def _await_record(self) -> None:
        while isinstance(self._attempt.settle(), Planned):  # noqa: ASYNC110 - it is another process that tells
            await asyncio.sleep(_LOOK_S)
        self._changed()

    async def _await_end(self) -> None:
        await self._attempt.ended()
        self._changed()

    async def _run_pre_stop(self, command: list[str], grace_s: float) -> None:
        if failure := await run_hook(self._attempt, command, grace_s):
            self._tell("FailedPreStopHook", f"PreStopHook failed: {failure}", kind="Warning")
        self._changed()

    def _on_health(self, doomed: str) -> None:
        if doomed and not self.doomed:
            self.doomed = doomed
            self._tell("Unhealthy", doomed, kind="Warning")
        self._changed()


async def run_post_start(attempt: Attempt, container: Object) -> str:
    """Run the postStart hook. Return "" if it succeeds. If it fails, return the reason; the caller then restarts the
    container."""
    command = _hook_command(container, "postStart")
    failure = await run_hook(attempt, command, None) if command else ""
    return f"PostStartHook failed: {failure}" if failure else ""


def _hook_command(container: Object, hook: str) -> list[str]:
    return list((((container.get("lifecycle") or {}).get(hook) or {}).get("exec") or {}).get("command") or ())


def clean_up(attempt: Attempt, end: Exited, container: Object) -> Exited:
    """Release the resources of an attempt that has ended. Return the recorded end, with the messages for users
    added."""
    dirs = attempt.spec.cgroup_dirs
    cgroup.kill(dirs)
    cgroup.remove(dirs)
    message = end.message
    if end.exit_code and not message and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        message = last_lines(attempt.log, _MESSAGE_LINES, _MESSAGE_BYTES)
    if end.reason == "OOMKilled" and not message:
        message = out_of_memory(container, end)
    log_end = last_lines(attempt.log, _LOG_END_LINES, _LOG_END_BYTES) if end.exit_code or end.told else end.log_end
    return replace(end, message=message, log_end=log_end)
