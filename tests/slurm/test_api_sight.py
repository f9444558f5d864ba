"""The view of other users' jobs by Slurm's commands, and the effect of hostile names on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import msgspec
import pytest

from phalanx.embedded.apiserver.auth.authentication import token_of
from phalanx.embedded.apiserver.endpoints.paths.slurm_numbers import AHEAD, LAST, MOST_UNUSED
from phalanx.embedded.apiserver.endpoints.paths.slurm_view import SHOWN
from phalanx.embedded.login.admission import CONTROL_PLANE, USERS, LoginAccount
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.admission import give_level
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.commands.cluster import sinfo
from phalanx.slurm.commands.jobs import scancel, squeue
from phalanx.slurm.jobs.ask import ASK, NUMBER, PREFIX, Ask
from phalanx.slurm.jobs.nodes import used
from phalanx.slurm.jobs.steps.records import StepRecord
from phalanx.slurm.jobs.view import JobInfo, jobs
from phalanx.slurm.submission import manifest, numbers
from tests.embedded.apiserver.inprocess import InProcess
from tests.embedded.login.test_rules import shared
from tests.slurm.test_sacctmgr_coordinators import Client

UIDS = {"ada": 60021, "bob": 60022, "oper": 60023}
SECRETS = ("/home/ada/secret-project", "private remark", "train.sh --token hush", "out-of-sight")


class Elsewhere(Client):
    """A client of the server in this process, with the namespaces of others."""

    def another(self) -> Elsewhere:
        return self

    def _in(self, namespace: str) -> ApiClient:
        found = Elsewhere(self._runner, self._server)
        found.namespace = namespace
        return found


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Elsewhere]]:
    accounts = [LoginAccount(uid=uid, gid=uid, name=name, groups=(USERS,)) for name, uid in UIDS.items()]
    with asyncio.Runner() as runner:
        serving = shared(tmp_path_factory.mktemp("api"), *accounts)
        admin, *others = runner.run(serving.__aenter__())
        control = InProcess(admin.api, token_of(admin.api.settings.tokens, CONTROL_PLANE))
        named = zip(("root", *UIDS, "control"), (admin, *others, control), strict=True)
        found = {name: Elsewhere(runner, one) for name, one in named}
        for name in UIDS:
            found[name].namespace = f"user-{name}"
        give_level(found["root"], "oper", "Operator")
        site.store(found["root"], site.Site(admins={"oper": "Operator"}))
        node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", "memory": "1Gi"}}}
        found["root"].create("/api/v1/nodes", node)
        yield found
        runner.run(serving.__aexit__(None, None, None))


def asked(user: str, **more: Any) -> Ask:
    said: dict[str, Any] = {
        "name": "train", "user": user, "uid": UIDS.get(user, 0), "gid": UIDS.get(user, 0), "group": user,
        "account": "default", "partition": "batch", "submit_s": time.time(), "tasks": 2,
    }  # fmt: skip
    return Ask(**(said | more))


def submit(client: Elsewhere, ask: Ask, number: int | None = None, **notes: str) -> int:
    number = numbers.take(client, 1, 1) if number is None else number
    body = manifest.job(number, ask, site.Site(), notes, [])
    client.create("/apis/batch/v1/namespaces/{namespace}/jobs", body)
    return number


def pod(name: str, number: int, **status: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "host", "env": [{"name": "TOKEN", "value": "hush"}],
                 "resources": {"requests": {"cpu": "3"}}}  # fmt: skip
    labels = {NUMBER: str(number)} if number else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}


def bind(clients: dict[str, Elsewhere], namespace: str, name: str) -> None:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
    clients["root"].create(f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body)


def by_number(client: ApiClient, number: int) -> JobInfo:
    [found] = [job for job in jobs(client) if job.number == number]
    return found


def test_everybody_sees_names_users_and_states_and_nothing_private(clients: dict[str, Elsewhere]) -> None:
    ask = asked("ada", workdir=SECRETS[0], comment=SECRETS[1], line=SECRETS[2], stdout=SECRETS[3])
    number = submit(clients["ada"], ask)
    seen = by_number(clients["bob"], number)
    assert (seen.ask.name, seen.ask.user, seen.ask.uid, seen.state) == ("train", "ada", UIDS["ada"], "PENDING")
    shown = clients["bob"].list("/slurm/v1/jobs")
    assert [word for word in SECRETS if word.encode() in shown] == []
    for reader in ("ada", "oper", "root"):
        found = by_number(clients[reader], number).ask
        assert (found.workdir, found.comment, found.line, found.stdout) == SECRETS, reader
    # Of every field it is decided whether all see it.
    hidden = {"warning", "mail", "mail_user", "image", "mounts", "comment", "command", "workdir", "stdin", "stdout",
              "stderr", "line", "host", "pid"}  # fmt: skip
    assert SHOWN | hidden == set(Ask.__struct_fields__)
    assert not SHOWN & hidden


def test_everybody_sees_the_steps_that_run_without_their_command_lines(clients: dict[str, Elsewhere]) -> None:
    record = StepRecord(name="train", tasks=2, cpus=4, nodes=["n1"], start_s=5.0, line="srun train --token hush")
    word = {f"{PREFIX}step.0": msgspec.json.encode(record).decode(), f"{PREFIX}step.x": "no record"}
    number = submit(clients["ada"], asked("ada"), **word)
    [seen] = by_number(clients["bob"], number).steps.values()
    assert (seen.name, seen.tasks, seen.cpus, seen.nodes, seen.state) == ("train", 2, 4, ["n1"], "RUNNING")
    assert b"hush" not in clients["bob"].list("/slurm/v1/jobs")
    assert by_number(clients["ada"], number).steps[0].line == record.line


def test_how_busy_nodes_are_is_seen_by_all(
    clients: dict[str, Elsewhere], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clients["ada"].create("/api/v1/namespaces/user-ada/pods", pod("busy", 0))
    bind(clients, "user-ada", "busy")
    assert used(clients["bob"])["n1"].cpus >= 3
    monkeypatch.setattr(ApiClient, "open", lambda: clients["bob"])
    sinfo.run(["-h", "-o", "%C"])
    assert not capsys.readouterr().out.startswith("0/")
    assert b"hush" not in clients["bob"].list("/slurm/v1/pods")


def test_squeue_of_a_user_reads_the_jobs_of_that_user(
    clients: dict[str, Elsewhere], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = time.time() - 60
    ahead = submit(clients["ada"], asked("ada", name="ahead", submit_s=earlier))
    behind, ended = (submit(clients["bob"], asked("bob", name=name, submit_s=earlier)) for name in ("behind", "ended"))
    path = f"/apis/batch/v1/namespaces/user-bob/jobs/slurm-{ended}/status"
    now = "2026-01-01T00:00:00Z"
    kinds = ("FailureTarget", "Failed")
    said = [{"type": kind, "status": "True", "reason": "x", "lastTransitionTime": now} for kind in kinds]
    clients["root"].patch(path, {"status": {"conditions": said, "startTime": now}})
    shown = clients["bob"].list("/slurm/v1/jobs", users="bob", live="true").decode()
    assert [f'"slurm-{number}"' in shown for number in (ahead, behind, ended)] == [False, True, False]
    assert f'"slurm-{ended}"' in clients["bob"].list("/slurm/v1/jobs", users="bob,nobody").decode()
    monkeypatch.setattr(ApiClient, "open", lambda: clients["bob"])
    squeue.run(["-h", "-u", "bob", "-o", "%i %r"])
    assert capsys.readouterr().out == f"{behind} Priority\n"  # a job of another user is ahead, and is not shown


def test_sinfo_reads_no_pod_that_has_ended(clients: dict[str, Elsewhere]) -> None:
    for name, phase in (("ended", "Succeeded"), ("failed", "Failed")):
        made = clients["ada"].create("/api/v1/namespaces/user-ada/pods", pod(name, 0))
        bind(clients, "user-ada", name)
        path = f"/api/v1/namespaces/user-ada/pods/{made['metadata']['name']}/status"
        clients["root"].patch(path, {"status": {"phase": phase}})
    clients["ada"].create("/api/v1/namespaces/user-ada/pods", pod("alive", 0))
    bind(clients, "user-ada", "alive")
    read: list[bytes] = []
    bob = clients["bob"]
    before = used(bob)["n1"].cpus

    def seen(path: str, **query: str) -> bytes:
        read.append(ApiClient.list(bob, path, **query))
        return read[-1]

    with mock.patch.object(bob, "list", seen):
        assert used(bob)["n1"].cpus == before
    shown = read[-1].decode()
    assert '"ended"' not in shown
    assert '"failed"' not in shown
    assert '"alive"' in shown
    clients["ada"].delete("/api/v1/namespaces/user-ada/pods/alive")


def test_nobody_appears_as_another_user(clients: dict[str, Elsewhere]) -> None:
    number = submit(clients["bob"], asked("root", name="forged"))
    for reader in ("ada", "bob", "oper", "root"):
        found = by_number(clients[reader], number).ask
        assert (found.user, found.uid) == ("bob", UIDS["bob"]), reader


def test_a_pod_of_a_stranger_changes_no_job(clients: dict[str, Elsewhere]) -> None:
    admitted = {"phalanx.dev/admitted": msgspec.json.encode({"at_s": time.time()}).decode()}
    number = submit(clients["ada"], asked("ada", name="placed"))
    job = f"/apis/batch/v1/namespaces/user-ada/jobs/slurm-{number}"
    clients["control"].patch(job, {"metadata": {"annotations": admitted}, "spec": {"suspend": False}})
    clients["bob"].create("/api/v1/namespaces/user-bob/pods", pod("stranger", number))
    bind(clients, "user-bob", "stranger")
    status = {"phase": "Failed", "containerStatuses": [{
        "name": "main", "image": "host", "imageID": "", "ready": False, "restartCount": 0,
        "state": {"terminated": {"exitCode": 9}}}]}  # fmt: skip
    clients["root"].patch("/api/v1/namespaces/user-bob/pods/stranger/status", {"status": status})
    seen = by_number(clients["ada"], number)
    assert (seen.nodes, seen.state, seen.exit_code) == ((), "RUNNING", 0)


HOSTILE = {
    "a billion nodes": {"nodes": 10**9},
    "a billion tasks": {"tasks": 10**12},
    "a time that no calendar has": {"submit_s": 1e300},
    "a deadline in no calendar": {"deadline_s": 1e300},
    "less than nothing": {"cpus_per_task": -5},
    "no JSON": None,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_no_job_breaks_the_squeue_of_others(
    clients: dict[str, Elsewhere],
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    number = numbers.take(clients["bob"], 1, 1)
    body = manifest.job(number, asked("bob"), site.Site(), {}, [])
    text = msgspec.to_builtins(asked("bob")) | (HOSTILE[what] or {})
    body["metadata"]["annotations"][ASK] = "{" if HOSTILE[what] is None else msgspec.json.encode(text).decode()
    clients["bob"].create("/apis/batch/v1/namespaces/{namespace}/jobs", body)
    mine = submit(clients["ada"], asked("ada"))
    for reader in ("ada", "root"):
        monkeypatch.setattr(ApiClient, "open", lambda reader=reader: clients[reader])
        assert squeue.run(["-h", "-o", "%A|%e|%S|%C|%N|%V"]) == 0
        assert f"{mine}|" in capsys.readouterr().out


def test_no_name_steers_the_terminal_of_a_reader(
    clients: dict[str, Elsewhere], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\nroot"
    number = submit(clients["bob"], asked("bob", name=evil, comment=evil), **{"phalanx.dev/hold": f"JobHeld{evil}"})
    for reader in ("ada", "root"):
        monkeypatch.setattr(ApiClient, "open", lambda reader=reader: clients[reader])
        squeue.run(["-h", "-o", "%A|%j|%k|%r"])
        [line] = [line for line in capsys.readouterr().out.split("\n") if line.startswith(f"{number}|")]
        assert line.isprintable(), reader
        assert "owned" in line


def test_cancelling_is_for_owners_operators_and_root(
    clients: dict[str, Elsewhere], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`scancel -u u1` of root and of operators reaches the namespaces of users; a user is told that he may not."""
    number = submit(clients["ada"], asked("ada", name="cancelled"))
    monkeypatch.setattr(scancel, "is_user", lambda name: True)
    monkeypatch.setattr("os.getuid", lambda: UIDS["bob"])
    monkeypatch.setattr(ApiClient, "open", lambda: clients["bob"])
    monkeypatch.setattr("pwd.getpwuid", lambda uid: type("Entry", (), {"pw_name": "bob"}))
    assert scancel.run([str(number)]) != 0
    assert "Access/permission denied" in capsys.readouterr().err
    # A command that asks nobody gets no further.
    with pytest.raises(RequestRefused, match="cannot delete"):
        clients["bob"].delete(f"/apis/batch/v1/namespaces/user-ada/jobs/slurm-{number}")
    for who, uid in (("oper", UIDS["oper"]), ("root", 0)):
        if who == "root":
            number = submit(clients["ada"], asked("ada", name="cancelled"))
        monkeypatch.setattr("os.getuid", lambda uid=uid: uid)
        monkeypatch.setattr(ApiClient, "open", lambda who=who: clients[who])
        monkeypatch.setattr("pwd.getpwuid", lambda uid, who=who: type("Entry", (), {"pw_name": who}))
        assert scancel.run(["-u", "ada", "-n", "cancelled"]) == 0, who
        assert number not in [job.number for job in jobs(clients["ada"])]


