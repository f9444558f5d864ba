"""Run one trial: submit six applications to one queue at the same time, and observe them through the API like an
ordinary user.

A trial ends when all drivers have ended, or in a deadlock. It counts as a deadlock if drivers hold all CPUs, all
executors are pending, and no pod has changed for `QUIET_S` seconds.

An application consists of a driver, and of executors that the driver creates when it runs. As with Spark, the executors
do not exist when the driver is scheduled. So annotations on the driver's pod state the number of pods of the
application (`phalanx.dev/min-available`) and their total requests (`phalanx.dev/min-resources`). A queue with `gang:
true` starts the driver only when all pods of the application fit, and reserves the resources of the executors. A queue
with `gang: false` ignores the annotations. So the manifests are the same for both queues."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import PODS
from phalanx.errors import PhalanxError

EXECUTORS = 2
CPU, MEMORY_MI = 1, 64  # the requests of each pod
APPLICATION_LABEL = "phalanx.dev/job"
TRIAL_LABEL = "demo.phalanx.dev/trial"
ROLE_LABEL = "phalanx.dev/role"
ACCESS_SECRET = "demo-api-access"  # noqa: S105  the Secret's name


def queue(name: str, *, gang: bool) -> Object:
    """Return the manifest of a queue. The two queues of the demo differ only in their names and in `gang`."""
    return {
        "apiVersion": "phalanx.dev/v1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"gang": gang},
    }


def access_secret(namespace: str, server: str, token: str, ca: str) -> Object:
    """Return the Secret with the address of the API server and the credentials that the drivers get as variables."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": ACCESS_SECRET, "namespace": namespace},
        "stringData": {"server": server, "token": token, "ca": ca},
    }


def driver(name: str, namespace: str, queue_name: str, trial: str) -> Object:
    pods = EXECUTORS + 1
    pod = _pod(f"{name}-driver", namespace, "phalanx.demo.driver", _labels(name, "driver", queue_name, trial))
    pod["metadata"]["annotations"] = {
        "phalanx.dev/min-available": str(pods),
        "phalanx.dev/min-resources": f"cpu={pods * CPU},memory={pods * MEMORY_MI}Mi",
    }
    pod["spec"]["containers"][0]["env"] = [
        {"name": "APPLICATION", "value": name},
        *(_secret_key(variable, key) for variable, key in _ACCESS.items()),
        *(_field(variable, path) for variable, path in _IDENTITY.items()),
    ]
    return pod


def executor(driver_pod: Object, number: int, address: str, token: str) -> Object:
    """Return the pod of the executor `number` of a driver. The garbage collector deletes it together with the driver's
    pod. `address`, `token`: the address of the driver and the secret for the connection to it."""
    meta = driver_pod["metadata"]
    labels = {**meta["labels"], ROLE_LABEL: "executor"}
    name = f"{meta['name'].removesuffix('-driver')}-executor-{number}"
    pod = _pod(name, meta["namespace"], "phalanx.demo.executor", labels)
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
    ]
    pod["spec"]["containers"][0]["env"] = [
        {"name": "DRIVER_ADDRESS", "value": address},
        {"name": "DRIVER_TOKEN", "value": token},
        _field("POD_NAME", "metadata.name"),
    ]
    return pod


_ACCESS = {"API_SERVER": "server", "API_TOKEN": "token", "API_CA": "ca"}
_IDENTITY = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP"}


def _labels(application: str, role: str, queue_name: str, trial: str) -> dict[str, str]:
    return {
        APPLICATION_LABEL: application,
        ROLE_LABEL: role,
        TRIAL_LABEL: trial,
        "phalanx.dev/queue": queue_name,
    }


def _pod(name: str, namespace: str, module: str, labels: Mapping[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "schedulerName": "phalanx",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": "host",
                    "command": [sys.executable, "-m", module],
                    "resources": {"requests": {"cpu": str(CPU), "memory": f"{MEMORY_MI}Mi"}},
                }
            ],
        },
    }


def _secret_key(variable: str, key: str) -> Object:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": ACCESS_SECRET, "key": key}}}


def _field(variable: str, path: str) -> Object:
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}}


