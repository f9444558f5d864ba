"""`slurm/commands/accounting/sshare.py`: sshare."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from phalanx.slurm.cluster.site import Account, Association, Site
from phalanx.slurm.commands.accounting import sshare
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage
from tests.slurm.test_tree_shares import CAPTURES, GOLDEN, SMALL

COLUMNS = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,LevelFS"


COMMANDS = {"": ["-al"], "_parsable": ["-al", "--parsable2"], "_cols": ["-a", "--parsable2", "-o", COLUMNS]}


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """What `sshare WORDS` prints of a site, its usage and the jobs that run."""

    def run(site: Site, used: dict[tuple[str, str], float], words: list[str], *jobs: JobInfo) -> list[str]:
        monkeypatch.setattr(sshare.ApiClient, "open", lambda: None)
        monkeypatch.setattr(sshare.site, "load", lambda api: site)
        monkeypatch.setattr(sshare, "usage", lambda api: used)
        monkeypatch.setattr(sshare, "jobs", lambda api: jobs)
        assert sshare.run(words) == 0
        return capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize(
    ("capture", "style"),
    [(one, style) for one in CAPTURES for style in COMMANDS if (GOLDEN / f"sshare_{one}{style}.txt").exists()],
)
def test_sshare_prints_what_slurm_printed(capture: str, style: str, printed: Callable[..., list[str]]) -> None:
    site, used = CAPTURES[capture]
    text = (GOLDEN / f"sshare_{capture}{style}.txt").read_text().splitlines()
    expected = text[next(at for at, line in enumerate(text) if line.startswith("Account")) :]
    assert printed(site, used, COMMANDS[style]) == expected


def test_before_slurm_ranks_new_users_only_their_factors_differ(printed: Callable[..., list[str]]) -> None:
    theirs = (GOLDEN / "sshare_fairtree_0_nousage.txt").read_text().splitlines()
    ours = printed(SMALL, {}, ["-al"])
    shown, ranked = slice(0, 66), slice(78, 103)  # up to RawUsage; EffectvUsage and FairShare
    assert [line[shown] for line in ours] == [line[shown] for line in theirs]
    assert [line[ranked].split() for line in ours if " a1 " in line] == [["0.000000", "1.000000"]]
    assert [line[ranked].split() for line in theirs if " a1 " in line] == [["0.000000", "0.000000"]]


def test_classic_shows_the_usage_of_parent_at_the_first_level(printed: Callable[..., list[str]]) -> None:
    """As in capture classic_5_parents (account t4). The priority of jobs has the factor of the root: `test_sprio`."""
    site = Site(users={"ann": [Association(account="root", shares=-1)]}, classic=True)
    rows = printed(site, {("root", "ann"): 60.0}, ["-anP", "-o", "User,RawShares,NormShares,EffectvUsage,FairShare"])
    assert rows == ["||1.000000|1.000000|0.500000", "ann|parent|1.000000|1.000000|0.500000"]
    site.accounts["a"] = Account(shares=1)
    site.users["bob"] = [Association(account="a")]
    used = {("root", "ann"): 60.0, ("a", "bob"): 60.0}
    rows = printed(site, used, ["-anP", "-u", "ann", "-U", "-o", "User,NormShares,EffectvUsage,FairShare"])
    assert rows == [f"ann|1.000000|0.500000|{2**-0.5:.6f}"]


def test_a_very_deep_tree_is_printed(printed: Callable[..., list[str]]) -> None:
    deep = {f"a{at}": Account(parent=f"a{at - 1}" if at else "") for at in range(2000)}
    site = Site(accounts=deep, users={"ann": [Association(account="a1999")]})
    rows = printed(site, {}, ["-anP", "-o", "Account,User"])
    assert (len(rows), rows[-1].strip()) == (2003, "a1999|ann")


def test_what_runs_is_held_until_its_limit(printed: Callable[..., list[str]]) -> None:
    def job(user: str, state: str, tasks: int, limit_min: int | None) -> JobInfo:
        ask = Ask(name="j", user=user, uid=1, gid=1, group="g", account=user[0], partition="batch", qos="normal",
                  tasks=tasks, memory_mib=1000, limit_min=limit_min)  # fmt: skip
        return JobInfo(number=1, ask=ask, state=state, start_s=0.0, end_s=420.0)  # seven minutes ago

    jobs = [job("a1", "RUNNING", 2, 10), job("a1", "RUNNING", 1, 3), job("a2", "PENDING", 4, 60)]
    jobs += [job("b1", "RUNNING", 4, None), job("a2", "SUSPENDED", 1, 1)]
    rows = printed(SMALL, {}, ["-anP", "-o", "Account,User,TRESRunMins"], *jobs)
    held = "cpu=10,mem=5000,energy=0,node=5,billing=10,fs/disk=0,vmem=0,pages=0"
    none = "cpu=0,mem=0,energy=0,node=0,billing=0,fs/disk=0,vmem=0,pages=0"
    assert [row for row in rows if not row.endswith(none)] == [f"root||{held}", f" a||{held}", f"  a|a1|{held}"]
    assert len(rows) == 8


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (["-nP", "-a", "-o", "User%-10,User,user%-10"], 2),
        (["-nP", "-a", "-A", "a", "-A", "b", "-o", "account"], 1),
        (["-nP", "-a", "-A", "a", "-A", "", "-o", "account"], 1),
    ],
)
def test_words_add_up_as_in_slurm(words: list[str], rows: int, printed: Callable[..., list[str]]) -> None:
    found = printed(SMALL, {}, words)
    assert {line.count("|") + 1 for line in found} == {rows}
    wanted = {"a", "b"} if words.count("-A") == 2 and "" not in words else {"a"}
    assert "-A" not in words or {line.strip() for line in found} == wanted


@pytest.mark.parametrize(
    ("typed", "users"),
    [
        ([("all", None), ("users", "u1")], ["u1"]),
        ([("users", "u1"), ("all", None)], []),
        ([("users", "u1"), ("users", "u2,u1")], ["u1", "u2"]),
        ([("users", "-1")], []),
        ([("all", None)], []),
    ],
)
def test_the_last_of_all_and_users_counts(typed: list[tuple[str, str | None]], users: list[str]) -> None:
    assert sshare._users(typed) == users


def test_a_cluster_is_checked_before_the_options_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sshare.ApiClient, "open", lambda: None)
    monkeypatch.setattr(sshare.site, "load", lambda api: Site(cluster="lab"))
    for line, text in (("-M nowhere --parsa", "No cluster 'nowhere' known"), ("--parsa -M nowhere", "is ambiguous")):
        with pytest.raises(Usage, match=text):
            sshare.run(line.split())