def test_a_path_that_is_not_granted_is_refused(clients: dict[str, Elsewhere]) -> None:
    stranger = InProcess(clients["root"]._server.api, "no such token")
    for path in ("/slurm/v1/jobs", "/slurm/v1/pods", "/slurm/v1/numbers"):
        assert clients["root"]._runner.run(stranger.ask("GET", path)).code == 401
    for method, path, code in (
        ("POST", "/slurm/v1/jobs", 405), ("GET", "/slurm/v1/numbers", 405), ("GET", "/slurm/v1/other", 404),
        ("GET", "/slurm/v1/jobs?labelSelector=%21%21", 400),
    ):  # fmt: skip
        answer = clients["ada"]._runner.run(clients["ada"]._server.ask(method, path))
        assert answer.code == code, path


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_a_job_bears_only_a_number_that_its_user_has_drawn(clients: dict[str, Elsewhere]) -> None:
    number = numbers.take(clients["ada"], 1, 1)
    for attempt in (number, number + 50, 0, 99999999999):
        with pytest.raises(RequestRefused, match="has not drawn the job number"):
            submit(clients["bob"], asked("bob"), attempt)
    submit(clients["ada"], asked("ada"), number)
    mine = submit(clients["bob"], asked("bob"))
    with pytest.raises(RequestRefused, match="cannot be changed"):
        clients["bob"].patch(
            f"/apis/batch/v1/namespaces/user-bob/jobs/slurm-{mine}", {"metadata": {"labels": {NUMBER: str(number)}}}
        )


