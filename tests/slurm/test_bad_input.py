"""What commands say of words that mean nothing: a real Slurm's words and exit codes (22.05.8), on a cluster of one node
without jobs."""

from __future__ import annotations

import shlex
from importlib import import_module
from typing import Any

import msgspec
import pytest

from phalanx.client.access.kubeconfig import KubeconfigCluster, KubeconfigUser
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.cluster.site import Account, Association, Partition, Site
from phalanx.slurm.main import COMMANDS
from phalanx.slurm.options import Usage

SITE = Site(
    partitions=[Partition(name="batch", default=True)],
    accounts={"physics": Account()},
    users={"u1": [Association(account="physics")], "root": [Association(account="physics")]},
)
NODE = {
    "metadata": {"name": "cn1", "labels": {"feature.slurm.phalanx.dev/fast": "true"}},
    "status": {"allocatable": {"cpu": "16", "memory": "64000Mi"}, "conditions": [{"type": "Ready", "status": "True"}]},
}
STATES = (
    "squeue: error: Valid job states include: PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,"
    "PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY,COMPLETING,CONFIGURING,RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,"
    "REQUEUE_HOLD,REVOKED,SIGNALING,SPECIAL_EXIT,STAGE_OUT,STOPPED"
)
ENTITIES = (
    "No valid entity in update command\nInput line must include "
    '"NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
)
RESERVE = "scontrol create reservation starttime=now"
NOT_A_PARTITION = (
    "scontrol: error: Invalid input: state=foo\nscontrol: error: Acceptable State values are UP, DOWN, DRAIN and "
    "INACTIVE\nslurm_update error: No error"
)


