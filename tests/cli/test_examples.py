"""Every example runs with the command that its first lines name, and ends as they say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.upstart import Up, started, until

EXAMPLES = Path(__file__).parents[2] / "examples"

# file -> job -> its state in the end
ENDS = {
    "gang.yaml": {"default/gang": "complete"},
    "indexed.yaml": {"default/primes": "complete"},
    "gpu.yaml": {"default/train-gpu": "queued"},
    "pod-by-pod.yaml": {"default/tasks": "complete"},
}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    # One cpu, so that they run on a newcomer's smallest machine; no GPU, so that no machine decides how gpu.yaml ends.
    with started(tmp_path_factory.mktemp("examples"), "--local-cpu", "1", "--local-gpu", "0", "--stop-pods") as up:
        yield up


def states(up: Up) -> dict[str, str]:
    listing = json.loads(up.phalanx("jobs", "--finished", "--json").stdout)
    return {job["job"]: job["state"] for job in listing}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDS)
def test_it_runs_and_ends_as_it_says(up: Up, name: str) -> None:
    said = up.phalanx("submit", str(EXAMPLES / name))
    assert said.returncode == 0, said.stderr
    wanted = ENDS[name]
    until(lambda: {job: state for job, state in states(up).items() if job in wanted} == wanted)


@pytest.mark.slow
def test_the_workers_met(up: Up) -> None:
    if "default/gang" not in states(up):
        up.phalanx("submit", str(EXAMPLES / "gang.yaml"))
    until(lambda: states(up).get("default/gang") == "complete")
    logs = up.kubectl("logs", "--selector", "batch.kubernetes.io/job-name=gang", "--tail", "5")
    assert "worker 0 heard of workers [1, 2]" in logs


@pytest.mark.slow
def test_the_gpu_job_says_why_it_waits(up: Up) -> None:
    up.phalanx("submit", str(EXAMPLES / "gpu.yaml"))
    page = up.phalanx("explain", "train-gpu").stdout
    assert "NeverFits" in page
    assert "nvidia.com/gpu" in page


def queue_status(up: Up, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(up.kubectl("get", "queue", name, "--output", "json")).get("status", {})
    return found


def used(status: dict[str, Any]) -> str:
    [cpu] = [one for one in status.get("usage", ()) if (one["flavor"], one["resource"]) == ("", "cpu")] or [{}]
    return str(cpu.get("used", ""))


def job(up: Up, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(up.kubectl("get", "job", name, "--output", "json"))
    return found


def active(up: Up, name: str) -> int:
    return int(job(up, name).get("status", {}).get("active", 0))


def at_leisure(name: str, folder: Path) -> Path:
    """The example, but its pods run until the file `name` is in `folder`: seconds may be missed by a busy machine."""
    text = (EXAMPLES / "queues" / f"{name}.yaml").read_text()
    waits = json.dumps(["sh", "-c", f"until test -e {folder}/{name}; do sleep 0.1; done"])
    changed, times = re.subn(r"command: \[sleep, .*\]", f"command: {waits}", text)
    assert times == (name != "tree")
    path = folder / f"{name}.yaml"
    path.write_text(changed)
    return path


@pytest.mark.slow
def test_who_borrows_gives_back_and_runs_again(up: Up, tmp_path: Path) -> None:
    """The tree of examples/queues: one is preempted by whose right it is, waits, and is started again."""
    for name in ("tree", "borrower"):
        said = up.phalanx("submit", str(at_leisure(name, tmp_path)))
        assert said.returncode == 0, said.stderr
    until(lambda: active(up, "borrower") == 2)
    until(lambda: used(queue_status(up, "speech")) == "1")
    assert queue_status(up, "speech")["share"] == 0.5
    up.kubectl("create", "--filename", str(at_leisure("owner", tmp_path)))
    until(lambda: "phalanx.dev/preempted" in job(up, "borrower")["metadata"]["annotations"])
    assert json.loads(job(up, "borrower")["metadata"]["annotations"]["phalanx.dev/preempted"])["by"] == "default/owner"
    until(lambda: active(up, "owner") == 1)
    assert job(up, "borrower")["spec"]["suspend"] is True
    until(lambda: queue_status(up, "speech").get("pending") == 1)
    status = queue_status(up, "speech")
    assert [(one["job"], one["position"]) for one in status["pendingJobs"]] == [("default/borrower", 1)]
    assert status["conditions"][0]["reason"] == "Ready"
    (tmp_path / "owner").touch()
    until(lambda: job(up, "owner")["status"].get("succeeded") == 1)
    until(lambda: active(up, "borrower") == 2)
    (tmp_path / "borrower").touch()
    until(lambda: job(up, "borrower")["status"].get("succeeded") == 2)
    until(lambda: queue_status(up, "speech").get("running") == 0)


def test_no_example_is_left_out() -> None:
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == set(ENDS)
    listing = (EXAMPLES / "README.md").read_text()
    assert all(f"({name})" in listing for name in ENDS)


@pytest.mark.parametrize("name", ENDS)
def test_it_names_its_command(name: str) -> None:
    assert f"#   phalanx submit examples/{name}\n" in (EXAMPLES / name).read_text()