def test_no_controller_gives_a_number(clients: dict[str, Elsewhere]) -> None:
    """The template of a CronJob may bear any label."""
    body = manifest.job(numbers.take(clients["ada"], 1, 1), asked("ada"), site.Site(), {}, [])
    with pytest.raises(RequestRefused, match="has not drawn"):
        clients["control"].create("/apis/batch/v1/namespaces/user-bob/jobs", body)


def test_few_draws_write_the_next_number(clients: dict[str, Elsewhere]) -> None:
    path = f"/api/v1/namespaces/kube-system/configmaps/{numbers.NAME}"
    first = numbers.take(clients["ada"], 1, 1)
    drawn, written = [first], {clients["root"].get(path)["data"]["next"]}
    for _ in range(3 * AHEAD):
        drawn.append(numbers.take(clients["ada"], 1, 1))
        written.add(clients["root"].get(path)["data"]["next"])
        assert drawn[-1] < int(max(written, key=int))  # also a server that starts now draws no number twice
    assert drawn == list(range(first, first + len(drawn)))
    assert len(written) <= 5
    clients["root"].patch(path, {"data": {"next": str(drawn[-1] + 100)}})
    assert numbers.take(clients["ada"], 1, 1) == drawn[-1] + 100


def test_users_cannot_write_the_next_number(clients: dict[str, Elsewhere]) -> None:
    path = f"{site.PATH}/{numbers.NAME}"
    held = clients["bob"].get(path)
    held["data"]["next"] = str(int(held["data"]["next"]) + 1)
    with pytest.raises(RequestRefused, match="cannot update"):
        clients["bob"].replace(path, held)


