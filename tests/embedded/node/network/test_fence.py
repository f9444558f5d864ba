"""Allowed and blocked connections on a shared machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from phalanx.embedded.node.network.fence import Fenced, NetworkFence, rules
from phalanx.errors import PhalanxError

ADA, BOB, CAROL = 51234, 51235, 51236  # Carol has no pod
SERVICES = "127.96.0.0/16"
PODS = (Fenced(user=ADA, address="127.64.0.1"), Fenced(user=BOB, address="127.64.0.2"), Fenced(user=ADA))


def test_the_rules_name_users_and_the_addresses_of_their_pods() -> None:
    text = rules(PODS, SERVICES)
    assert "set fenced { type uid; elements = { 51234, 51235 }; }" in text
    assert "map callers { type uid : mark; elements = { 51234 : 0x8000c822, 51235 : 0x8000c823 }; }" in text
    assert "set own { type uid . mark; elements = { 51234 . 0x8000c822, 51235 . 0x8000c823 }; }" in text
    assert (
        "map pods { type ipv4_addr : mark; elements = { 127.64.0.1 : 0x8000c822, 127.64.0.2 : 0x8000c823 }; }" in text
    )
    assert "set homes { type ipv4_addr . uid; elements = { 127.64.0.1 . 51234, 127.64.0.2 . 51235 }; }" in text
    assert text == rules(reversed(PODS), SERVICES)


def test_without_pods_nobody_is_fenced() -> None:
    assert "set fenced { type uid; }" in rules((), SERVICES)


def test_root_is_never_fenced_for_the_api_server_is_his() -> None:
    assert rules([*PODS, Fenced(user=0, address="127.64.0.3")], SERVICES) == rules(PODS, SERVICES)


# Each line of output: the client, and whether it got an answer from Ada, Carol and root, who listen at all addresses;
# then from Carol at the addresses of Ada's pod and of a service, and from root at the latter.
SCRIPT = """
import fcntl, os, socket, struct, sys
ADA, BOB, CAROL = map(int, sys.argv[1:])
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS: the loopback device is up
def forked(user, work):
    told, tell = os.pipe()
    if os.fork() == 0:
        os.setgid(user); os.setuid(user)
        work(tell)
        os._exit(0)
    os.close(tell)
    return os.fdopen(told)
def asked(user, address, port, wait_s):
    def ask(tell):
        asking = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        asking.settimeout(wait_s)
        try:
            asking.connect((address, port))
            os.write(tell, asking.recv(2))
        except TimeoutError:
            os.write(tell, b"no")
    return forked(user, ask)
def listening(user, family, everywhere):
    def serve(tell):
        server = socket.socket(family)
        server.bind((everywhere, 0)); server.listen(99)
        os.write(tell, b"%d\\n" % server.getsockname()[1])
        while True:
            server.accept()[0].sendall(b"hi")
    return int(forked(user, serve).readline())
taken = listening(CAROL, socket.AF_INET, "127.96.0.9")
service = listening(0, socket.AF_INET, "127.96.0.9")
hers, six = listening(ADA, socket.AF_INET, "0.0.0.0"), listening(ADA, socket.AF_INET6, "::1")
others = [("127.0.0.1", listening(user, socket.AF_INET, "0.0.0.0")) for user in (CAROL, 0)]
where = [("127.0.0.1", hers), ("127.64.0.1", hers), ("127.64.0.2", hers), ("::1", six), *others]
where += [("127.64.0.1", others[0][1]), ("127.96.0.9", taken), ("127.96.0.9", service)]
def may(user, address, port):
    if address[:7] in ("127.64.", "127.96."):  # a pod's, answered by its user alone, or a service's, by root
        return port == service or (port == hers and address == "127.64.0.1" and user in (ADA, 0))
    return user == ADA or (address, port) in others
calls = {user: [asked(user, *one, 100 if may(user, *one) else 0.3) for one in where] for user in (ADA, BOB, CAROL, 0)}
for user, answers in calls.items():
    print(user, *(answer.read() for answer in answers), flush=True)
