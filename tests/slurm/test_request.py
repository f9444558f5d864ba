"""`slurm/submission/asked/request.py`: from sbatch's options to what a job asks."""

from __future__ import annotations

import pwd

import pytest

from phalanx.slurm.cluster.site import Association, Site
from phalanx.slurm.commands.launch import sbatch
from phalanx.slurm.jobs import fields
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage
from phalanx.slurm.submission import manifest
from phalanx.slurm.submission.asked.request import exported, request
from tests.slurm.test_command_lines import FAILED, SITE, _nodes, ask


def test_a_job_that_runs_holds_its_least_cpus() -> None:
    asked = ask("--mincpus=4").ask
    assert JobInfo(number=1, ask=asked, state="PENDING").cpus == 1
    assert JobInfo(number=1, ask=asked, state="RUNNING", start_s=1.0).cpus == 4


def test_sizes_and_defaults() -> None:
    asked = ask("--wrap true").ask
    assert (asked.nodes, asked.cpus, asked.memory_mib, asked.per_cpu, asked.limit_min) == (1, 1, 1000, True, 60)
    asked = ask("-N2 --ntasks-per-node=3 -c2 --mem=4G -t 5:30 --wrap true").ask
    assert (asked.nodes, asked.tasks, asked.cpus, asked.memory_mib, asked.limit_min) == (2, 6, 12, 4096, 6)
    assert ask("-n 40 --wrap true").ask.nodes == 3
    assert ask("--gpus-per-task=1 -n2 --wrap true").ask.gpus_per_node == 2
    assert ask("-a 1-7:2%2 --wrap true").array is not None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-p nope", f"invalid partition specified: nope\nsbatch: error: {FAILED}Invalid partition name specified"),
        (
            "--mem=999G",
            f"Memory specification can not be satisfied\nsbatch: error: {FAILED}Requested node configuration",
        ),
        ("-a 5-1", FAILED + "Invalid job array specification"),
        ("--partition=", f"invalid partition specified: (null)\nsbatch: error: {FAILED}Invalid partition name"),
        ("-w n1,n2 -N1", "invalid number of nodes (-N 2-1)"),
        ("-w cn1 -x cn1", FAILED + "Invalid node name specified"),
        ("-N 1-", "Maximum node count -1 is less than minimum node count 1"),
        ("--mem=1G --mem-per-cpu=1G", "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."),
        ("--mem-per-gpu=1G", "Requested mem_per_tres=gres:gpu:1024 but did not request any GPU."),
        ("--gpus-per-socket=1", "--gpus-per-socket option requires --sockets-per-node specification"),
        ("--ntasks-per-gpu=2", "--ntasks-per-tres needs either a GRES GPU specification or a node/ntask specification"),
        ("--acctg-freq=10", FAILED + "Invalid accounting frequency requested"),
        ("--batch=fast", FAILED + "Job --batch option is invalid or not a subset of --constraints"),
        ("--gres=gpu:5", FAILED + "Requested node configuration is not available"),
        ("--gres=fpga:1", "Invalid generic resource"),
        ("--gres=fpga:1 -p nowhere", "Invalid generic resource"),
        ("--gres=gpu:a:b:1", "Invalid generic resource"),
        ("--begin=whenever", "Invalid time specification (pos=0): whenever\nsbatch: error: Invalid --begin"),
        ("--deadline=2020-01-01", FAILED + "Requested time limit is invalid"),
        ("-c 17", "CPU count per node can not be satisfied"),
        ("-N 0", FAILED + "Node count specification invalid"),
        ("--nodelist=", FAILED + "Node count specification invalid"),
        ("--nodelist= -n3", FAILED + "Node count specification invalid"),
    ],
)
def test_what_is_refused_at_submission(line: str, text: str) -> None:
    with pytest.raises(Usage) as error:
        ask(f"{line} --wrap true")
    assert text in error.value.text


