"""Pods and nodes for tests, as short as what they are about."""

from __future__ import annotations

from typing import Any

from phalanx.embedded.node.container.attempt import Exited, RunningAttempt

Object = dict[str, Any]


def container(name: str = "main", *command: str, **more: Any) -> Object:
    return {"name": name, "image": "host", "command": list(command) or ["true"], **more}


def asking(name: str = "main", **resources: str) -> Object:
    return container(name, resources={"requests": resources})


def pod(*containers: Object, name: str = "p", meta: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **(meta or {})},
        "spec": {"containers": list(containers) or [container()], **spec},
        "status": {},
    }


def node(name: str = "n", labels: dict[str, str] | None = None, *taints: Object) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": list(taints)}}


def running(since_s: float = 100.0) -> RunningAttempt:
    return RunningAttempt(shim_pid=1, shim_start=1, pid=2, pid_start=1, started_s=since_s)


def exited(code: int = 0, at_s: float = 200.0, **more: Any) -> Exited:
    return Exited(exit_code=code, started_s=at_s - 1, finished_s=at_s, **more)
