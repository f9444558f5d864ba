"""Command lines, scripts and slurm.conf: read as Slurm reads them, or refused with its words."""

from __future__ import annotations

import io
import os
import pwd
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.cluster.site import Association, Partition, Site, Weights
from phalanx.slurm.commands.accounting.sacct_document import document as accounting
from phalanx.slurm.commands.accounting.sacct_fields import Line
from phalanx.slurm.commands.cluster import sinfo
from phalanx.slurm.commands.cluster.sinfo_fields import Seen
from phalanx.slurm.commands.cluster.verbs import hold
from phalanx.slurm.commands.jobs import squeue
from phalanx.slurm.commands.jobs.document import document
from phalanx.slurm.commands.launch import sbatch
from phalanx.slurm.jobs import fields, pages
from phalanx.slurm.jobs.ask import ASK, Ask, Asks, read_ask
from phalanx.slurm.jobs.fields import LETTERS
from phalanx.slurm.jobs.names import file_name
from phalanx.slurm.jobs.nodes import Node
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import Job
from phalanx.slurm.options import Reader, Usage, declare
from phalanx.slurm.submission import manifest
from phalanx.slurm.submission.asked import script
from phalanx.slurm.submission.asked.forms import check_forms
from phalanx.slurm.submission.asked.hardware import Hardware
from phalanx.slurm.submission.asked.request import Request, exported, request
from phalanx.slurm.submission.environment import variables

READER = Reader("sbatch", declare("time,t= hold,H nice=? nodes,N=") + declare("profile=", refused=True), mixed=False)
HARDWARE = Hardware(cpus=16, memory_mib=64000, gpus=4, nodes=4)
SITE = Site(
    partitions=[
        Partition(name="batch", default=True, max_min=10080, default_min=60, mem_per_cpu_mib=1000),
        Partition(name="wide", max_nodes=2, max_min=1440, nodes=["n1", "n2", "n3"]),
        Partition(name="closed", state="DOWN"),
        Partition(name="priv", accounts=["chem"]),
    ]
)


def ask(line: str, here: Site = SITE) -> Request:
    said, _ = sbatch._READER.read(line.split())
    return request(dict(said), here, HARDWARE, None, [], "sbatch " + line)


@pytest.mark.parametrize(
    ("line", "tasks"), [("", "1"), ("-c2", "1"), ("--mincpus=4", "4"), ("--exclusive", "16"), ("-n3 -N1", "3")]
)
def test_without_a_number_of_tasks_there_are_as_many_as_have_room(line: str, tasks: str) -> None:
    asked = ask(line)
    found = variables(1, asked.ask, SITE, asked.said, "", None)
    assert (found["SLURM_TASKS_PER_NODE"], "SLURM_OVERCOMMIT" in found) == (tasks, False)
    assert variables(1, ask("-O").ask, SITE, {}, "", None)["SLURM_OVERCOMMIT"] == "1"


def test_a_job_that_runs_holds_its_least_cpus() -> None:
    asked = ask("--mincpus=4").ask
    assert Job(number=1, ask=asked, state="PENDING").cpus == 1
    assert Job(number=1, ask=asked, state="RUNNING", start_s=1.0).cpus == 4


