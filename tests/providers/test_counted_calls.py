"""Programs and web servers as providers: their documents, their errors, and the removal of empty nodes alone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.kind import NODES, PODS
from phalanx.embedded.apiserver.auth.authority import ensure
from phalanx.errors import PhalanxError
from phalanx.providers.counted import calls
from phalanx.providers.counted.called import Program, Webhook, read_token, wrong_url
from phalanx.providers.counted.calls import CountedProvider, Documents
from phalanx.providers.provider import BINDINGS_S, REMOVING, EmptyNodes, ProviderError, Requested, Status
from tests.kube.double import Api, Client, node, pod

EXAMPLES = Path(__file__).parents[2] / "examples" / "autoscaling"


class Listed:
    """A provider that lists these nodes, and refuses those."""

    name = "the test"

    def __init__(self, *nodes: dict[str, str], **refused: str) -> None:
        self.nodes, self.refused = list(nodes), refused
        self.calls: list[dict[str, Any]] = []
        self.lost = 0  # answers that are lost

    async def call(self, call: str, group: str, body: bytes) -> bytes:
        said = json.loads(body)
        assert (said["apiVersion"], said["call"], said["group"], group) == ("phalanx.dev/v1", call, "g", "g")
        if call == "status":
            return json.dumps({"nodes": self.nodes}).encode()
        self.calls.append({key: said[key] for key in ("count", "add", "remove", "providerIDs")})
        if self.lost:
            self.lost -= 1
            raise ProviderError("lost")
        return json.dumps({"refused": self.refused}).encode()


def called(by: Listed) -> CountedProvider:
    return CountedProvider(Documents(by), lambda name: f"id://{name}" if name.startswith("ip-") else "")


def starting(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "state": "starting", "since": "1970-01-01T00:15:00Z"} for name in names]


# --- the two calls ---------------------------------------------------------------------------------------------------


def test_scale_has_the_number_of_nodes_and_their_names() -> None:
    by = Listed(
        {"name": "g-1", "state": "running", "node": "ip-1"}, {"name": "g-2", "state": "failed"}, **{"g-4": "no"}
    )
    refused = asyncio.run(called(by).scale("g", ["g-3", "g-4"], ["ip-1", "ip-9"]))
    ids = {"g-1": "id://ip-1", "ip-9": "id://ip-9"}
    assert by.calls == [{"count": 2, "add": ["g-3", "g-4"], "remove": ["g-1", "ip-9"], "providerIDs": ids}]
    assert refused == {"g-4": "no"}


def test_a_repeated_call_has_the_same_number_of_nodes() -> None:
    async def scene() -> None:
        by = Listed({"name": "own-1", "state": "running"})
        provider, by.lost = called(by), 1
        with pytest.raises(ProviderError):
            await provider.scale("g", ["g-1", "g-2"], ())
        by.nodes += starting("own-2", "own-3")  # the call had arrived
        await provider.scale("g", ["g-1", "g-2"], ())
        assert [each["count"] for each in by.calls] == [3, 3]
        status = await provider.status("g")
        assert [each.name for each in status.requested] == ["g-1", "g-2"], "its nodes stand for the requested ones"
        await provider.scale("g", (), ["g-2"])
        assert by.calls[-1] == {"count": 2, "add": [], "remove": ["own-3"], "providerIDs": {}}, "what stands for g-2"

    asyncio.run(scene())


def test_nodes_that_have_arrived_take_the_names_that_were_requested_first() -> None:
    """As in the scheduler. Otherwise a request that is late would not be cancelled."""

    async def scene() -> None:
        by = Listed()
        provider = called(by)
        await provider.scale("g", ["g-1", "g-2"], ())
        by.nodes = [{"name": "own-1", "state": "running"}, *starting("own-2")]
        assert [each.name for each in (await provider.status("g")).requested] == ["g-2"]
        await provider.scale("g", (), ["g-2"])
        assert by.calls[-1] == {"count": 1, "add": [], "remove": ["own-2"], "providerIDs": {}}

    asyncio.run(scene())


def test_a_node_that_is_lost_before_it_runs_has_failed() -> None:
    """A node that was never listed may be listed later."""

    async def scene() -> None:
        by = Listed()
        provider = called(by)
        await provider.scale("g", ["g-1", "g-2", "g-3"], ())
        assert (await provider.status("g")).failed == {}
        by.nodes = starting("own-1", "own-2", "own-3")
        provider = called(by)
        await provider.scale("g", ["g-1", "g-2", "g-3"], ())
        assert len((await provider.status("g")).requested) == 3
        by.nodes = [{"name": "own-1", "state": "running"}, *starting("own-3")]
        status = await provider.status("g")
        assert [each.name for each in status.requested] == ["g-3"]
        assert status.failed == {"g-2": "the provider no longer lists it"}

    asyncio.run(scene())


def test_status_names_nodes_that_start_and_nodes_that_failed() -> None:
    async def scene() -> Status:
        by = Listed(*starting("g-1"), {"name": "g-2", "state": "failed", "message": "no\n capacity\x1b[31m"})
        return await called(by).status("g")

    found = asyncio.run(scene())
    assert (found.requested, found.failed) == ((Requested("g-1", 900.0),), {"g-2": "no capacity[31m"})


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"{", "the answer of the test cannot be read: "),
        (b'{"nodes": 1}', "Expected `array`, got `int`"),
        (b'{"nodes": [{"name": "a", "state": "asleep"}]}', "'asleep' of node 'a' is none of starting, running, failed"),
        (b'{"nodes": [{"name": "a", "state": "starting", "since": "now"}]}', "`since` of node 'a'"),
        (
            b'{"nodes": [%s]}' % b",".join([b'{"name": "a", "state": "running"}'] * 3),
            "it lists 3 nodes, and at most 2",
        ),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(answer: bytes, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Listed):
        async def call(self, call: str, group: str, body: bytes) -> bytes:
            return answer

    monkeypatch.setattr(calls, "MOST_NODES", 2)
    with pytest.raises(ProviderError) as caught:
        asyncio.run(called(Wrong()).status("g"))
    assert error in str(caught.value)


# --- programs --------------------------------------------------------------------------------------------------------


def program(folder: Path, script: str, timeout_s: float = 30.0) -> Program:
    file = folder / "program"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return Program((str(file), "a b", "$(x)"), timeout_s)


def test_a_program_gets_its_arguments_without_a_shell_and_the_document(tmp_path: Path) -> None:
    script = f'printf "%s|" "$@" > {tmp_path}/argv; cat'
    assert asyncio.run(program(tmp_path, script).call("scale", "g", b'{"x": 1}')) == b'{"x": 1}'
    assert (tmp_path / "argv").read_text() == "a b|$(x)|scale|g|"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (
            "echo 'no quota in zone b' >&2; exit 3",
            "ended with status 3: no quota in zone b; try it by hand: echo '{}' | ",
        ),
        ("kill -TERM $$", "was killed by SIGTERM: it printed no error"),
        ("head -c 3000 /dev/zero", "printed more than 0 MiB"),
        ("exec 0<&-; exit 1", "ended with status 1"),
    ],
)
def test_a_program_that_fails_is_an_error(
    tmp_path: Path, script: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.providers.counted.called.MOST_BYTES", 2000)
    with pytest.raises(ProviderError) as caught:
        asyncio.run(program(tmp_path, script).call("scale", "g", b"{}"))
    assert error in str(caught.value)


def test_a_program_that_is_late_is_stopped_with_its_children(tmp_path: Path) -> None:
    script = f"sleep 300 & echo $! > {tmp_path}/child; sleep 300"
    with pytest.raises(ProviderError, match=r"did not end within 0\.5 s and was stopped"):
        asyncio.run(program(tmp_path, script, 0.5).call("status", "g", b"{}"))
    child = int((tmp_path / "child").read_text())
    deadline_s = time.monotonic() + 60.0
    while is_alive(child):
        assert time.monotonic() < deadline_s, "its child runs on"


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ProviderError, match="the program /nowhere/x cannot be started: No such file"):
        asyncio.run(Program(("/nowhere/x",), 5.0).call("status", "g", b"{}"))


# --- web servers -----------------------------------------------------------------------------------------------------


@contextmanager
def served(folder: Path, *more: str) -> Iterator[int]:
    """The example server, with a program that repeats its input. Yields its port."""
    (folder / "token").write_text("secret\n")
    (folder / "token").chmod(0o600)
    (folder / "echo").write_text('#!/bin/sh\n[ "$2" = big ] && head -c 5000000 /dev/zero\ncat\n')
    (folder / "echo").chmod(0o755)
    argv = [sys.executable, str(EXAMPLES / "webhook-provider.py"), "--port", "0", "--token-file", str(folder / "token")]
    with subprocess.Popen(
        [*argv, *more, "--", str(folder / "echo")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline().rpartition(":")[2])
        finally:
            server.kill()


def test_a_web_server_is_called_with_tls_and_a_token(tmp_path: Path) -> None:
    ensure(tmp_path, "127.0.0.1")
    pair = ("--certificate", str(tmp_path / "server.crt"), "--key", str(tmp_path / "server.key"))
    with served(tmp_path, *pair) as port:
        url, authority, token = f"https://127.0.0.1:{port}/calls?zone=b", tmp_path / "ca.crt", tmp_path / "token"
        body = b'{"call": "scale", "group": "g"}'
        assert asyncio.run(Webhook(url, authority, token, 20.0).call("scale", "g", body)) == body
        for trusted, file, sent, error in (
            (None, token, body, "cannot be called: .*certificate verify failed"),
            (authority, None, body, "answered scale of group g with status 401: the token is wrong"),
            (authority, token, b"[]", "with status 500: "),
            (authority, token, b'{"call": "scale", "group": "big"}', "the response is larger than 4 MiB"),
        ):
            with pytest.raises(ProviderError, match=error):
                asyncio.run(Webhook(url, trusted, file, 20.0).call("scale", "g", sent))
    with pytest.raises(ProviderError, match="cannot be called"):
        asyncio.run(Webhook(url, authority, token, 20.0).call("scale", "g", body))


def test_a_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    for mode, is_good in ((0o600, True), (0o640, True), (0o644, False), (0o660, False)):
        file.chmod(mode)
        if is_good:
            assert read_token(file) == "secret"
        else:
            with pytest.raises(PhalanxError, match=f"other users may read .*: chmod 600 {file}"):
                read_token(file)
    file.chmod(0o600)
    file.write_text("two\nlines\n")
    with pytest.raises(PhalanxError, match="holds no token"):
        read_token(file)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("https://nodes.example.com/x?y=1", ""),
        ("http://localhost:8080", ""),
        ("http://[::1]:8080/x", ""),
        ("http://127.9.9.9", ""),
        ("http://nodes.example.com", "is not encrypted"),
        ("http://10.0.0.1", "is not encrypted"),
        ("https://user:word@nodes.example.com", "put a token into tokenFile"),
        ("https://nodes.example.com:port", "is no URL"),
        ("https://nodes.example.com/a b", "is no URL"),
        ("ftp://nodes.example.com", "is no URL"),
    ],
)
def test_a_url_is_encrypted_or_on_this_machine(url: str, error: str) -> None:
    assert error in wrong_url(url)
    assert bool(error) == bool(wrong_url(url))


# --- empty nodes -----------------------------------------------------------------------------------------------------


class Remover:
    """A provider that notes the nodes to remove, and keeps those of `refused`."""

    def __init__(self, **refused: str) -> None:
        self.removed: list[str] = []
        self.refused = refused

    async def scale(self, group: str, add: Any, remove: Any) -> dict[str, str]:
        self.removed += remove
        return self.refused

    async def status(self, group: str) -> Status:
        return Status()


def emptied(
    api: Api, by: Remover, names: list[str], monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]
) -> Any:
    async def sleep(seconds: float) -> None:
        assert seconds == BINDINGS_S
        meanwhile()

    monkeypatch.setattr("phalanx.providers.provider.asyncio.sleep", sleep)
    return asyncio.run(EmptyNodes(by, Client(api)).scale("g", (), names))  # type: ignore[arg-type]  # a double


def test_an_empty_node_is_removed_and_its_node_object_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    api, by = Api(), Remover()
    for name in ("n1", "n2", "other"):
        api.put(NODES, node(name))
    daemon, done = pod("daemon", node="n1"), pod("done", node="n1")
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "uid": "1"}]
    done["status"] = {"phase": "Succeeded"}
    for each in (daemon, done, pod("elsewhere", node="other")):
        api.put(PODS, each)
    assert emptied(api, by, ["n1", "n2", "g-9"], monkeypatch, lambda: None) == {}
    assert by.removed == ["n1", "n2", "g-9"], "a requested node that has not arrived is cancelled"
    assert list(api.objects[NODES]) == ["other"]


@pytest.mark.parametrize("cordoned", [False, True])
def test_a_node_with_a_pod_is_kept(cordoned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    api, by = Api(), Remover(n2="it is repaired")
    for name in ("n1", "n2"):
        api.put(NODES, {**node(name), "spec": {"unschedulable": True} if cordoned else {}})

    def bind() -> None:
        found = api.objects[NODES]["n1"]
        assert found["spec"]["unschedulable"], "it is cordoned before its pods are listed"
        assert (found["metadata"].get("annotations") or {}).get(REMOVING) == (None if cordoned else "g")
        api.put(PODS, pod("late", node="n1"))

    kept = emptied(api, by, ["n1", "n2"], monkeypatch, bind)
    assert kept == {"n1": "the pod default/late runs on node n1", "n2": "it is repaired"}
    assert by.removed == ["n2"]
    for each in api.objects[NODES].values():
        assert bool(each["spec"].get("unschedulable")) is cordoned, "what others cordoned stays so"
        assert REMOVING not in (each["metadata"].get("annotations") or {})


def test_a_restarted_scheduler_goes_on_with_removals() -> None:
    api = Api()
    for name, group in (("n1", "g"), ("n2", "h")):
        found = node(name)
        found["metadata"]["annotations"] = {REMOVING: group}
        api.put(NODES, found)
    status = asyncio.run(EmptyNodes(Remover(), Client(api)).status("g"))  # type: ignore[arg-type]  # a double
    assert status.removing == ("n1",)


# --- the example -----------------------------------------------------------------------------------------------------


def test_the_example_program_switches_machines_on_and_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a program in place of ipmitool."""
    fake = tmp_path / "fake"
    fake.write_text(
        f"#!/bin/sh\ncd {tmp_path}\ncase $4 in on) touch $1.on;; off) rm -f $1.on;; status)\n"
        '[ -e $1.on ] && echo "Chassis Power is on" || echo "Chassis Power is off";; esac\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("POWER_PROGRAM", str(fake))
    machines = tmp_path / "machines.json"
    machines.write_text(json.dumps({"g": {"gpu-1": "10.0.0.1", "gpu-2": "10.0.0.2"}}))
    by = Program((sys.executable, "-S", str(EXAMPLES / "exec-provider.py"), str(machines)), 30.0)

    def on() -> list[str]:
        return sorted(each.name for each in tmp_path.glob("*.on"))

    async def scene() -> None:
        provider = CountedProvider(Documents(by), lambda name: "")
        assert await provider.scale("g", ["g-1"], ()) == {}
        assert await provider.scale("g", ["g-1"], ()) == {}
        assert on() == ["10.0.0.1.on"]
        assert await provider.scale("g", ["g-2", "g-3"], ()) == {"g-3": "all 2 machines are on"}
        assert await provider.scale("g", (), ["gpu-1", "g-2"]) == {}, "the name of a Node object, and of a request"
        assert on() == []
        with pytest.raises(ProviderError, match=r"machines\.json has no group h"):
            await provider.status("h")

    asyncio.run(scene())
    assert os.access(EXAMPLES / "exec-provider.py", os.X_OK)
