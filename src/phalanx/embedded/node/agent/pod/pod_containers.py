"""Manage the containers of one pod together: apply changes of the spec, start, stop and restart containers, and report
their states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from phalanx.client.connection import Object
from phalanx.embedded.node.agent.container import Container
from phalanx.embedded.node.container.attempt import Planned, RunningAttempt
from phalanx.embedded.node.machine.surroundings import Surroundings
from phalanx.embedded.node.pod.admission import every_container
from phalanx.embedded.node.pod.lifecycle import ContainerStateWaiting, Known
from phalanx.embedded.node.pod.record import PodRecord


class PodContainers:
    """The containers of a pod. `by_name`: all containers, by name. `changed`: a function that is called when the state
    of a container may have changed."""

    def __init__(self, pod: Object, record: PodRecord, around: Surroundings, changed: Callable[[], None]) -> None:
        self.by_name: dict[str, Container] = {}
        self._record, self._around, self._changed = record, around, changed
        self.take_in(pod)

    def take_in(self, pod: Object) -> None:
        """Store the pod's current object, and create a `Container` for each new container. Ephemeral containers are
        added to the spec while the pod runs. A container with a new image stops waiting for the old image."""
        for spec in every_container(pod["spec"]):
            if (container := self.by_name.get(spec["name"])) is None:
                self.by_name[spec["name"]] = Container(spec["name"], pod, self._record, self._around, self._changed)
            else:
                container.see_pod(pod)

    def known(self) -> dict[str, Known]:
        """Read the states of all containers again, and return them."""
        return {name: container.refresh() for name, container in self.by_name.items()}

    # --- properties of the last known states ---------------------------------------------------------------

    @property
    def is_any_started(self) -> bool:
        return any(one.known.state is not None for one in self.by_name.values())

    @property
    def is_any_running(self) -> bool:
        return any(isinstance(one.known.state, RunningAttempt) for one in self.by_name.values())

    @property
    def is_any_up(self) -> bool:
        """Return whether any container runs or will start at once."""
        return any(isinstance(one.known.state, RunningAttempt | Planned) for one in self.by_name.values())

    @property
    def latest_start_s(self) -> float:
        """Return the Unix time at which the newest running container started; 0 if no container runs."""
        states = (one.known.state for one in self.by_name.values())
        return max((state.started_s for state in states if isinstance(state, RunningAttempt)), default=0.0)

    # --- steps ------------------------------------------------------------------------------------------------------

    async def start(self, names: Iterable[str], pod_with_status: Object) -> None:
        for name in names:
            await self.by_name[name].start(pod_with_status)

    def stop(self, names: Iterable[str], grace_s: float, cause: str) -> list[float | None]:
        """Perform the next step of stopping these containers. Return the time at which the next step of each container
        is due."""
        return [self.by_name[name].stop(grace_s, cause) for name in names]

    def stop_doomed(self, grace_s: float, *, besides: Collection[str]) -> list[float | None]:
        """Perform the next step of stopping each container that must be restarted, for example because a probe failed.
        Return the time at which the next step of each container is due. `besides`: containers that `stop` already
        stops; they are left out."""
        doomed = [one for name, one in self.by_name.items() if one.doomed and name not in besides]
        return [container.stop(grace_s, container.doomed, _event(container)) for container in doomed]

    def wait(self, waiting: ContainerStateWaiting) -> None:
        """Set the reason why all containers wait."""
        for container in self.by_name.values():
            container.wait(waiting)

    def release(self) -> None:
        """Cancel the tasks that watch the containers. Their processes continue."""
        for container in self.by_name.values():
            container.release()


def _event(container: Container) -> str:
    return f"Container {container.name} {container.doomed.partition(':')[0].lower()}, will be restarted"
