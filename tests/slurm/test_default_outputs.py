"""What each command prints without options, as a real Slurm 22.05.8 printed it (golden/slurm_default_outputs.txt).

The commands run whole, against an API server that has eight idle nodes and a site as the real one was configured, and a
ledger with the jobs that it shows. DIFFERS has what is not equal, and why (docs/guide/slurm.md).
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from phalanx.ledger.entry import JobEntry, StartEntry, State, url_of
from phalanx.ledger.store import Ledger
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.cluster.site import Account, Association, Partition, Qos, Site, Weights
from phalanx.slurm.jobs.ask import ASK, NUMBER, Ask
from phalanx.slurm.main import COMMANDS

GOLDEN = Path(__file__).parent / "golden" / "slurm_default_outputs.txt"
PARTS = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", GOLDEN.read_text(), re.MULTILINE)
OUTPUTS = {line: text.rstrip("\n") for line, text in PARTS}
DATE = re.compile(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$", re.MULTILINE)
# command -> the parts of its output that are removed on both sides, and the reason
DIFFERS = {
    "sacct -e": (r"\nTRESUsageOutMinNode[\s\S]*", "the recording ends before the last three lines"),
    "sshare": (r"(?m)(?<=^.{66}) .{13}", "recorded between two passes of slurmctld: new usage, EffectvUsage of before"),
    "scontrol show node n1": (
        r"CPULoad=\S+| FreeMem=\S+| Port=\d+|(?<=Addr=|Name=)(127\S+|localhost|n1)"
        r"|\n   (OS|BootTime|LastBusyTime)=.*",
        "there is no slurmd that would tell these",
    ),
    "scontrol show job": (
        r"(?<=Priority=)\d+|(?<=:Sid=).*|LastSchedEval=.*|\n   Power=[\s\S]*",
        "priorities shown are those of priority/basic, slurmctld's passes; the recording ends with StdOut",
    ),
}
QOS_OF = {"a": ["cpulim", "fast", "lim", "normal"], "b": ["cpulim", "fast", "lim", "normal"]}
QOS_OF |= {account: ["cpulim", "lim", "normal"] for account in ("c", "c1", "c2")}
LIMITS = {"grpjobs": "5", "grptres": "cpu=100"}
SITE = Site(
    cluster="anchor",
    counts_gpus=False,
    partitions=[
        Partition(name="batch", default=True, max_min=7 * 1440, default_min=60, mem_per_cpu_mib=1000, priority=10),
        Partition(name="high", max_min=7 * 1440, default_min=60, mem_per_cpu_mib=1000, priority=30),
    ],
    sockets={f"n{at}": "2:32:1" for at in range(1, 9)},
    accounts={
        "a": Account(shares=40), "b": Account(shares=60, limits=LIMITS), "c": Account(shares=20),
        "c1": Account(shares=2, parent="c", organization="c"), "c2": Account(shares=2, parent="c", organization="c"),
        "d": Account(shares=30), "e": Account(shares=0),
    },
    users={
        user: [Association(account=account, shares=shares, qos=QOS_OF.get(account, []))]
        for user, account, shares in (
            ("root", "root", 1), ("a1", "a", 1), ("a2", "a", 3), ("b1", "b", 1), ("b2", "b", 1), ("c1", "c1", 5),
            ("c2", "c2", 1), ("c3", "c", 4), ("d1", "d", -1), ("d2", "d", -1), ("e1", "e", 1),
        )
    },
    qos={
        "normal": Qos(), "fast": Qos(priority=100), "slow": Qos(priority=10),
        "lim": Qos(limits={"maxjobsperuser": "1", "maxsubmitjobsperuser": "3"}),
        "cpulim": Qos(limits={"maxtresperuser": "cpu=4"}),
    },
    weights=Weights(age=1000, assoc=100, fair_share=100000, job_size=500, partition=2000, qos=3000, tres={"cpu": 200}),
)  # fmt: skip
NOW_S = datetime(2026, 11, 21, 2, 18, 31, tzinfo=UTC).timestamp()
USED = [["root", "root", 23791.9], ["a", "a1", 3087.9], ["b", "b1", 249.9]]


class Served(ApiClient):
    """An API server that has what the real Slurm had."""

    completing = False

    def __init__(self) -> None:
        self.namespace, self.of_job = "default", False

    def call(self, method: str, path: str, *rest: Any, **query: str) -> bytes:
        assert method == "GET"
        found = {
            f"{site.PATH}/{site.SITE}": {"data": {"site": msgspec.json.encode(SITE).decode()}},
            f"{site.PATH}/phalanx-usage": {"data": {"usage": msgspec.json.encode({"used": USED}).decode()}},
            "/api/v1/nodes": {"items": [node(f"n{at}") for at in range(1, 9)]},
        }
        if self.completing and path.endswith("/jobs"):
            return msgspec.json.encode({"items": [completing()]})
        if self.completing and path.endswith("/pods"):
            pod = {"metadata": {"name": "p", "labels": {NUMBER: "9043"}}, "spec": {"nodeName": "n7"}}
            return msgspec.json.encode({"items": [pod]})
        if path.endswith(("/jobs", "/pods", "/reservations")):
            return b'{"items": []}'
        if path not in found:
            raise RequestRefused(404, path)
        return msgspec.json.encode(found[path])


def node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-11-21T01:35:50Z"},
        "status": {
            "allocatable": {"cpu": "64", "memory": "256000Mi", "nvidia.com/gpu": "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def entry(number: int, start_s: float, end_s: float, state: State, ask: Ask, *nodes: str) -> JobEntry:
    start = StartEntry(at_s=start_s, state=state, end_s=end_s, nodes=nodes)
    return JobEntry(
        uid=str(number), job=f"default/slurm-{number}", group=ask.user, number=number, submit_s=ask.submit_s,
        eligible_s=ask.submit_s, end_s=end_s, exit_code=0, state=state, starts=(start,),
        words={"job": msgspec.json.encode(ask).decode()},
    )  # fmt: skip


def asked(name: str, user: str, account: str, **what: Any) -> Ask:
    uid = 5000 + int(user[1])
    rest = {"memory_mib": 1000, "per_cpu": True, "limit_min": 60, "partition": "batch", "workdir": "/var/jobs"} | what
    return Ask(name=name, user=user, uid=uid, gid=uid, group=user, account=account, **rest)


def completing() -> dict[str, Any]:
    ask = asked("short2", "b2", "b", tasks=2)
    said = {ASK: msgspec.json.encode(ask).decode(), "phalanx.dev/admitted": f'{{"at_s": {NOW_S - 5}}}'}
    labels = {NUMBER: "9043"}
    return {"metadata": {"name": "slurm-9043", "deletionTimestamp": "x", "annotations": said, "labels": labels}}


ENDED = [
    *(entry(at, 20.0, 30.0, State.COMPLETED, asked("wrap", f"c{at - 11}", f"c{at - 11}", tasks=8)) for at in (12, 13)),
    entry(
        9040, NOW_S - 8, NOW_S, State.CANCELLED,
        asked("run6", "a1", "a", nodes=6, tasks=6, exclusive=True, node_cpus=64, limit_min=10, submit_s=NOW_S - 9,
              stdout="/dev/null"),
        *(f"n{at}" for at in range(1, 7)),
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    url = url_of(tmp_path_factory.mktemp("ledger") / "ledger.sqlite3")
    with Ledger.open(url) as ledger, pytest.MonkeyPatch.context() as patched:
        ledger.put(ENDED)
        patched.setenv("PHALANX_LEDGER", url)
        patched.setenv("TZ", "UTC")
        time.tzset()
        patched.setattr(time, "time", lambda: NOW_S)
        patched.setattr(ApiClient, "open", Served)
        yield
    time.tzset()


@pytest.mark.parametrize("line", OUTPUTS)
def test_a_command_prints_what_slurm_printed(
    line: str, served: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Served, "completing", line == "squeue")  # it was gone a second later
    name, *words = shlex.split(line)
    assert import_module(f"phalanx.slurm.commands.{COMMANDS[name]}.{name}").run(words) == 0
    assert compared(line, capsys.readouterr().out) == compared(line, OUTPUTS[line])


def compared(line: str, text: str) -> list[str]:
    aside, _ = DIFFERS.get(line, ("$^", ""))
    return re.sub(aside, "", DATE.sub("DATE", text.rstrip("\n"))).rstrip("\n").splitlines()