def test_long_short_joined_and_abbreviated() -> None:
    options, rest = READER.read(["-t5", "--nodes=2", "-HN", "3", "--tim", "7", "--nice", "job.sh", "-t", "9"])
    assert options == [("time", "5"), ("nodes", "2"), ("hold", None), ("nodes", "3"), ("time", "7"), ("nice", None)]
    assert rest == ["job.sh", "-t", "9"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--bogus"], "sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information"),
        (["-Z"], "sbatch: invalid option -- 'Z'\nTry \"sbatch --help\" for more information"),
        (["--time"], "sbatch: option '--time' requires an argument\nTry \"sbatch --help\" for more information"),
        (["--ho=1"], "sbatch: option '--hold' doesn't allow an argument\nTry \"sbatch --help\" for more information"),
        (["--profile=all"], "sbatch: error: --profile is not supported by Phalanx (docs/guide/slurm.md)"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(words: list[str], text: str) -> None:
    with pytest.raises(Usage) as error:
        READER.read(words)
    assert error.value.text == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"echo hi\n", "This does not look like a batch script.  The first"),
        (b"", "Batch script is empty!"),
        (b"\0" * 9, "contains only whitespace!"),
        (b"#!/bin/sh\r\ntrue\r\n", "DOS line breaks"),
        (b"#!/bin/sh\nno\0side\n", "NULL character"),
        (b"#!/bin/sh\n" + b"#" * 130_000, "more than 120000 bytes"),
    ],
)
def test_scripts_that_are_refused(content: bytes, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(Usage, match=text.replace("!", r"\!")):
        script.read_script(None)


def test_lines_of_the_head_count_and_no_others() -> None:
    text = (
        '#!/bin/bash\n#SBATCH -J "two words" # remark\n##SBATCH -n 3\n# SBATCH -n 4\n\n#SBATCH --nice=7\ntrue\n'
        "#SBATCH -N 9\n"
    )
    assert list(script.lines(text)) == [["-J", "two words"], ["--nice=7"]]


def test_sizes_and_defaults() -> None:
    asked = ask("--wrap true").ask
    assert (asked.nodes, asked.cpus, asked.memory_mib, asked.per_cpu, asked.limit_min) == (1, 1, 1000, True, 60)
    asked = ask("-N2 --ntasks-per-node=3 -c2 --mem=4G -t 5:30 --wrap true").ask
    assert (asked.nodes, asked.tasks, asked.cpus, asked.memory_mib, asked.limit_min) == (2, 6, 12, 4096, 6)
    assert ask("-n 40 --wrap true").ask.nodes == 3
    assert ask("--gpus-per-task=1 -n2 --wrap true").ask.gpus_per_node == 2
    assert ask("-a 1-7:2%2 --wrap true").array is not None


@pytest.mark.parametrize(
    ("line", "hold"),
    [
        ("-N9", "PartitionNodeLimit"),
        ("-t 8-0", "PartitionTimeLimit"),
        ("-p wide -N3", "PartitionNodeLimit"),
        ("-p closed", "PartitionDown"),
        ("-H", "JobHeldUser"),
        ("", ""),
    ],
)
def test_what_the_partition_keeps_waits_with_slurms_reason(line: str, hold: str) -> None:
    assert ask(f"{line} --wrap true").ask.hold == hold


FAILED = "Batch job submission failed: "


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
        ("--begin=whenever", "Invalid time specification (pos=0): whenever\nsbatch: error: Invalid --begin"),
        ("--deadline=2020-01-01", FAILED + "Requested time limit is invalid"),
        ("-c 17", "CPU count per node can not be satisfied"),
    ],
)
def test_what_is_refused_at_submission(line: str, text: str) -> None:
    with pytest.raises(Usage) as error:
        ask(f"{line} --wrap true")
    assert text in error.value.text


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("-t abc", 255, "Invalid --time specification"),
        ("-n none", 1, 'Invalid numeric value "none" for --ntasks.'),
        ("-n 99999999999999999999", 1, "Numeric argument (9223372036854775807) to big for --ntasks."),
        ("--hint=nonsense", 1, 'unrecognized --hint argument "nonsense", see --hint=help'),
        ("-m nonsense", 255, "Invalid --distribution specification"),
        ("--switches=x", 1, 'Invalid numeric value "x" for --switches.'),
        ("--mem-bind=nonsense", 255, 'unrecognized --mem-bind argument "nonsense"'),
        ("--propagate=x", 1, "Bad rlimit name: x\nsbatch: error: --propagate=x is not valid."),
        ("--profile=x", 255, "invalid --profile=x option"),
        ("--cpu-freq=x", 255, 'unrecognized --cpu-freq argument "x"\nsbatch: error: Invalid --cpu-freq argument'),
        ("--acctg-freq=x", 255, "Invalid --acctg-freq specification: x"),
        ("--bbf=nofile", 1, "Invalid --bbf specification"),
        ("-B 2:x", 1, 'Invalid numeric value "x" for second arg of -B.'),
        ("--delay-boot=x", 255, "Invalid --delay-boot specification"),
        ("--gpu-freq=x", 255, "Invalid --gpu-freq argument: gpu:x"),
        ("--gres-flags=x", 255, "Invalid --gres-flags specification"),
        ("--wait-all-nodes=2", 255, "Invalid --wait-all-nodes specification"),
        ("--nice=99999999999", 255, "Invalid --nice value, out of range (+/- 2147483645)"),
        ("--no-kill=x", 255, "Invalid --no-kill specification"),
    ],
)
def test_values_that_cannot_be_read_are_refused_in_slurms_words(line: str, status: int, text: str) -> None:
    said, _ = sbatch._READER.read(line.split())
    with pytest.raises(Usage) as error:
        check_forms("sbatch", dict(said))
    assert (error.value.status, error.value.text) == (status, f"sbatch: error: {text}")