APPLICATIONS = 6
QUIET_S = 4.0
LIMIT_S = 300.0
NAMESPACE = "demo"
_TICK_S = 0.25


class DemoPodState(StrEnum):
    """The state of a pod as the demo shows it."""

    WAITING = "waiting"  # the pod has no node
    STARTING = "starting"  # the pod has a node, but does not run yet
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def holds(self) -> bool:
        """Return whether the pod holds its CPU."""
        return self in {DemoPodState.STARTING, DemoPodState.RUNNING}

    @property
    def over(self) -> bool:
        return self in {DemoPodState.SUCCEEDED, DemoPodState.FAILED}


@dataclass(slots=True, kw_only=True)
class PodStory:
    """The observed states of one pod. `moments`: (seconds since the trial began, state) at every change."""

    name: str
    role: str
    moments: list[tuple[float, DemoPodState]] = field(default_factory=list)
    why: str = ""  # the scheduler's reason if the pod is pending

    @property
    def state(self) -> DemoPodState:
        return self.moments[-1][1]

    def since(self, state: DemoPodState) -> float | None:
        """Return the time at which the pod first was in `state`; None if it never was."""
        return next((at_s for at_s, seen in self.moments if seen is state), None)


@dataclass(slots=True, kw_only=True)
class TrialApplication:
    """An application. `executors`: the pods that the driver has created; empty before that."""

    name: str
    driver: PodStory | None = None
    executors: dict[str, PodStory] = field(default_factory=dict)

    @property
    def pods(self) -> list[PodStory]:
        return [*([self.driver] if self.driver else []), *self.executors.values()]

    @property
    def finished(self) -> bool:
        return self.driver is not None and self.driver.state is DemoPodState.SUCCEEDED

    @property
    def over(self) -> bool:
        return self.driver is not None and self.driver.state.over

    def working_since(self) -> float | None:
        """Return the first time at which the driver and all its executors ran at the same time; None if they never
        did."""
        starts = [pod.since(DemoPodState.RUNNING) for pod in self.pods]
        if len(starts) <= EXECUTORS:
            return None
        known = [at_s for at_s in starts if at_s is not None]
        return max(known) if len(known) == len(starts) else None


@dataclass(slots=True, kw_only=True)
class Trial:
    """A trial and its observed pods. `seconds`: its duration so far. `changed_s`: the time at which a pod last
    changed."""

    name: str
    queue: str
    cpus: int
    applications: dict[str, TrialApplication] = field(default_factory=dict)
    seconds: float = 0.0
    changed_s: float = 0.0
    deadlocked: bool = False

    @property
    def pods(self) -> list[PodStory]:
        return [pod for application in self.applications.values() for pod in application.pods]

    @property
    def finished(self) -> int:
        return sum(application.finished for application in self.applications.values())

    @property
    def held(self) -> int:
        """Return the number of CPUs that pods hold."""
        return CPU * sum(pod.state.holds for pod in self.pods)

    @property
    def idle_drivers(self) -> int:
        """Return the number of drivers that hold a CPU while none of their executors holds a CPU."""
        return sum(
            application.driver is not None
            and application.driver.state is DemoPodState.RUNNING
            and not any(executor.state.holds or executor.state.over for executor in application.executors.values())
            for application in self.applications.values()
        )

    @property
    def waiting_executors(self) -> int:
        return sum(pod.role == "executor" and pod.state is DemoPodState.WAITING for pod in self.pods)

    @property
    def stuck(self) -> bool:
        """Return whether drivers without running executors hold all CPUs, and all their executors exist and are
        pending."""
        return (
            self.held >= self.cpus
            and self.idle_drivers * CPU == self.held
            and self.waiting_executors == EXECUTORS * self.idle_drivers
        )

    def take(self, pod: Object, at_s: float) -> None:
        """Record an observed pod. `at_s`: seconds since the trial began."""
        labels = pod["metadata"]["labels"]
        application = self.applications[labels[APPLICATION_LABEL]]
        name, role = pod["metadata"]["name"], labels[ROLE_LABEL]
        story = next((known for known in application.pods if known.name == name), None)
        if story is None:
            story = PodStory(name=name, role=role)
            if role == "driver":
                application.driver = story
            else:
                application.executors[name] = story
        state = state_of(pod)
        story.why = why_waiting(pod)
        if not story.moments or story.state is not state:
            story.moments.append((at_s, state))
            self.changed_s = at_s


