"""`slurm/commands/jobs/sprio.py`: sprio."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from phalanx.slurm.cluster.site import Account, Association, Site
from phalanx.slurm.commands.jobs import sprio
from phalanx.slurm.jobs import fields
from phalanx.slurm.jobs.view import JobInfo
from phalanx.slurm.options import Usage
from tests.slurm.test_multifactor import CAPTURES, EMPTY, GOLDEN, JOBS, NODES, SITE

USED = {("a", "a1"): 800.0, ("a", "a2"): 320.0, ("b", "b1"): 200.0, ("b", "b2"): 600.0}


TREE = Site(
    accounts={"a": Account(shares=40), "b": Account(shares=60)},
    users={
        "root": [Association(account="root")],
        "a1": [Association(account="a")],
        "a2": [Association(account="a", shares=3)],
        "b1": [Association(account="b")],
        "b2": [Association(account="b")],
    },
)


@pytest.fixture
def sprio_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """What `sprio WORDS` prints where these jobs have waited for so long."""

    def run(words: list[str], jobs: Sequence[JobInfo], site: Site, waited_s: float = 0.0) -> list[str]:
        monkeypatch.setattr(sprio.ApiClient, "open", lambda: None)
        monkeypatch.setattr(sprio.site, "load", lambda api: site)
        monkeypatch.setattr(sprio, "usage", lambda api: USED)
        monkeypatch.setattr(sprio, "nodes", lambda api: NODES)
        monkeypatch.setattr(sprio, "jobs", lambda *args, **how: list(jobs))
        monkeypatch.setattr(sprio.time, "time", lambda: waited_s)
        assert sprio.run(words) == 0
        return capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize("capture", [*CAPTURES, *EMPTY])
def test_sprio_prints_what_slurm_printed(capture: str, sprio_of: Callable[..., list[str]]) -> None:
    waited_s, differs = CAPTURES.get(capture, (0.0, {}))
    jobs = [] if capture in EMPTY else JOBS
    site = msgspec.structs.replace(
        SITE, accounts=TREE.accounts, users=TREE.users, classic=capture.startswith("classic")
    )
    text = (GOLDEN / f"sprio_{capture}.txt").read_text().split("\n")

    def but(lines: list[str]) -> list[str]:
        return [line for line in lines if not line.split()[:1] or line.split()[0] not in map(str, differs)]

    weights = sprio_of(["-w"], jobs, site)
    assert weights == text[1:3]
    normal = text.index("== normalized (-n)")
    assert but(sprio_of(["-l"], jobs, site, waited_s)) == but(text[3 : normal - 1])
    end = text.index("", normal)
    assert but(sprio_of(["-l", "-n"], jobs, site, waited_s)) == but(text[normal + 1 : end])
    heading, wrong = fields.by_letters("%i %j %u %a %q %P %T %Q %p %D %C %m %l %V %e %r")
    assert (fields.heading(heading), wrong) == (text[end + 1], [])


def test_classic_gives_parent_at_the_first_level_the_factor_of_the_root(sprio_of: Callable[..., list[str]]) -> None:
    job = msgspec.structs.replace(JOBS[0], ask=msgspec.structs.replace(JOBS[0].ask, account="root", user="root"))
    parent = {**TREE.users, "root": [Association(account="root", shares=-1)]}
    site = msgspec.structs.replace(SITE, accounts=TREE.accounts, users=parent, classic=True)
    assert sprio_of(["-h", "-o", "%f"], [job], site) == ["0.5000000"]


def test_jobs_that_may_not_begin_yet_are_left_out(sprio_of: Callable[..., list[str]]) -> None:
    later = [msgspec.structs.replace(job, ask=msgspec.structs.replace(job.ask, begin_s=9e9)) for job in JOBS[:1]]
    shown = sprio_of(["-h", "-o", "%i"], JOBS, SITE)
    assert sprio_of(["-h", "-o", "%i"], [*later, *JOBS[1:]], SITE) == shown[1:]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-M nowhere -u nosuch", "sprio: error: No cluster 'nowhere' known by database."),
        ("-jx -M nowhere", "sprio: error: Invalid job id: x"),
        ("-j 7 -j 9 -M nowhere", "sprio: error: No cluster 'nowhere' known by database."),
        ("-u nosuch extra", "sprio: error: Unrecognized option: extra"),
    ],
)
def test_the_first_wrong_option_is_reported(line: str, text: str, sprio_of: Callable[..., list[str]]) -> None:
    with pytest.raises(Usage) as error:
        sprio_of(line.split(), [], SITE)
    assert error.value.text.splitlines()[0] == text


def test_an_order_is_not_read_without_jobs_to_show(sprio_of: Callable[..., list[str]]) -> None:
    assert sprio_of(["-h", "-S", "z"], [], SITE) == []