"""


@cache
def refusal() -> str:
    """Why the rules cannot be tried here, in a network of their own."""
    if os.geteuid() != 0 or shutil.which("nft") is None or shutil.which("unshare") is None:
        return "rules of the kernel are loaded by root, by nft(8) (Debian: nftables), in a network of unshare(1)"
    words = ("unshare", "--net", "nft", "-f", "-")
    done = subprocess.run(words, input=rules(PODS, SERVICES), capture_output=True, text=True, check=False, timeout=120)
    return f"this kernel does not take the rules: {done.stderr}" if done.returncode else ""


def test_nobody_else_gets_an_answer_from_what_a_user_with_pods_listens_on() -> None:
    if why := refusal():
        pytest.skip(why)
    users = map(str, (ADA, BOB, CAROL))
    own_network = ("unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", 'nft -f - && exec "$@"', "sh")
    words = (*own_network, sys.executable, "-c", SCRIPT, *users)
    text = rules(PODS, SERVICES)
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout.splitlines() == [
        f"{ADA} hi hi no hi hi hi no no hi",
        f"{BOB} no no no no hi hi no no hi",
        f"{CAROL} no no no no hi hi no no hi",
        "0 no hi no no hi hi no no hi",  # root, to the pod's own address: what passes a Service's connections on
    ], done.stderr


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where an nft(8) of our own keeps what it was given last. It refuses while `refused` lies beside it."""
    program = tmp_path / "nft"
    program.write_text(f"""#!/bin/sh
[ ! -e {tmp_path}/refused ] || {{ echo no >&2; exit 1; }}
[ $2 != list ] || {{ readlink /proc/$$/fd/0 > {tmp_path}/input; exec [ -e {tmp_path}/rules ]; }}
cat > {tmp_path}/rules
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "rules"


def test_a_pod_does_not_start_before_its_rules_are_in_force(loaded: Path) -> None:
    fence, refused = NetworkFence(SERVICES), loaded.with_name("refused")
    fence.note("old", PODS[0])  # of an agent before this one
    asyncio.run(fence.admit("new", PODS[1]))
    assert loaded.read_text() == rules(PODS[:2], SERVICES)
    refused.touch()
    with pytest.raises(PhalanxError, match="the kernel refuses the network rules: no"):
        asyncio.run(fence.admit("third", Fenced(user=CAROL)))
    refused.unlink()
    asyncio.run(fence.admit("third", Fenced(user=CAROL)))
    refused.touch()
    with pytest.raises(PhalanxError):  # of a second container, while the first one runs
        asyncio.run(fence.admit("third", Fenced(user=CAROL, address="127.64.0.3")))
    refused.unlink()
    fence.forget("old")
    asyncio.run(fence.admit("fourth", PODS[2]))
    assert loaded.read_text() == rules([*PODS[1:], Fenced(user=CAROL, address="127.64.0.3")], SERVICES)
    fence.close()


def test_where_there_is_no_nft_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        fence = NetworkFence(SERVICES, claim=tmp_path / "lock")  # the machine that runs the tests may be a shared one
        await fence.try_out()
        assert "install nftables" in fence.refusal
        fence.close()

    monkeypatch.setenv("PATH", str(tmp_path))
    asyncio.run(test())


def test_one_agent_writes_the_rules_and_no_user_can_claim_them(tmp_path: Path, loaded: Path) -> None:
    async def test() -> None:
        first, second = NetworkFence(SERVICES, claim=tmp_path / "lock"), NetworkFence(SERVICES, claim=tmp_path / "lock")
        await first.try_out()
        await second.try_out()
        assert (first.refusal, "another" in second.refusal) == ("", True)
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
        first.close()
        second.close()
        third = NetworkFence(SERVICES, claim=tmp_path / "lock")
        await third.try_out()
        assert third.refusal == ""
        third.close()

    asyncio.run(test())
    assert loaded.exists()


def test_rules_that_something_else_took_away_are_loaded_again(loaded: Path, caplog: pytest.LogCaptureFixture) -> None:
    fence = NetworkFence(SERVICES)
    asyncio.run(fence.restore())
    assert not loaded.exists()  # there were none
    asyncio.run(fence.admit("one", PODS[0]))
    asyncio.run(fence.restore())
    assert caplog.messages == []
    assert loaded.with_name("input").read_text() == "/dev/null\n"  # it may be over before anything is written to it
    loaded.unlink()
    asyncio.run(fence.restore())
    assert loaded.read_text() == rules(PODS[:1], SERVICES)
    assert "are loaded again" in caplog.text


def test_rules_of_an_earlier_agent_stay_but_for_their_being_taken_away(loaded: Path) -> None:
    loaded.write_text("of the earlier agent")
    fence = NetworkFence(SERVICES)
    fence.note("one", PODS[0])
    asyncio.run(fence.restore())
    assert loaded.read_text() == "of the earlier agent"
    loaded.unlink()
    asyncio.run(fence.restore())
    assert loaded.read_text() == rules(PODS[:1], SERVICES)
    fence.note("two", PODS[1])  # found a moment later
    asyncio.run(fence.restore())
    assert loaded.read_text() == rules(PODS[:2], SERVICES)
