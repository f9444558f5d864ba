"""The ledger for users who may not read its file: rows from the API server, and sacct's output from them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from phalanx.embedded.apiserver.endpoints.paths.slurm_view import SHOWN
from phalanx.ledger.entry import JobEntry, StartEntry, State, url_of
from phalanx.ledger.store import Ledger
from phalanx.slurm.cluster import ledger
from phalanx.slurm.cluster.api import RequestRefused
from phalanx.slurm.cluster.ledger import Part, fetch, rows, spans
from phalanx.slurm.commands.accounting import sacct
from phalanx.slurm.jobs.ask import Ask
from phalanx.slurm.jobs.ended import recorded

PRIVATE = ("/home/ada/secret", "train.sh --token hush", "a remark", "its last words")


def entry(number: int, user: str, **more: Any) -> JobEntry:
    ask = Ask(
        name=f"job{number}", user=user, uid=1, gid=1, group=user, account="lab", partition="batch", submit_s=1000.0,
        workdir=PRIVATE[0], line=PRIVATE[1], comment=PRIVATE[2],
    )  # fmt: skip
    start = StartEntry(at_s=1010.0, state=State.COMPLETED, end_s=1100.0, nodes=("n1",))
    words = {
        "job": msgspec.json.encode(ask).decode(),
        "step.0": '{"name":"train","line":"train.sh --token hush"}',
        "environment": "hush",
    }
    said = {
        "uid": str(number), "job": f"user-{user}/slurm-{number}", "user": user, "group": user, "number": number,
        "submit_s": 1000.0, "end_s": 1100.0, "exit_code": 0, "state": State.COMPLETED, "starts": (start,),
        "words": words, "cause": f"OOMKilled; its log ends: {PRIVATE[3]}",
    }  # fmt: skip
    return JobEntry(**(said | more))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = url_of(tmp_path_factory.mktemp("ledger") / "ledger.sqlite3")
    with Ledger.open(found) as ledger:
        ledger.put([entry(1, "ada"), entry(2, "bob"), entry(3, "bob", submit_s=5.0, end_s=9.0)])
    return found


def asked(url: str, asker: str, sees_all: str = "false", **query: str) -> dict[str, Any]:
    return rows(url, {"asker": asker, "all": sees_all, **query}, SHOWN)


def test_words_of_others_are_not_shown(url: str) -> None:
    text = msgspec.json.encode(asked(url, "bob", numbers="1")).decode()
    assert "job1" in text
    assert [word for word in (*PRIVATE, "hush") if word in text] == []
    for asker, sees_all in (("ada", "false"), ("root", "true")):
        own = msgspec.json.encode(asked(url, asker, sees_all, numbers="1")).decode()
        assert [word for word in PRIVATE if word not in own] == []


def test_rows_are_those_that_are_asked_for(url: str) -> None:
    def numbers(**query: str) -> list[int]:
        at = ledger.JOB_COLUMNS.index("number")
        return sorted(row[at] for row in asked(url, "bob", **query)["jobs"])

    assert numbers() == [1, 2, 3]
    assert numbers(user="bob") == [2, 3]
    assert numbers(since="500.0") == [1, 2]
    assert numbers(numbers="2-9,1") == [1, 2, 3]
    assert spans([5, 3, 4, 9]) == "3-5,9"


@pytest.mark.parametrize(
    "query",
    [{"numbers": "x"}, {"numbers": ",".join(["1"] * 501)}, {"since": "nan"}, {"since": "-1"}, {"numbers": "1;DROP"}],
)
def test_nonsense_is_refused(url: str, query: dict[str, str]) -> None:
    assert asked(url, "bob", **query)["code"] == 400


def test_a_ledger_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    assert asked(url_of(tmp_path / "none.sqlite3"), "bob")["code"] == 503


class Serving:
    """An API server that answers as the scheduler does."""

    def __init__(self, url: str) -> None:
        self._url, self.asked = url, list[dict[str, str]]()

    def call(self, method: str, path: str, **query: str) -> bytes:
        assert (method, path) == ("GET", ledger.PATH)
        self.asked.append(query)
        return msgspec.json.encode(asked(self._url, "bob", **query))


def test_sacct_reads_what_the_server_shows(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Serving(url)
    monkeypatch.setattr(ledger.ApiClient, "open", lambda: server)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PHALANX_LEDGER", raising=False)
    ledger._is_served.cache_clear()
    try:
        assert sacct.run(["-n", "-P", "-X", "-j", "2", "-o", "JobID,User,State,Elapsed"]) == 0
        assert capsys.readouterr().out == "2|bob|COMPLETED|00:01:30\n"
        assert [(job.number, job.ask.workdir) for job in recorded(numbers=[1, 2])] == [(1, ""), (2, PRIVATE[0])]
    finally:
        ledger._is_served.cache_clear()
    assert {"numbers": "1-2"} in server.asked


def test_rows_of_another_length_are_left_out(url: str) -> None:
    server = Serving(url)
    monkey = asked(url, "bob")
    monkey["jobs"].append([1, 2])
    server.call = lambda *_, **__: msgspec.json.encode(monkey)  # type: ignore[method-assign]  # an older server
    connection, truncated = fetch(server, Part())  # type: ignore[arg-type]  # a double
    assert isinstance(connection, sqlite3.Connection)
    assert connection.execute("SELECT COUNT(*) FROM ledger_job").fetchone() == (3,)
    assert not truncated


def test_where_nothing_is_served_there_is_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Serving):
        def call(self, method: str, path: str, **query: str) -> bytes:
            raise RequestRefused(404, "not found")

    monkeypatch.setattr(ledger.ApiClient, "open", lambda: Other(""))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PHALANX_LEDGER", raising=False)
    ledger._is_served.cache_clear()
    assert ledger.ledger_url() == ""
    ledger._is_served.cache_clear()