def test_hints_change_nothing_but_what_scontrol_shows(capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "-m block:cyclic --mem-bind=local --propagate=STACK --profile=task --no-kill --get-user-env --priority=10 "
        "--mcs-label=x --hint=nomultithread --switches=1@10 --ntasks-per-socket=2 --gpu-bind=closest "
        "--cpu-freq=low-high --delay-boot=5 --gres-flags=disable-binding --kill-on-invalid-dep=yes --spread-job "
        "--power=level --bb=x -S 2"
    )
    said, _ = sbatch._READER.read(line.split())
    check_forms("sbatch", dict(said))
    assert capsys.readouterr().err == (
        "sbatch: error: Ignoring -S since it's not allowed by configuration (AllowSpecResourcesUsage = No)\n"
    )
    plain, hinted = ask("").ask, ask(line).ask
    shown = ["\n".join(map(" ".join, pages.job(Job(number=1, ask=one, state="PENDING")))) for one in (plain, hinted)]
    changed = [line for line in shown[1].split("\n") if line not in shown[0].split("\n")]
    assert [line for line in changed if not line.startswith(("SubmitTime", "SuspendTime"))] == [
        "NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:1",
        "Socks/Node=* NtasksPerN:B:S:C=0:0:2:* CoreSpec=*",
        "Features=(null) DelayBoot=00:05:00",
        "Switches=1@00:05:00",
        "BurstBuffer=x",
        "CPU_min_freq=Low CPU_max_freq=High",
        "Power=LEVEL",
        "GresEnforceBind=NoKillOInInvalidDependent=YesSpreadJob=Yes",
        "TresBind=gpu:closest",
    ]