@pytest.mark.parametrize(
    ("line", "nodes", "tasks", "gpus", "shown"),
    [
        ("-G 4 --gres=gpu:2", 2, 2, 4, {"TresPerJob": "gres:gpu:4"}),
        ("-G 5", 2, 2, 5, {"TresPerJob": "gres:gpu:5"}),
        ("--gpus-per-task=2 -n3", 2, 3, 6, {"TresPerTask": "gres:gpu:2"}),
        ("--ntasks-per-gpu=2 -G3", 1, 6, 3, {"TresPerJob": "gres:gpu:3", "NtasksPerTRES": "2"}),
        ("--ntasks-per-gpu=2 -n3", 1, 3, 2, {"NtasksPerTRES": "2"}),
        ("--gpus-per-socket=2 --sockets-per-node=1", 1, 1, 2, {"TresPerSocket": "gres:gpu:2", "sockets": "1"}),
        (
            "--mem-per-gpu=8G -G2",
            1,
            1,
            2,
            {"TresPerJob": "gres:gpu:2", "MemPerTres": "gres:gpu:8192", "waiting_memory": "1000"},
        ),
        ("--cpus-per-gpu=4 -G2", 1, 1, 2, {"TresPerJob": "gres:gpu:2", "CpusPerTres": "gres:gpu:4"}),
        ("-B 1:4", 1, 4, 0, {"sockets": "1", "cores": "4"}),
    ],
)
def test_gpus_of_a_job_of_tasks_and_of_sockets(
    line: str, nodes: int, tasks: int, gpus: int, shown: dict[str, str]
) -> None:
    found = ask(line).ask
    assert (found.node_count, found.tasks, found.total_gpus, found.shown) == (nodes, tasks, gpus, shown)
    assert not line.startswith("--mem-per") or found.memory_mib == 16384
    assert not line.startswith("--cpus-per") or found.cpus_of_nodes == [8]


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("-C fast&big", False),
        ("-C fast|big", True),
        ("-C [fast|big] -N2", True),
        ("-C fast*2", True),
        ("-C fast&", True),
        ("-N3 -C fast", False),
        ("-C fast --prefer=fast&big", False),
        ("-C fast --prefer=big", True),
        ("-x n3,n4 --prefer=big", False),
        ("-H --prefer=fast&big", True),
        ("--ntasks-per-core=17", False),
        ("--ntasks-per-core=16", True),
        ("--ntasks-per-socket=9", False),
        ("--ntasks-per-socket=8", True),
        ("-H --ntasks-per-socket=9", True),
        ("--cpus-per-gpu=17", False),
        ("--cpus-per-gpu=16", True),
        ("-N3 --gres=gpu:1", False),
        ("-N2 --gres=gpu:1", True),
        ("-x n1,n2,n3,n4", False),
        ("--gres=gpu:tesla:1", False),
        ("--gres=gpu:a100:1", True),
        ("-G tesla:1", False),
        ("--threads-per-core=2", False),
        ("--cores-per-socket=8", True),
        ("--cores-per-socket=16", False),
        ("--sockets-per-node=4", False),
        ("--tmp=1", False),
        ("-H -C fast&big", True),
        ("-H --tmp=1", True),
        ("-H -c 17", True),
    ],
)
def test_what_no_nodes_could_ever_give_is_refused_unless_it_is_held(line: str, fits: bool) -> None:
    said, _ = sbatch._READER.read(line.split())
    if fits:
        request(dict(said), SITE, _nodes(), None, [], "")
        return
    with pytest.raises(Usage, match="Requested node configuration is not available"):
        request(dict(said), SITE, _nodes(), None, [], "")


@pytest.mark.parametrize(
    ("line", "nodes", "cpus", "tasks", "tres"),
    [
        ("-G 5", 1, 1, 1, "cpu=1,mem=1000M,node=1,billing=1,gres/gpu=5"),
        ("-G 5 -n3 -c2", 1, 6, 3, "cpu=6,mem=6000M,node=1,billing=6,gres/gpu=5"),
    ],
)
def test_a_job_whose_gpus_need_more_nodes_shows_them_once_it_runs(
    line: str, nodes: int, cpus: int, tasks: int, tres: str
) -> None:
    job = JobInfo(number=1, ask=ask(line).ask, state="PENDING")
    assert (job.node_count, job.cpus, job.tasks, fields.tres(job)) == (nodes, cpus, tasks, tres)
    job.state = "RUNNING"
    assert (job.node_count, job.tasks) == (2, max(2, tasks))


