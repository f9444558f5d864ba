"""As a user of TorchX writes it: an application is run, waited for, its logs are read; another is cancelled."""

import time

from torchx.runner import Runner, get_runner
from torchx.specs import AppDef, AppState, Resource, Role

SETTINGS = {"queue": "default", "namespace": "default"}
TOLD = 'test -n "$TORCHX_JOB_ID" && test -n "$VC_TASK_INDEX" && echo "replica on $(hostname)"'


def application(name: str, replicas: int, *words: str) -> AppDef:
    entry, *rest = words
    small = Resource(cpu=1, gpu=0, memMB=64)
    role = Role(name="worker", image="host", entrypoint=entry, args=rest, num_replicas=replicas, resource=small)
    return AppDef(name=name, roles=[role])


def finishes(runner: Runner) -> list[str]:
    handle = runner.run(application("hello", 2, "sh", "-c", TOLD), "kubernetes", cfg=SETTINGS)
    status = runner.wait(handle, wait_interval=1)
    assert status is not None
    assert status.state == AppState.SUCCEEDED, status
    lines = [line.strip() for replica in range(2) for line in runner.log_lines(handle, "worker", replica)]
    hosts = {line.rpartition(" ")[2] for line in lines}
    assert len(hosts) == 2, lines
    assert any(app.state == AppState.SUCCEEDED for app in runner.list("kubernetes"))
    return sorted(hosts)


def is_cancelled(runner: Runner) -> None:
    handle = runner.run(application("long", 1, "sleep", "300"), "kubernetes", cfg=SETTINGS)
    while (status := runner.status(handle)) is None or status.state != AppState.RUNNING:
        time.sleep(0.3)  # a runner waits for the end of an application only (`wait`), and this one is to be running
    runner.cancel(handle)


def main() -> None:
    with get_runner("example") as runner:
        hosts = finishes(runner)
        is_cancelled(runner)
    print(f"two replicas of a Volcano Job ended well and told so, on {len(hosts)} hosts; another was cancelled")


if __name__ == "__main__":
    main()