@pytest.mark.parametrize(
    ("line", "nodes", "tasks", "gpus", "shown"),
    [
        ("-G 5", 2, 1, 5, {"TresPerJob": "gres:gpu:5"}),
        ("--gpus-per-task=2 -n3", 2, 3, 6, {"TresPerTask": "gres:gpu:2"}),
        ("--ntasks-per-gpu=2 -G3", 1, 6, 3, {"TresPerJob": "gres:gpu:3", "NtasksPerTRES": "2"}),
        ("--ntasks-per-gpu=2 -n3", 1, 3, 2, {"NtasksPerTRES": "2"}),
        ("--gpus-per-socket=2 --sockets-per-node=1", 1, 1, 2, {"TresPerSocket": "gres:gpu:2", "sockets": "1"}),
        ("--mem-per-gpu=8G -G2", 1, 1, 2, {"TresPerJob": "gres:gpu:2", "MemPerTres": "gres:gpu:8192"}),
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


def test_of_several_partitions_those_that_may_run_it_give_their_nodes() -> None:
    found = ask("-p wide,batch").ask
    assert (found.partition, found.partitions, found.usable) == ("wide", ["wide", "batch"], ["wide", "batch"])
    assert ask("-p wide,batch -N3").ask.usable == ["batch"]
    assert (ask("-p closed,batch").ask.partition, ask("-p closed,batch").ask.hold) == ("batch", "")
    waiting = Job(number=1, ask=found, state="PENDING")
    assert (
        LETTERS["P"].show(waiting),
        "Partition=wide,batch " in "\n".join(" ".join(x) for x in pages.job(waiting)),
    ) == (
        "wide,batch",
        True,
    )
    assert LETTERS["P"].show(Job(number=1, ask=found, state="RUNNING", start_s=1.0)) == "wide"


def test_an_account_that_a_partition_does_not_take_keeps_its_job_waiting() -> None:
    hold = ask("-p priv -A physics").ask.hold
    assert hold == "Job's account not permitted to use this partition (priv allows chem not physics)"


def _nodes() -> Hardware:
    fast = [Node(name=f"n{at}", cpus=16, memory_mib=64000, gpus=0, ready=True, drained=False, features=("fast",), shape="2:8:1") for at in (1, 2)]  # fmt: skip # noqa: E501 (one expression)
    big = [Node(name=f"n{at}", cpus=16, memory_mib=64000, gpus=4, ready=True, drained=False, features=("big",), shape="2:8:1", gpu_product="NVIDIA-A100-SXM4") for at in (3, 4)]  # fmt: skip # noqa: E501 (one expression)
    every = (*fast, *big)
    return Hardware(cpus=16, memory_mib=64000, gpus=4, nodes=4, each=every, names=frozenset(one.name for one in every),
                    features=frozenset({"fast", "big"}), disk_mib=0)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("-C fast&big", False),
        ("-C fast|big", True),
        ("-C [fast|big] -N2", True),
        ("-C fast*2", True),
        ("-C fast&", True),
        ("-N3 -C fast", False),
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


def test_a_gpu_type_is_asked_of_the_nodes_that_have_it() -> None:
    said, _ = sbatch._READER.read(["--gres=gpu:a100:1"])
    asked = request(dict(said), SITE, _nodes(), None, [], "").ask
    pod = manifest.job(1, asked, SITE, {}, [])["spec"]["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    wanted = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-A100-SXM4"]}
    assert terms == [{"matchExpressions": [wanted]}]


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


def test_file_names() -> None:
    job = Ask(name="pat", user="u1", uid=1, gid=1, group="g", account="a", partition="p", workdir="/w")
    assert file_name("o-%j-%A-%x-%u-%%.txt", job, 7, running=True) == "/w/o-7-7-pat-u1-%.txt"
    assert file_name("%8j", job, 7, running=True) == "/w/00000007"
    assert file_name("%N-%n-%t-%s", job, 7, running=True) == "/w/\x01N-0-0-batch"
    assert file_name("%N.txt", job, 7) == "/w/%N.txt"
    assert file_name("/abs/%j", job, 7) == "/abs/7"
    assert file_name("%J-%8j-%j", job, 7) == "/w/%J-%8j-7"  # as scontrol shows them
    assert file_name("\\\\%j", job, 7, running=True) == "/w/\\%j"
    assert file_name("\\%j", job, 7, running=True) == "/w/%j"


def test_what_is_exported() -> None:
    around = {"FOO": "1", "BAR": "2", "PATH": "/bin", "SLURM_JOB_ID": "3", "BASH_FUNC_x%%": "()"}
    assert exported(None, around) == {"FOO": "1", "BAR": "2", "PATH": "/bin"}
    assert exported("NONE", around) == {"PATH": "/bin", "PHALANX_NO_HOME": "1"}
    assert exported("ONLY=here,BAR", around) == {"ONLY": "here", "BAR": "2", "PATH": "/bin", "PHALANX_NO_HOME": "1"}
    assert exported("ALL,ONLY=here", around)["ONLY"] == "here"


def test_formats_with_widths_and_unknown_letters() -> None:
    columns, wrong = fields.by_letters("[%10j][%.10j][%2j]%! %%")
    assert fields.heading(columns) == "[NAME      ][      NAME][NA]%! "  # measured, 22.05: %% is nothing
    assert wrong == ["!"]
    columns, wrong = fields.by_names("Name:8,UserName:.6,NoSuch,State:|")
    assert (fields.heading(columns), wrong) == ("NAME      USERSTATE|", ["NoSuch"])
    assert fields.heading(fields.by_letters(squeue.DEFAULT)[0]) == (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    )


def test_a_slurm_conf_becomes_a_site() -> None:
    found, told = read_conf(
        "ClusterName=lab\nFirstJobId=1000 # from here\nAuthType=auth/munge\n"
        "NodeName=cn[1-2] CPUs=16 Feature=fast,big\n"
        "PartitionName=batch Nodes=cn[1-2] Default=YES MaxTime=7-0 DefaultTime=1:00:00 \\\n"
        " State=UP DefMemPerCPU=1000\n"
        "PartitionName=priv Nodes=ALL AllowAccounts=chem MaxTime=INFINITE Shared=NO\n"
    )
    assert (found.cluster, found.first_job, found.features["cn2"]) == ("lab", 1000, ["fast", "big"])
    batch, priv = found.partitions
    assert (batch.nodes, batch.default, batch.max_min, batch.default_min) == (["cn1", "cn2"], True, 10080, 60)
    assert (priv.nodes, priv.accounts, priv.max_min) == ([], ["chem"], None)
    assert [(one.line, one.text) for one in told if not one.taken] == [
        (3, "AuthType=auth/munge"),
        (4, "NodeName=cn[1-2] cpus=16"),
        (7, "PartitionName=priv shared=NO"),
    ]
    assert {one.line for one in told} == {1, 2, 3, 4, 5, 7}  # no line is passed over


def test_commands_are_links_to_this_phalanx(tmp_path: Path) -> None:
    from phalanx.slurm.main import COMMANDS, install

    assert {path.name for path in install(tmp_path / "bin")} == set(COMMANDS)
    assert (tmp_path / "bin" / "squeue").read_text().startswith(f"#!{sys.executable}")
    assert (tmp_path / "bin" / "squeue").stat().st_mode & 0o777 == 0o755


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


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("#PBS -N a\n#PBS -l nodes=2:ppn=4,walltime=1:00:00\n#PBS -q short", {
            "job-name": "a", "nodes": "2", "ntasks-per-node": "4", "time": "1:00:00", "partition": "short"}),
        ("#PBS -j oe\n#PBS -o out -m ae", {"output": "out", "mail-type": "FAIL,END"}),
        ("#BSUB -J b -n 3 -W 1:30\n#BSUB -W 5", {"job-name": "b", "ntasks": "3", "time": "5"}),
        ("#PBSX -N a\ntrue\n#PBS -N b", {}),
    ],
)  # fmt: skip
def test_lines_of_pbs_and_lsf_are_options_of_sbatch(lines: str, said: dict[str, str]) -> None:
    assert script.foreign(f"#!/bin/sh\n{lines}\ntrue\n") == said