class Empty(ApiClient):
    """A server with one node and the site's objects, which keeps all writes."""

    def __init__(self) -> None:
        super().__init__(KubeconfigCluster(server="http://api"), KubeconfigUser())
        self.written: list[tuple[str, Any]] = []

    def call(self, method: str, path: str, body: Any = None, *_: object, **query: str) -> bytes:
        if method != "GET":
            self.written.append((path, body))
            return b"{}"
        if path.endswith("configmaps/phalanx-slurm"):
            return msgspec.json.encode({"data": {"site": msgspec.json.encode(SITE).decode()}})
        if path.rpartition("/")[2] in ("jobs", "pods", "reservations", "nodes", "queues"):
            return msgspec.json.encode({"items": [NODE] if path.endswith("nodes") else []})
        raise RequestRefused(404, f"{path} not found")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Empty:
    found = Empty()
    monkeypatch.setattr(ApiClient, "open", lambda: found)
    for name in ("PHALANX_LEDGER", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr("os.getuid", lambda: 0)
    return found


def said(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code and everything that is read, as `2>&1` has it."""
    command, *words = shlex.split(line)
    try:
        code = import_module(f"phalanx.slurm.commands.{COMMANDS[command]}.{command}").run(words)
        text = ""
    except Usage as error:
        code, text = error.status, error.text
    seen = capsys.readouterr()
    return code, (seen.err + seen.out + text).strip()


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("sbatch --nosuch --wrap true", 255, "sbatch: unrecognized option '--nosuch'\nTry \"sbatch --help\" for"),
        ("srun --nosuch true", 255, "srun: unrecognized option '--nosuch'"),
        ("salloc -Z", 255, "salloc: invalid option -- 'Z'"),
        ("squeue --nosuch", 1, "squeue: unrecognized option '--nosuch'"),
        ("sbatch -n 0 --wrap true", 1, 'sbatch: error: Invalid numeric value "0" for --ntasks.'),
        ("sbatch -n 1.5 --wrap true", 1, 'sbatch: error: Invalid numeric value "1.5" for --ntasks.'),
        ("sbatch -c a --wrap true", 1, 'sbatch: error: Invalid numeric value "a" for --cpus-per-task.'),
        ("sbatch -N 0 --wrap true", 1, "sbatch: error: Batch job submission failed: Node count specification invalid"),
        ("sbatch -N a --wrap true", 255, 'sbatch: error: "a" is not a valid node count'),
        ("sbatch -N 2-1 --wrap true", 255, "sbatch: error: Maximum node count 1 is less than minimum node count 2"),
        ("sbatch -x cn9 --wrap true", 1, "sbatch: error: Batch job submission failed: Invalid node name specified"),
        ("sbatch -C no --wrap true", 1, "sbatch: error: Batch job submission failed: Invalid feature specification"),
        ("sbatch -C 'fast|no' --wrap true", 1, "sbatch: error: Batch job submission failed: Invalid feature"),
        ("sbatch --exclusive=foo --wrap true", 255, "sbatch: error: Invalid --exclusive specification"),
        ("sbatch --qos= --wrap true", 1, "sbatch: error: Batch job submission failed: Invalid qos specification"),
        ("sbatch --time-min 2-0 -t 10 --wrap true", 1, "sbatch: error: Batch job submission failed: Invalid time-min"),
        (
            "sbatch --begin=now+1x --wrap true",
            255,
            "Invalid time specification (pos=4): now+1x\nsbatch: error: Invalid",
        ),
        ("sbatch --mem=100G -c 99 --wrap true", 1, "sbatch: error: CPU count per node can not be satisfied"),
        ("squeue -i abc", 1, "squeue: error: --iterate=abc"),
        ("squeue -u no-such-user", 0, "squeue: error: Invalid user: no-such-user\n\n             JOBID PARTITION"),
        ("squeue -t foo", 1, f"squeue: error: Invalid job state specified: foo\n{STATES}"),
        ("squeue -h -S qq", 1, "squeue: error: Invalid sort specification: q"),
        ("squeue -w cn99", 1, "squeue: error: Invalid node name cn99"),
        ("scancel -t FOO", 1, "Invalid job state specified: FOO\nValid job states are PENDING, RUNNING, and SUSPENDED"),
        ("scancel -u no-such-user", 1, "scancel: error: Invalid user name: no-such-user"),
        ("scancel -s FOO 1", 1, "Unknown job signal: FOO"),
        ("scancel 99", 0, ""),
        (
            "scancel -v 99",
            0,
            "scancel: Terminating job 99\nscancel: error: Kill job error on job id 99: Invalid job id",
        ),
        ("scancel -s USR1 99", 1, "scancel: error: Kill job error on job id 99: Invalid job id specified"),
        ("sinfo -o %Q", 0, "Invalid node format specification: Q\n%Q\n%Q"),
        ("scontrol show", 1, "too few arguments for keyword:show"),
        ("scontrol hold", 1, "too few arguments for keyword:hold"),
        ("scontrol update", 1, "too few arguments for update keyword"),
        ("scontrol update job=9 name=x", 1, "Invalid job id specified for job 9"),
        ("scontrol update job=abc name=x", 1, "Invalid job id specified for job abc"),
        ("scontrol update foo=bar", 1, ENTITIES),
        ("scontrol update nodename=cn1 state=drain", 1, "You must specify a reason when DOWNING or DRAINING a node."),
        ("scontrol update partitionname=batch state=foo", 1, NOT_A_PARTITION),
        ("scontrol update partitionname=batch maxnodes=abc", 1, 'Invalid MaxNodes value: "abc"'),
        ("scontrol create reservation", 1, "scontrol: error: A start time must be given.  No reservation created."),
        (f"{RESERVE} duration=10 users=root", 1, "scontrol: error: CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or"),
        (f"{RESERVE} duration=x users=root nodes=ALL", 1, "scontrol: error: Invalid duration duration=x.  No reserva"),
        (f"{RESERVE} duration=9 users=no-such nodes=ALL", 1, "Error creating the reservation: Invalid user id"),
        ("sacct -s foo", 1, "sacct: fatal: unrecognized job state value 'foo'"),
        ("sacctmgr -i add account", 1, "Need name of account to add."),
        ("sacctmgr -i add qos", 1, "Need name of qos to add."),
        ("sacctmgr -i modify user u1 set adminlevel=foo", 1, "Unknown option: adminlevel=foo"),
        ("sacctmgr -i modify account physics set maxjobs=abc", 1, "sacctmgr: error: Invalid value for MaxJobs (abc)"),
        ("sacctmgr -i modify account physics set grpjobs=-5", 1, "sacctmgr: error: Invalid value for GrpJobs (-5)"),
        ("sacctmgr -i modify user u1 set maxjobs=-5", 1, "sacctmgr: error: Invalid value for MaxJobs (-5)"),
        ("sacctmgr -i modify qos normal set priority=abc", 1, "sacctmgr: error: Invalid value for Priority (abc)"),
        (
            "sacctmgr -i modify qos normal set usagefactor=nan",
            1,
            "sacctmgr: error: Invalid value for UsageFactor (nan)",
        ),
        ("sprio -j abc", 1, "sprio: error: Invalid job id: abc"),
        ("sprio -j 99", 0, "Unable to find jobs matching user/id(s) specified"),
    ],
)
def test_words_that_mean_nothing(
    line: str, code: int, text: str, api: Empty, capsys: pytest.CaptureFixture[str]
) -> None:
    found, seen = said(line, capsys)
    assert (found, seen[: len(text)]) == (code, text)
    assert api.written == []
