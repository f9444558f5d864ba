"""`phalanx up --shared` as two of the machine's users try it, under numeric uids. Needs root."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.commands.one_machine.login import login
from phalanx.cli.local.local_cluster import LocalMachines
from phalanx.errors import PhalanxError
from phalanx.slurm.main import install as install_commands
from tests.cli.upstart import Up, phalanx, started, until
from tests.kubectl import KUBECTL

ADA, BOB = 51234, 51235
PHASE = "-o=jsonpath={.status.phase}"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="a machine can be shared by root alone")


def _login_as(uid: int, socket: Path, output: Path) -> None:
    """In a process of its own: what follows is done with that user's rights."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    login(login_socket=socket, output=output)


class Shared:
    def __init__(self, up: Up, folder: Path) -> None:
        self.up, self.folder = up, folder

    def login(self, uid: int) -> Path:
        """The kubeconfig that the user got."""
        home = self.folder / str(uid)
        home.mkdir(exist_ok=True)
        os.chown(home, uid, uid)
        process = multiprocessing.get_context("fork").Process(
            target=_login_as, args=(uid, self.folder / "login.sock", home / "kubeconfig")
        )
        process.start()
        process.join(120)
        assert process.exitcode == 0
        assert (home / "kubeconfig").stat().st_uid == uid
        assert (home / "kubeconfig").stat().st_mode & 0o777 == 0o600
        return home / "kubeconfig"

    def call(self, uid: int, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command with the user's kubeconfig, whose rights the API server enforces. Jobs run in the directory of
        their submission, so it must be open to all users and not private to pods, as /tmp is."""
        around = {**os.environ, "KUBECONFIG": str(self.folder / str(uid) / "kubeconfig")}
        return subprocess.run(words, env=around, cwd="/", capture_output=True, text=True, timeout=120, check=False)

    def phalanx(self, uid: int, *words: str) -> subprocess.CompletedProcess[str]:
        with contextlib.chdir("/"):
            return phalanx(*words, KUBECONFIG=str(self.folder / str(uid) / "kubeconfig"))


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    with tempfile.TemporaryDirectory(prefix="phalanx-shared-") as name:  # open to other users, unlike pytest's folders
        folder = Path(name)
        folder.chmod(0o755)
        words = ("--shared", "--login-socket", str(folder / "login.sock"), "--local-cpu", "4", "--local-open-network")
        with started(folder / "data", *words) as up:
            until(lambda: (folder / "login.sock").exists())
            found = Shared(up, folder)
            found.login(ADA)
            found.login(BOB)
            yield found
            up.stop()


@as_root
@pytest.mark.slow
def test_what_a_user_starts_runs_as_that_user(shared: Shared) -> None:
    done = shared.phalanx(ADA, "run", "--", "sh", "-c", "id -u; ls -A /tmp; ls /proc/1/root")
    assert done.stdout.splitlines() == [str(ADA), "ls: cannot access '/proc/1/root': Permission denied"], done


@as_root
@pytest.mark.slow
def test_a_user_sees_queues_and_his_own_and_nothing_of_another(shared: Shared) -> None:
    assert shared.phalanx(ADA, "submit", "--name", "hers", "--", "sleep", "1000").returncode == 0
    assert "hers" in shared.call(ADA, KUBECTL, "get", "jobs").stdout
    assert "default" in shared.call(BOB, KUBECTL, "get", "queues").stdout
    for words in (
        ("get", "jobs", "-n", f"user-uid-{ADA}"),
        ("get", "pods", "-A"),
        ("get", "secrets", "-A"),
        ("logs", "job/hers", "-n", f"user-uid-{ADA}"),
        ("delete", "job", "hers", "-n", f"user-uid-{ADA}"),
        ("annotate", "namespace", f"user-uid-{BOB}", "phalanx.dev/uid=0", "--overwrite"),
        ("create", "job", "x", "--image=host", "-n", "default"),
        ("create", "clusterrolebinding", "x", "--clusterrole=cluster-admin", f"--user=uid-{BOB}"),
        ("get", "pods", "--as", "admin"),
    ):
        done = shared.call(BOB, KUBECTL, *words)
        assert "orbidden" in done.stderr, (words, done)
    assert shared.call(ADA, KUBECTL, "delete", "job", "hers").returncode == 0


@as_root
@pytest.mark.slow
def test_a_user_is_shown_his_own_jobs_with_the_reasons_that_the_scheduler_wrote(shared: Shared) -> None:
    for name, cpu in (("runs", "1"), ("huge", "99")):
        assert shared.phalanx(ADA, "submit", "--name", name, "--cpu", cpu, "--", "sleep", "1000").returncode == 0
    until(lambda: "running" in shared.phalanx(ADA, "jobs").stdout)
    until(lambda: "99 cpu" in shared.phalanx(ADA, "jobs").stdout)
    assert "99 cpu" in shared.phalanx(ADA, "explain", "huge").stdout
    assert shared.phalanx(BOB, "jobs", "--finished").stdout.count("huge") == 0
    refused = shared.phalanx(BOB, "jobs", "-n", f"user-uid-{ADA}")
    assert f"you may not list the jobs of namespace user-uid-{ADA}" in refused.stderr
    assert "this needs the right to list the jobs of all namespaces" in shared.phalanx(ADA, "jobs", "-A").stderr
    assert shared.call(ADA, KUBECTL, "delete", "job", "runs", "huge").returncode == 0


def _get(shared: Shared, uid: int, path: str) -> Any:
    done = shared.call(uid, KUBECTL, "get", "--raw", f"/apis/visibility.phalanx.dev/v1/{path}")
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


@as_root
@pytest.mark.slow
def test_every_user_is_told_the_numbers_of_his_jobs_and_queues_and_no_names_of_others(shared: Shared) -> None:
    full = ("submit", "--cpu", "3", "--time-limit", "1h", "--name")
    assert shared.phalanx(ADA, *full, "secret-one", "--", "sleep", "1000").returncode == 0
    until(lambda: "running" in shared.phalanx(ADA, "jobs").stdout)
    assert shared.phalanx(ADA, *full, "secret-two", "--", "sleep", "1000").returncode == 0
    assert shared.phalanx(BOB, *full, "mine", "--", "sleep", "1000").returncode == 0
    own = f"namespaces/user-uid-{BOB}/jobs/mine/reason"
    until(lambda: "reason" in (found := _get(shared, BOB, own)) and isinstance(found, dict) and found["waiting"] == 2)
    found = _get(shared, BOB, own)
    assert (found["position"], found["ahead"]["jobs"], found["ahead"]["amounts"]["cpu"]) == (2, 1, "3")
    assert found["reason"]["code"] == "NoRoom"
    assert found["own"]["waiting"]["jobs"] == 1
    assert "secret" not in json.dumps(found)
    assert str(ADA) not in json.dumps(found)
    page = shared.phalanx(BOB, "explain", "mine").stdout
    assert "2 of 2 waiting jobs in queue default\n  ahead: 1 job, 1 pod (3 cpu" in page
    until(lambda: "expected start" in shared.phalanx(BOB, "explain", "mine").stdout)
    queues = shared.phalanx(BOB, "queues")
    assert "default   1         2" in queues.stdout, queues
    assert "secret" not in json.dumps(_get(shared, BOB, "queues/-/summary"))
    for path in (f"namespaces/user-uid-{ADA}/jobs/-/reason", "namespaces/-/jobs/-/row", "queues/-/row"):
        assert "cannot get resource" in _get(shared, BOB, path)
    assert "cannot get resource" in _get(shared, BOB, f"namespaces/user-uid-{BOB}/jobs/mine/page")
    assert shared.call(ADA, KUBECTL, "delete", "job", "secret-one", "secret-two").returncode == 0
    assert shared.call(BOB, KUBECTL, "delete", "job", "mine").returncode == 0


@as_root
@pytest.mark.slow
def test_the_data_directory_and_other_kubeconfigs_are_nobodys_to_read(shared: Shared) -> None:
    secret = shared.folder / "data" / "tokens.csv"
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/mnt"}]}
    box = {"name": "main", "image": "host", "command": ["sh", "-c", "cat /mnt/tokens.csv /mnt/kubeconfig"], **mount}
    for number, place in enumerate((secret.parent, shared.folder / str(ADA))):
        volumes = [{"name": "v", "hostPath": {"path": str(place)}}]
        spec = {"restartPolicy": "Never", "schedulerName": "phalanx", "containers": [box], "volumes": volumes}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"peek-{number}"}, "spec": spec}
        file = shared.folder / "pod.json"
        file.write_text(json.dumps(pod))
        shared.call(BOB, KUBECTL, "create", "-f", str(file))
        ask = (KUBECTL, "get", "pod", f"peek-{number}", PHASE)
        until(lambda ask=ask: shared.call(BOB, *ask).stdout == "Failed")
        log = shared.call(BOB, KUBECTL, "logs", f"peek-{number}")
        assert "Permission denied" in log.stdout, log
        assert "admin" not in log.stdout, log


def test_who_is_not_root_is_told_so_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PhalanxError, match="--shared needs root"):
        LocalMachines(shared=True)


def test_who_is_not_let_in_is_told_why(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match=r"no server lets users log in at .*phalanx up --shared"):
        login(login_socket=tmp_path / "none.sock", output=tmp_path / "kubeconfig")
    assert not (tmp_path / "kubeconfig").exists()


@as_root
@pytest.mark.slow
def test_what_is_not_set_apart_is_said_at_the_start(shared: Shared) -> None:
    assert "not enforced: pods share the machine's network" in shared.up.text


@as_root
@pytest.mark.slow
def test_a_user_does_not_go_past_the_queue_by_naming_a_node(shared: Shared) -> None:
    """A user cannot bypass the queues by a pod, by a controller that creates pods, or by a binding; an administrator
    can."""
    node = shared.up.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    past = json.dumps({"spec": {"nodeName": node}})
    words = ("run", "past", "--image=host", "--restart=Never", "--overrides", past, "--", "true")
    done = shared.call(ADA, KUBECTL, *words)
    assert "spec.nodeName bypasses the queues" in done.stderr, done
    template = {"nodeName": node, "restartPolicy": "Never", "containers": [{"name": "c", "image": "host"}]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "past"},
        "spec": {"template": {"spec": template}},
    }
    (shared.folder / "past.json").write_text(json.dumps(job))
    assert shared.call(ADA, KUBECTL, "create", "-f", str(shared.folder / "past.json")).returncode == 0
    until(lambda: "bypasses the queues" in shared.call(ADA, KUBECTL, "describe", "job", "past").stdout)
    assert shared.call(ADA, KUBECTL, "get", "pods", "-o", "name").stdout.count("past") == 0
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": node},
    }
    (shared.folder / "binding.json").write_text(json.dumps(binding))
    path = f"/api/v1/namespaces/user-uid-{ADA}/pods/p/binding"
    done = shared.call(ADA, KUBECTL, "create", "--raw", path, "-f", str(shared.folder / "binding.json"))
    assert 'cannot create resource "pods/binding"' in done.stderr, done
    shared.up.kubectl(*words)
    shared.up.kubectl("delete", "pod", "past")
    assert shared.call(ADA, KUBECTL, "delete", "job", "past").returncode == 0


def drawn(shared: Shared, uid: int) -> str:
    """A job number that the server draws for the user."""
    (shared.folder / "empty.json").write_text("{}")
    done = shared.call(uid, KUBECTL, "create", "--raw", "/slurm/v1/numbers", "-f", str(shared.folder / "empty.json"))
    return str(json.loads(done.stdout)["first"])


def _nobody_writes_the_next_number(shared: Shared, as_admin: Callable[..., str]) -> None:
    number = ("-n", "kube-system", "configmap", "phalanx-slurm-number")
    now = int(as_admin(KUBECTL, "get", *number, "-o=jsonpath={.data.next}"))
    held = as_admin(KUBECTL, "get", *number, "-o", "json")
    for text in (now + 7, 1, now + 10_000_000):
        body = json.loads(held)
        body["data"]["next"] = str(text)
        body["metadata"].pop("resourceVersion")
        (shared.folder / "number.json").write_text(json.dumps(body))
        done = shared.call(ADA, KUBECTL, "replace", "-f", str(shared.folder / "number.json"))
        assert "orbidden" in done.stderr, (text, done)


def coordinate(
    shared: Shared, sacctmgr: Callable[..., str], site: tuple[str, ...], submitted: Callable[[], str]
) -> None:
    """A coordinator can add a user to the account, and that user can submit. The coordinator can change nothing else,
    and nothing after losing the role."""
    ada, bob = f"uid-{ADA}", f"uid-{BOB}"
    members = (*site[:-1], f'{{"data":{{"members.chem":"{bob},{ada}"}}}}')
    assert "orbidden" in shared.call(BOB, KUBECTL, *members).stderr
    sacctmgr("add", "coordinator", "account=chem", f"names={bob}")
    until(lambda: shared.call(BOB, KUBECTL, *members).returncode == 0)
    assert submitted() == "created"
    assert "may change only accounts" in shared.call(BOB, KUBECTL, *site).stderr
    assert "orbidden" in shared.call(ADA, KUBECTL, *members).stderr
    sacctmgr("delete", "coordinator", "account=chem", f"names={bob}")
    until(lambda: "orbidden" in shared.call(BOB, KUBECTL, *members).stderr)


@as_root
@pytest.mark.slow
def test_slurms_users_submit_as_themselves_into_their_accounts_and_only_administrators_change_the_site(
    shared: Shared,
) -> None:
    commands = shared.folder / "bin"
    install_commands(commands)

    def as_admin(*words: str) -> str:
        around = {**os.environ, "KUBECONFIG": str(shared.folder / "data" / "kubeconfig")}
        done = subprocess.run(words, env=around, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done
        return done.stdout

    def submitted(uid: int, group: str, queue: str) -> str:
        job = {
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"generateName": "slurm-", "labels": {
                "phalanx.dev/queue": queue, "phalanx.dev/group": group,
                "slurm.phalanx.dev/number": drawn(shared, uid)}},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "c", "image": "host", "command": ["true"]}]}}},
        }  # fmt: skip
        file = shared.folder / "job.json"
        file.write_text(json.dumps(job))
        done = shared.call(uid, KUBECTL, "create", "-f", str(file))
        return done.stderr if done.returncode else "created"

    ada, bob = f"uid-{ADA}", f"uid-{BOB}"
    for line in ("add account lab", "add account chem", f"add user {ada} account=lab", f"add user {bob} account=chem"):
        as_admin(str(commands / "sacctmgr"), "-i", *line.split())
    until(lambda: submitted(ADA, ada, "lab") == "created")
    until(lambda: "Invalid account" in submitted(ADA, ada, "chem"))
    assert "names another user" in submitted(ADA, bob, "lab")
    site = ("patch", "configmap", "phalanx-slurm", "-n", "kube-system", "-p", '{"data":{"x":"y"}}')
    assert "orbidden" in shared.call(ADA, KUBECTL, *site).stderr
    assert "orbidden" in shared.call(ADA, KUBECTL, "delete", "queue", "chem").stderr
    _nobody_writes_the_next_number(shared, as_admin)
    coordinate(shared, partial(as_admin, str(commands / "sacctmgr"), "-i"), site, partial(submitted, ADA, ada, "chem"))
    # An operator changes the site, as long as he is one; nodes are an administrator's.
    as_admin(str(commands / "sacctmgr"), "-i", "modify", "user", bob, "set", "adminlevel=operator")
    until(lambda: shared.call(BOB, KUBECTL, *site).returncode == 0)
    node = as_admin(KUBECTL, "get", "nodes", "-o=jsonpath={.items[0].metadata.name}")
    drain = ("patch", "node", node, "-p", '{"metadata":{"annotations":{"a":"b"}}}')
    assert "orbidden" in shared.call(BOB, KUBECTL, *drain).stderr
    as_admin(str(commands / "sacctmgr"), "-i", "modify", "user", bob, "set", "adminlevel=admin")
    until(lambda: shared.call(BOB, KUBECTL, *drain).returncode == 0)
    as_admin(str(commands / "sacctmgr"), "-i", "modify", "user", bob, "set", "adminlevel=none")
    until(lambda: "orbidden" in shared.call(BOB, KUBECTL, *site).stderr)


@as_root
@pytest.mark.slow
def test_slurms_commands_work_in_a_users_own_namespace(shared: Shared) -> None:
    commands = shared.folder / "bin"
    install_commands(commands)
    assert shared.call(ADA, str(commands / "squeue"), "-h").returncode == 0
    assert shared.call(ADA, str(commands / "sinfo"), "-h", "-o", "%P").stdout == "batch*\n"
