"""`import phalanx` against a real `phalanx up`: the calls of scripts and notebooks."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.api.values import Job
from phalanx.errors import PhalanxError
from tests.cli.upstart import Up, until

ROOT = Path(__file__).parents[2]

WORKLOAD = ROOT / "examples" / "simulate" / "workload.yaml"


@pytest.fixture
def up(shared_up: Up) -> Up:
    return shared_up


@pytest.fixture
def cluster(up: Up) -> phalanx.Cluster:
    return phalanx.Cluster(kubeconfig=up.data / "kubeconfig", namespace="default")


def test_import_brings_nothing_along_and_offers_its_calls() -> None:
    program = "import sys, phalanx; print(*sys.modules); print(*dir(phalanx))"
    said = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=True).stdout
    modules, names = (line.split() for line in said.splitlines())
    assert {name for name in modules if name.startswith("phalanx.")} == set()
    assert {"submit", "wait", "logs", "explain", "jobs", "queues", "simulate", "aio"} <= set(names)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = phalanx.nothing


@pytest.mark.slow
def test_a_job_from_its_submission_to_its_output(up: Up, cluster: phalanx.Cluster) -> None:
    made = phalanx.submit(
        ("sh", "-c", "echo $GREETING $JOB_COMPLETION_INDEX"),
        name="hello",
        pods=2,
        env={"GREETING": "hi"},
        cluster=cluster,
    )
    assert (made.id, made.state) == ("default/hello", "queued")
    ended = phalanx.wait(made, cluster=cluster)
    assert (ended.state, ended.exit_code, ended.succeeded) == ("complete", 0, True)
    assert sorted(phalanx.logs(made, cluster=cluster).splitlines()) == ["[0] hi 0", "[1] hi 1"]
    assert phalanx.logs("hello/1", cluster=cluster) == "hi 1\n"
    [seen] = [job for job in phalanx.jobs(finished=True, cluster=cluster) if job.name == "hello"]
    assert (seen.kind, seen.state, seen.queue, seen.pods) == ("Job", "complete", "default", 2)
    up.kubectl("delete", "job", "hello")
    until(lambda: "COMPLETED" in phalanx.explain("hello", cluster=cluster).text)
    assert phalanx.wait("hello", cluster=cluster).succeeded


@pytest.mark.slow
def test_why_a_job_waits_and_what_its_queue_holds(up: Up, cluster: phalanx.Cluster) -> None:
    made = phalanx.submit(["true"], name="huge", cpu=99, cluster=cluster)
    until(lambda: phalanx.explain(made, cluster=cluster).record["reason"]["code"] == "NeverFits")
    assert "asks 99 cpu" in str(phalanx.explain(made, cluster=cluster))
    [queue] = phalanx.queues(cluster=cluster)
    assert (queue.name, queue.pending) == ("default", 1)
    with pytest.raises(TimeoutError):
        phalanx.wait(made, timeout_s=0.5, cluster=cluster)
    with pytest.raises(PhalanxError, match="there is no queue 'none'"):
        phalanx.submit(["true"], queue="none", cluster=cluster)
    up.phalanx("cancel", "huge")


@pytest.mark.slow
def test_a_job_whose_image_does_not_exist_is_stuck_and_every_command_says_why(up: Up, cluster: phalanx.Cluster) -> None:
    made = phalanx.submit(["true"], name="lost", image="acme/unknown:1", cluster=cluster)

    def seen() -> Job:
        return next(job for job in phalanx.jobs(cluster=cluster) if job.name == "lost")

    until(lambda: seen().state == "stuck")
    assert "container main: " in seen().cells()["why"]
    assert "phalanx image import acme/unknown:1" in seen().message
    assert "default/lost: stuck for " in phalanx.explain(made, cluster=cluster).text
    assert [line.split()[0] for line in up.phalanx("jobs", "--state", "stuck").stdout.splitlines()] == ["JOB", "lost"]
    late = up.phalanx("wait", "lost", "--for", "running", "--timeout", "1s")
    assert (late.returncode, late.stderr.count("phalanx: job default/lost is stuck: pod lost-")) == (124, 1)
    up.phalanx("cancel", "lost")


@pytest.mark.slow
def test_simulate_compares_policies() -> None:
    found = phalanx.simulate(WORKLOAD, policies=["easy", "fifo"])
    assert [(one.policy, one.estimates) for one in found] == [("easy", "user"), ("fifo", "user")]
    assert found[0].measures["jobs"] == found[1].measures["jobs"] > 0
    assert "<th>policy</th>" in found._repr_html_()
    with pytest.raises(PhalanxError):
        phalanx.simulate("no-such-file.swf")


def value_of(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does; the value of its last line, if that is an expression."""
    tree = ast.parse(cell)
    *before, last = tree.body
    if not isinstance(last, ast.Expr):
        before, last = tree.body, ast.Expr(ast.Constant(None))
    exec(compile(ast.Module(before, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.slow
def test_the_notebook_of_the_examples_runs(
    up: Up, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(up.data / "kubeconfig"))
    monkeypatch.chdir(ROOT)
    cells = json.loads((ROOT / "examples" / "notebook.ipynb").read_text())["cells"]
    names: dict[str, Any] = {}
    values = [value_of("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
    assert names["result"].succeeded
    assert "shard 1 is done" in capsys.readouterr().out
    shown = [value._repr_html_() for value in values if value is not None]
    assert len(shown) == len(values) - 1, "each cell shows a value, but the one that prints"
    up.phalanx("cancel", "huge")
