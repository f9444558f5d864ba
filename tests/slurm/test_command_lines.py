"""Command lines, scripts and slurm.conf: read as Slurm reads them, or refused with its words."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys

import msgspec
import pytest

from phalanx.slurm.cluster.site import Association, Partition, Site, Weights
from phalanx.slurm.commands.launch import sbatch
from phalanx.slurm.jobs.ask import ASK, Ask, Asks, read_ask
from phalanx.slurm.jobs.nodes import NodeInfo
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage
from phalanx.slurm.submission.asked.request import SubmissionRequest, request
from phalanx.slurm.submission.asked.size import Hardware

HARDWARE = Hardware(cpus=16, memory_mib=64000, gpus=4, nodes=4)
SITE = Site(
    partitions=[
        Partition(name="batch", default=True, max_min=10080, default_min=60, mem_per_cpu_mib=1000),
        Partition(name="wide", max_nodes=2, max_min=1440, nodes=["n1", "n2", "n3"]),
        Partition(name="closed", state="DOWN"),
        Partition(name="priv", accounts=["chem"]),
    ]
)


def ask(line: str, here: Site = SITE) -> SubmissionRequest:
    said, _ = sbatch._READER.read(line.split())
    return request(dict(said), here, HARDWARE, None, [], "sbatch " + line)


FAILED = "Batch job submission failed: "


def _nodes() -> Hardware:
    fast = [NodeInfo(name=f"n{at}", cpus=16, memory_mib=64000, gpus=0, ready=True, drained=False, features=("fast",), shape="2:8:1") for at in (1, 2)]  # fmt: skip # noqa: E501 (one expression)
    big = [NodeInfo(name=f"n{at}", cpus=16, memory_mib=64000, gpus=4, ready=True, drained=False, features=("big",), shape="2:8:1", gpu_product="NVIDIA-A100-SXM4") for at in (3, 4)]  # fmt: skip # noqa: E501 (one expression)
    every = (*fast, *big)
    return Hardware(cpus=16, memory_mib=64000, gpus=4, nodes=4, each=every, names=frozenset(one.name for one in every),
                    features=frozenset({"fast", "big"}), disk_mib=0)  # fmt: skip


def test_associations_are_enforced_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    here = Site(partitions=SITE.partitions, users={me: [Association(account="physics", qos=["normal", "fast"])]})
    asked = ask("--wrap true", here).ask
    assert (asked.account, asked.qos) == ("physics", "normal")
    assert ask("-q fast --wrap true", here).ask.qos == "fast"
    for line in ("-A chem", "-q slow"):
        with pytest.raises(Usage, match="Invalid"):
            ask(f"{line} --wrap true", here)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: pwd.getpwnam("nobody"))
    with pytest.raises(Usage, match="Invalid account"):
        ask("--wrap true", Site(partitions=SITE.partitions, users={"nobody-else": []}))


def python(code: str, *, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120)


def test_sbatch_imports_nothing_that_few_jobs_ask_for() -> None:
    """No figure is asserted: imports are most of what an sbatch costs."""
    done = python("import sys; import phalanx.slurm.commands.launch.sbatch; print(*sys.modules)")
    rare = {
        "sqlite3",
        "importlib.resources",
        "tempfile",
        "phalanx.slurm.control.reservations",
        "phalanx.slurm.jobs.view",
    }
    assert "phalanx.slurm.submission.creation" in done.stdout
    assert not rare & set(done.stdout.split())


LEFT = """
import sys, threading, time
from phalanx.slurm import main
main.main = {main}
main.leave("sbatch")
"""


def test_a_command_that_is_over_leaves_its_output_and_its_exit_code() -> None:
    done = python(LEFT.format(main="lambda name: (print(name), sys.stderr.write('why'), 3)[-1]"))
    assert (done.returncode, done.stdout, done.stderr) == (3, "sbatch\n", "why")


def test_a_command_that_is_over_takes_no_interpreter_down() -> None:
    told = "import atexit; atexit.register(print, 'taken down')\n"
    assert python(told + LEFT.format(main="lambda name: 0")).stdout == ""


def test_a_command_with_a_thread_waits_for_it() -> None:
    late = "threading.Thread(target=lambda: (threading.main_thread().join(), print('late')))"
    done = python(LEFT.format(main=f"lambda name: ({late}.start(), 4)[-1]"))
    assert (done.returncode, done.stdout) == (4, "late\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["squeue", "sbatch", "scancel", "sacct", "sinfo", "sstat"])
def test_a_command_imports_nothing_that_costs_more_than_it_does(command: str) -> None:
    """Each of these takes milliseconds; a command is to answer in 0.2 s."""
    program = f"import sys\nfrom phalanx.slurm.main import main\nmain({command!r})\nprint(*sys.modules)"
    words = [sys.executable, "-I", "-c", program, "--no-such-option"]
    found = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert "unrecognized option" in found.stderr
    dear = {"asyncio", "dataclasses", "email", "http.client", "inspect", "random", "sqlite3", "threading", "yaml"}
    assert not dear & set(found.stdout.split())


def test_what_tasks_of_an_array_ask_is_read_as_what_any_job_asks() -> None:
    one = Ask(name='a,"task":7,', user="u", uid=1, gid=1, group="g", account="a", partition="p")
    every = [one] + [msgspec.structs.replace(one, task=task, array=5, tasks_of="1-3") for task in (1, 2, 3)]
    every += [msgspec.structs.replace(one, task=2, array=6), msgspec.structs.replace(one, task=2, comment="other")]
    kept = [{ASK: msgspec.json.encode(ask).decode()} for ask in every]
    asks = Asks()
    assert [asks.read(words) for words in kept] == [read_ask(words) for words in kept] == every
    assert asks.read({}) is None
    assert asks.read({ASK: '{"name":"x","task":1,'}) is None


def test_a_priority_by_weights_grows_while_a_job_waits() -> None:
    here = Site(partitions=[Partition(name="batch", default=True)], weights=Weights(qos=3000, age=1000, max_age_s=100))
    asked = ask("--nice=5", here).ask
    assert (asked.rank, asked.rank_per_s) == (1.0, 10.0)
    waited = JobInfo(
        number=1, ask=msgspec.structs.replace(asked, rank=100.0), state="RUNNING", eligible_s=10.0, start_s=17.0
    )
    assert waited.priority == 100 + 70 - 5
    waited.held = True
    assert waited.priority == 0
