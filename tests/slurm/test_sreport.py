"""sreport, digit by digit as a real Slurm 22.05 printed it, from a ledger with the same jobs on such nodes."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from phalanx.ledger.entry import JobEntry, StartEntry, State, url_of
from phalanx.ledger.store import Ledger
from phalanx.slurm.cluster.site import Site
from phalanx.slurm.commands.accounting import sreport, sreport_asked
from phalanx.slurm.control.reservations import ReservationInfo
from phalanx.slurm.jobs.nodes import NodeInfo
from phalanx.slurm.options import Usage

GOLDEN = Path(__file__).parent / "golden" / "slurm_sreport.txt"
# number, user, account, CPUs, GPUs, eligible, start, end: what sacct said of them
JOBS = """
710001 u1 physics 4 0 19:41:25 19:45:28 19:47:08
710002 u2 chem 20 0 19:41:25 19:45:28 19:46:28
710003 u2 physics 1 2 19:41:25 19:46:03 19:46:53
710004 u1 physics 16 0 19:41:25 19:45:30 19:46:00
710005 u1 physics 2 0 19:41:28 19:45:28 19:45:33
710006 u1 physics 4 0 19:41:28 19:45:28 19:45:33
710007 u1 physics 1 0 19:41:30 19:46:02 19:46:02
710008 u1 physics 2 0 19:41:30 19:46:02 19:46:02
710009 u1 physics 1 0 19:41:30 19:46:04 19:46:09
710010 u1 physics 8 0 19:41:30 19:46:04 19:46:09
710011 u2 chem 20 0 19:56:08 19:56:08 19:57:08
710012 u1 physics 1 0 19:56:08 19:56:08 19:56:08
710013 u1 physics 2 0 19:56:08 19:56:08 19:56:08
710014 u2 physics 16 0 19:56:08 19:56:09 19:59:29
710015 u1 physics 8 1 19:56:08 19:56:09 20:00:19
710016 u3 chem/bio 3 0 19:56:08 19:56:09 20:01:09
"""
NOW = "20:00:00"


def at(clock: str) -> float:
    return datetime.fromisoformat(f"2026-11-22T{clock}+00:00").astimezone(UTC).timestamp()


def entry(line: str) -> JobEntry:
    number, user, account, cpus, gpus, eligible, start, end = line.split()
    held = {"cpu": int(cpus) * 1000, "memory": int(cpus) * 1000 << 20}
    held |= {"nvidia.com/gpu": int(gpus)} if gpus != "0" else {}
    begun = StartEntry(at_s=at(start), state=State.COMPLETED, end_s=at(end), nodes=("cn1",), allocated=held)
    return JobEntry(
        uid=number, job=f"default/slurm-{number}", user="somebody", group=user, queue=account, account=account,
        number=int(number), submit_s=at(eligible), eligible_s=at(eligible), end_s=at(end), requested=held,
        state=State.COMPLETED, starts=(begun,),
    )  # fmt: skip


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with Ledger.open(url_of(tmp_path / "ledger.sqlite3")) as ledger:
        ledger.put([entry(line) for line in JOBS.split("\n") if line])
    nodes = [
        NodeInfo(name=f"cn{n}", cpus=16, memory_mib=64000, gpus=4 if n > 2 else 0, ready=True, drained=False,
             made_s=at("19:40:49"))
        for n in (1, 2, 3, 4)
    ]  # fmt: skip
    monkeypatch.setenv("PHALANX_LEDGER", url_of(tmp_path / "ledger.sqlite3"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(sreport_asked.time, "time", lambda: at(NOW))
    monkeypatch.setattr(sreport.ApiClient, "open", lambda: None)
    monkeypatch.setattr(sreport.site, "load", lambda api: Site(cluster="oracle"))
    monkeypatch.setattr(sreport, "nodes", lambda api: nodes)
    yield
    monkeypatch.undo()
    time.tzset()


def captured() -> list[tuple[str, str, int]]:
    """Each command line of the golden file, what it printed, its exit code."""
    found = re.findall(r"^\$ (sreport .*)\n((?:(?!\$ sreport).*\n)*?)\[(\d)\]$", GOLDEN.read_text(), re.MULTILINE)
    return [(line, text, int(code)) for line, text, code in found]


@pytest.mark.parametrize(("line", "text", "code"), captured(), ids=lambda one: str(one)[:60])
def test_it_says_what_slurm_says(
    line: str, text: str, code: int, recorded: None, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ""
    try:
        status = sreport.run(shlex.split(line)[1:])
    except Usage as error:
        status, said = error.status, error.text + "\n"
    assert (capsys.readouterr().out + said, status) == (text, code)


@pytest.mark.parametrize(
    "line", ["reservation users", "job SizesByAccount grouping=x", "-T foo cluster util", "c util"]
)
def test_what_it_does_not_understand_it_refuses(line: str, recorded: None) -> None:
    with pytest.raises(Usage):
        sreport.run(line.split())


@pytest.mark.parametrize(
    ("line", "status", "told"),
    [
        ("-t foo cluster ut", 0, "unknown time format foo"),
        ("cluster util blah=1", 1, " Unknown condition: blah=1\nUse keyword set to modify value\n"),
        ("cluster util account=x", 1, " Unknown condition: account=x\nUse keyword set to modify value\n"),
        ("user top topcount=x", 1, "sreport: error: Invalid value for TopCount (x)\n"),
        ("cluster util format=foo", 1, " Unknown field 'foo'\n"),
        ("job SizesByWCKey", 0, ""),
    ],
)
def test_what_it_passes_over_it_tells_and_reports_all_the_same(
    line: str,
    status: int,
    told: str,
    recorded: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sreport, "is_administrator", lambda here: True)
    assert sreport.run(line.split()) == status
    shown = capsys.readouterr()
    assert (shown.err, shown.out.count("-" * 80)) == (told, 2)


def test_only_operators_see_reports_by_wckey(recorded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sreport, "is_administrator", lambda here: False)
    with pytest.raises(Usage, match="Problem with get query"):
        sreport.run(["cluster", "wckeyutilizationbyuser"])


def test_a_time_that_is_none_is_yesterday_and_a_period_is_an_hour_at_least(
    recorded: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in ("cluster util", "cluster util start=x", "cluster util start=tomorrow"):
        assert sreport.run(line.split()) == 0
    shown = capsys.readouterr()
    first, second, third = (one for one in shown.out.splitlines() if one.startswith("Cluster Utilization"))
    assert first == second != third
    assert third.endswith("T00:59:59")
    assert shown.err == "Invalid time specification (pos=0): x\n"


def test_jobs_of_other_kinds_count_for_the_user_of_the_api(
    recorded: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = {"cpu": 2500}
    start = StartEntry(at_s=at("19:50:00"), state=State.RUNNING, allocated=held)
    other = JobEntry(uid="k", job="ai/train", user="ada", queue="ml", account="ml", requested=held,
                     submit_s=at("19:50:00"), state=State.RUNNING, starts=(start,))  # fmt: skip
    with Ledger.open(url_of(tmp_path / "ledger.sqlite3")) as ledger:
        ledger.put([other])
    sreport.run(["-n", "-P", "cluster", "UserUtilizationByAccount", "start=today", "end=tomorrow", "user=ada"])
    assert capsys.readouterr().out == "oracle|ada||ml|25|0\n"


def test_wckeys_and_reservations_are_what_jobs_asked(
    recorded: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = []
    for number, user, asked in (
        (1, "ada", {"wckey": "k1", "reservation": "night"}), (2, "bob", {"wckey": "k1"}), (3, "ada", {"wckey": "k2"}),
    ):  # fmt: skip
        start = StartEntry(at_s=at("19:45:00"), state=State.COMPLETED, end_s=at("19:55:00"), allocated={"cpu": 2000})
        words = {"job": json.dumps({"name": '"wckey":"forged"', **asked})}
        entries.append(JobEntry(uid=f"w{number}", job=f"ai/w{number}", group=user, account="lab", number=number,
                                submit_s=at("19:45:00"), end_s=start.end_s, words=words, starts=(start,)))  # fmt: skip
    with Ledger.open(url_of(tmp_path / "ledger.sqlite3")) as ledger:
        ledger.put(entries)
    period = ["start=today", "end=tomorrow"]
    sreport.run(["-n", "-P", "cluster", "WCKeyUtilizationByUser", "format=wckey,login,used", *period])
    assert capsys.readouterr().out == "k1||40\nk1|ada|20\nk1|bob|20\nk2||20\nk2|ada|20\n"
    sreport.run(["-n", "-P", "cluster", "UserUtilizationByWCKey", "format=login,wckey,used", *period])
    assert capsys.readouterr().out == "ada|k1|20\nada|k2|20\nbob|k1|20\n"
    night = ReservationInfo(name="night", start_s=at("19:40:00"), end_s=at("23:00:00"), nodes=["cn1"])
    monkeypatch.setattr(sreport, "reservations", lambda api: [night])
    sreport.run(["-n", "-P", "reservation", "Utilization", "format=name,tresname,allocated,idle", *period])
    assert capsys.readouterr().out == "night|cpu|20|300\n"


def test_tres_are_checked_first_and_quiet_says_little() -> None:
    for line, text in (
        ("-T held help", "sreport: fatal: No valid TRES given"),
        ("-Q user", ""),
        ("user", "too few arguments for keyword:user"),
    ):
        with pytest.raises(Usage) as error:
            sreport.run(line.split())
        assert error.value.text == text