def test_what_is_left_of_an_array_is_one_line_and_one_page() -> None:
    waiting = Ask(name="a", user="u", uid=1, gid=1, group="g", account="lab", partition="p", array=7, throttle=2,
                  stdout="o-%a")  # fmt: skip
    tasks = [
        Job(number=8 + at, ask=msgspec.structs.replace(waiting, task=at), state="PENDING", reason="JobArrayTaskLimit")
        for at in (3, 4, 5)
    ]
    runs = Job(number=8, ask=msgspec.structs.replace(waiting, task=1), state="RUNNING", start_s=1.0)
    held = Job(number=9, ask=msgspec.structs.replace(waiting, task=2), state="PENDING", reason="JobHeldUser")
    shown = list(fields.shown_together([runs, held, *tasks]))
    assert [(job.id, LETTERS["A"].show(job), LETTERS["K"].show(job)) for job in shown] == [
        ("7_1", "8", "1"), ("7_2", "7", "2"), ("7_[3-5%2]", "7", "3-5%2"),
    ]  # fmt: skip
    page = [" ".join(words) for words in pages.job(shown[2])]
    assert page[0] == "JobId=7 ArrayJobId=7 ArrayTaskId=3-5%2 ArrayTaskThrottle=2 JobName=a"
    assert "StdOut=o-4294967294" in page