def test_one_user_cannot_use_up_the_numbers(clients: dict[str, Elsewhere]) -> None:
    with pytest.raises(RequestRefused, match="1 to 1001"):
        clients["bob"].call("POST", "/slurm/v1/numbers", count="100000")
    before = numbers.take(clients["ada"], 1, 1)

    def draw_all() -> None:
        for _ in range(MOST_UNUSED):
            clients["bob"].call("POST", "/slurm/v1/numbers", count="1001")

    with pytest.raises(RequestRefused, match="that no Job has") as refused:
        draw_all()
    assert refused.value.code == 429
    assert numbers.take(clients["ada"], 1, 1) - before <= MOST_UNUSED + 1
    assert LAST > 600 * MOST_UNUSED


def test_numbers_begin_again_after_the_last_past_those_in_use(clients: dict[str, Elsewhere]) -> None:
    root, path = clients["root"], f"{site.PATH}/{numbers.NAME}"
    before = root.get(path)["data"]["next"]
    used = {job.number for job in jobs(root)}
    try:
        root.patch(path, {"data": {"next": str(LAST - 1)}})
        first = numbers.take(clients["ada"], 5, 1)
        assert first + 4 < int(before) + 5
        assert not used & set(range(first, first + 5))
        submit(clients["ada"], asked("ada"), first)
    finally:
        root.patch(path, {"data": {"next": before}})