def state_of(pod: Object) -> DemoPodState:
    match pod.get("status", {}).get("phase", "Pending"):
        case "Running":
            return DemoPodState.RUNNING
        case "Succeeded":
            return DemoPodState.SUCCEEDED
        case "Failed":
            return DemoPodState.FAILED
        case _:
            return DemoPodState.STARTING if pod["spec"].get("nodeName") else DemoPodState.WAITING


def why_waiting(pod: Object) -> str:
    """Return the scheduler's reason for a pod without a node; "" if there is none."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""


async def run_trial(
    connection: Connection, name: str, queue: str, cpus: int, show: Callable[[Trial], None], quiet_s: float = QUIET_S
) -> Trial:
    """Submit six drivers to `queue`, and watch until they have all ended or are stuck. `show` is called a few times a
    second.

    Raises PhalanxError if the drivers neither end nor are stuck within `LIMIT_S`."""
    names = [f"app-{number}" for number in range(1, APPLICATIONS + 1)]
    trial = Trial(name=name, queue=queue, cpus=cpus, applications={one: TrialApplication(name=one) for one in names})
    informer = Informer(connection, PODS, namespace=NAMESPACE, labelSelector=f"{TRIAL_LABEL}={name}")
    began_s = time.monotonic()

    def take(change: Change) -> None:
        if change.new is not None:
            trial.take(change.new, time.monotonic() - began_s)

    informer.subscribe(take)
    watching = asyncio.create_task(informer.run())
    try:
        await asyncio.gather(
            *(connection.create(PODS, driver(one, NAMESPACE, queue, name), NAMESPACE) for one in names)
        )
        await _until_over(trial, began_s, show, quiet_s)
    finally:
        watching.cancel()
    return trial


async def _until_over(trial: Trial, began_s: float, show: Callable[[Trial], None], quiet_s: float) -> None:
    while True:
        trial.seconds = time.monotonic() - began_s
        show(trial)
        if all(application.over for application in trial.applications.values()):
            return
        if trial.stuck and trial.seconds - trial.changed_s > quiet_s:
            trial.deadlocked = True
            return
        if trial.seconds > LIMIT_S:
            states = ", ".join(f"{pod.name} {pod.state}" for pod in trial.pods)
            raise PhalanxError(
                f"the trial in queue {trial.queue} neither finished nor came to a deadlock within {LIMIT_S:g} s "
                f"({states}). "
                "Run it again with --keep and look at the pods with kubectl."
            )
        await asyncio.sleep(_TICK_S)


async def clear(connection: Connection, trial: Trial) -> None:
    """Delete all pods of the trial, and wait until they do not exist any more."""
    selector = {"labelSelector": f"{TRIAL_LABEL}={trial.name}"}
    deadline_s = time.monotonic() + LIMIT_S
    while pods := (await connection.list(PODS, NAMESPACE, **selector))["items"]:
        if time.monotonic() > deadline_s:
            raise PhalanxError(f"{len(pods)} pods of the trial still exist {LIMIT_S:g} s after their deletion")
        remaining = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
        await asyncio.gather(*(_delete(connection, pod["metadata"]["name"]) for pod in remaining))
        await asyncio.sleep(_TICK_S)


async def results(connection: Connection, trial: Trial) -> Mapping[str, str]:
    """Return application -> the last line of its driver's log, for finished applications only."""
    found = {}
    for application in trial.applications.values():
        if application.finished and application.driver is not None:
            log = await connection.request("GET", PODS.path(NAMESPACE, application.driver.name, "log"))
            found[application.name] = str(log).rstrip().rpartition("\n")[2]
    return found


async def _delete(connection: Connection, name: str) -> None:
    try:
        await connection.delete(PODS, name, NAMESPACE)
    except ApiRefusal as error:
        if error.code != 404:
            raise