@pytest.mark.parametrize(
    ("line", "shown"),
    [("-N 0", (0, 0)), ("--nodelist=", (0, 0)), ("--nodelist= -c3", (0, 3)), ("--nodelist= -n3", (1, 3)),
     ("--nodelist= -N2", (2, 2))],
)  # fmt: skip
def test_a_held_job_may_ask_no_nodes(line: str, shown: tuple[int, int]) -> None:
    job = JobInfo(number=1, ask=ask(f"-H {line}").ask, state="PENDING")
    assert (job.node_count, job.cpus) == shown


def test_the_time_limit_fits_the_deadline_if_there_is_a_least_one() -> None:
    assert ask("-t 31 --deadline=now+30minutes").ask.limit_min == 31
    assert ask("-t 31 --time-min=5 --deadline=now+30minutes").ask.limit_min == 30
    assert ask("-t 31 --time-min=31 --deadline=now+30minutes").ask.limit_min == 31
    assert ask("-H -t 31 --time-min=5 --deadline=now+30minutes").ask.limit_min == 31


def test_memory_of_gpus_is_shown_as_slurm_does() -> None:
    job = JobInfo(number=1, ask=ask("--mem-per-gpu=100 -G2").ask, state="PENDING")
    assert (fields.memory(job), job.total_mib) == ("1000M", 200)
    job.state = "RUNNING"
    assert (fields.memory(job), job.total_mib) == ("0", 200)


def test_an_empty_list_of_licences_is_shown() -> None:
    show = fields.LETTERS["W"].show
    assert [show(JobInfo(number=1, ask=ask(line).ask, state="PENDING")) for line in ("--licenses=", "")] == [
        "",
        "(null)",
    ]


@pytest.mark.parametrize("limit", ["", "-t 10", "-t 0", "-t 8-0"])
@pytest.mark.parametrize(
    ("least", "fits"),
    [("0", ()), ("INFINITE", ()), ("8-0", ()), ("10", ("", "-t 10", "-t 0", "-t 8-0")), ("11", ("", "-t 0", "-t 8-0"))],
)
def test_the_least_time_is_within_the_limits_of_the_job_and_the_partition(
    limit: str, least: str, fits: tuple[str, ...]
) -> None:
    line = f"-H --time-min={least} {limit}"
    if limit in fits:
        assert ask(line).ask.least_min == int(least)
        return
    with pytest.raises(Usage, match="Invalid time-min specification"):
        ask(line)


def test_what_is_exported() -> None:
    around = {"FOO": "1", "BAR": "2", "PATH": "/bin", "SLURM_JOB_ID": "3", "BASH_FUNC_x%%": "()"}
    assert exported(None, around) == {"FOO": "1", "BAR": "2", "PATH": "/bin"}
    assert exported("NONE", around) == {"PATH": "/bin", "PHALANX_NO_HOME": "1"}
    assert exported("ONLY=here,BAR", around) == {"ONLY": "here", "BAR": "2", "PATH": "/bin", "PHALANX_NO_HOME": "1"}
    assert exported("ALL,ONLY=here", around)["ONLY"] == "here"
    assert exported("ODD=\udcff,GOOD=ä", {"PATH": "/bin", "ALSO": "\udcff"}).keys() == {
        "GOOD",
        "PATH",
        "PHALANX_NO_HOME",
    }
    assert exported(None, {"ODD": "a\udcff", "GOOD": "ä"}) == {"GOOD": "ä"}


def test_root_needs_no_association(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Site(partitions=SITE.partitions, users={"ada": [Association(account="lab")]})
    who = pwd.getpwuid(0)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: who)
    asked = ask("--wrap true", here).ask
    assert asked.account == "root"
    made = manifest.job(1, asked, here, {}, [])
    assert made["metadata"]["labels"]["phalanx.dev/queue"] == "default"  # root is no queue