def test_a_priority_by_weights_grows_while_a_job_waits() -> None:
    here = Site(partitions=[Partition(name="batch", default=True)], weights=Weights(qos=3000, age=1000, max_age_s=100))
    asked = ask("--nice=5", here).ask
    assert (asked.rank, asked.rank_per_s) == (1.0, 10.0)
    waited = Job(
        number=1, ask=msgspec.structs.replace(asked, rank=100.0), state="RUNNING", eligible_s=10.0, start_s=17.0
    )
    assert waited.priority == 100 + 70 - 5
    waited.held = True
    assert waited.priority == 0


def test_an_administrators_hold_is_not_the_users_to_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Job(number=7, ask=ask("").ask, state="PENDING", reason="JobHeldAdmin", held=True)
    monkeypatch.setattr(hold, "with_ended", lambda api, word: [held])
    monkeypatch.setattr(hold.running, "may", lambda api, job: True)
    monkeypatch.setattr(hold, "_may_release", lambda api, job: False)
    monkeypatch.setattr(hold.Api, "open", lambda: None)
    assert hold.hold(["7"], "") == 1
    assert capsys.readouterr().err.startswith("Access/permission denied for job 7\n")


def test_an_option_with_two_spellings_is_not_ambiguous() -> None:
    reader = Reader("squeue", squeue.OPTIONS)
    assert reader.read(["--user=a", "--users=b", "--nod=n"])[0] == [("users", "a"), ("users", "b"), ("nodelist", "n")]
    with pytest.raises(Usage) as error:
        reader.read(["-h", "--no"])
    listed = "'--noconvert' '--node' '--nodes' '--nodelist' '--noheader'"  # in Slurm's order
    assert f"possibilities: {listed}" in error.value.text
    assert error.value.read == [("noheader", None)]


def test_sinfo_shows_one_row_for_partitions_that_no_column_tells_apart() -> None:
    here = Site(partitions=[Partition(name="a", default=True), Partition(name="b", max_min=10)])
    node = Node(name="n1", cpus=4, memory_mib=64000, gpus=0, ready=True, drained=False)
    seen = [Seen(node, "idle", 0)]
    for letters, rows in (({"a", "t"}, 1), ({"P", "t"}, 2), ({"l"}, 2)):
        assert len(sinfo._rows(here, seen, {}, None, letters)) == rows


def test_the_json_of_jobs_has_every_name_of_slurm() -> None:
    waits = Job(number=7, ask=ask("-a 1-3%2 --gres gpu:1 --mem 100").ask, state="PENDING", submit_s=5.0)
    waits.ask.array, waits.ask.task, waits.ask.throttle = 7, 1, 2
    second = msgspec.structs.replace(waits, number=8, ask=msgspec.structs.replace(waits.ask, task=2), others=[])
    [shown] = msgspec.json.decode(document("lab", [waits, second]))["jobs"]
    assert len(shown) >= 105
    assert (shown["job_id"], shown["array_task_id"], shown["array_task_string"]) == (7, None, "1-2%2")
    assert (shown["memory_per_node"], shown["tres_per_node"], shown["cluster"]) == (100, "gres:gpu:1", "lab")


def test_the_json_of_the_accounting_has_steps_in_their_job() -> None:
    ran = Job(number=7, ask=ask("-n2 --wrap true").ask, state="FAILED", exit_code=3, start_s=5.0, end_s=9.5)
    step = StepRecord(name="batch", cpus=2, nodes=["n1"], start_s=5.0, end_s=9.0, signal=9)
    [shown] = msgspec.json.decode(accounting("lab", [Line(ran, "", ""), Line(ran, "batch", "", step)]))["jobs"]
    assert shown["exit_code"] == {"status": "ERROR", "return_code": 3}
    assert (shown["time"]["elapsed"], shown["steps"][0]["exit_code"]["signal"]["signal_id"]) == (4, 9)


def test_root_needs_no_association(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Site(partitions=SITE.partitions, users={"ada": [Association(account="lab")]})
    who = pwd.getpwuid(0)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: who)
    asked = ask("--wrap true", here).ask
    assert asked.account == "root"
    made = manifest.job(1, asked, here, {}, [])
    assert made["metadata"]["labels"]["phalanx.dev/queue"] == "default"  # root is no queue
