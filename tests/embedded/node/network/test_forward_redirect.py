"""All services use one socket, so that no service occupies a port of the machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from phalanx.embedded.node.network import forward
from phalanx.embedded.node.network.forward import Forwarder, Redirect
from phalanx.errors import PhalanxError

SERVICES = "127.96.0.0/16"
# This script runs in a network namespace of its own. A service has the port on which its pod listens at all addresses.
SCRIPT = """
import asyncio, fcntl, socket, struct, subprocess
from phalanx.embedded.node.network.forward import Forwarder
from phalanx.embedded.node.network.forward import Redirect
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS: the loopback device is up

async def answer(reader, writer):
    writer.write(await reader.readline())
    writer.close()

async def asked(address, port):
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(b"hello\\n")
    try:
        return await reader.read()
    except ConnectionResetError:
        return b"reset"

async def main():
    redirect = Redirect("127.96.0.0/16")
    forwarder = Forwarder(redirect)
    await forwarder.show({("127.96.0.5", 8080): (("127.64.0.1", 8080),), ("127.96.0.6", 80): (("127.64.0.1", 8080),)})
    await asyncio.start_server(answer, "0.0.0.0", 8080)
    print(await asked("127.96.0.5", 8080), await asked("127.96.0.6", 80), await asked("127.96.0.6", 8080))
    door = forwarder._door.sockets[0].getsockname()
    print(await asked(*door))
    subprocess.run(["nft", "flush", "ruleset"], check=True)
    await redirect.restore()
    await forwarder.show({("127.96.0.7", 22): (("127.64.0.1", 8080),)})
    print(await asked("127.96.0.7", 22), await asked("127.96.0.5", 8080))
    forwarder.close()

asyncio.run(main())
"""


def refusal() -> str:
    """Return why the kernel of this machine cannot translate addresses; empty: it can."""
    if os.geteuid() != 0 or shutil.which("nft") is None or shutil.which("unshare") is None:
        return "rules of the kernel are loaded by root, by nft(8) (Debian: nftables), in a network of unshare(1)"
    words = ("unshare", "--net", "nft", "add table inet x; add chain inet x y { type nat hook output priority -100; }")
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120).stderr


def test_a_service_and_its_pod_have_the_same_port() -> None:
    if why := refusal():
        pytest.skip(why)
    words = ("unshare", "--net", sys.executable, "-c", SCRIPT)
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    assert done.stdout.splitlines() == [
        r"b'hello\n' b'hello\n' b'reset'",
        "b'reset'",
        r"b'hello\n' b'reset'",
    ], done.stderr


def test_where_the_kernel_cannot_be_told_each_service_has_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise PhalanxError("nft(8) cannot be run")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def test() -> bytes:
        pod = await asyncio.start_server(answer, "127.0.0.1", 0)
        free = await asyncio.start_server(answer, "127.96.0.5", 0)
        place = free.sockets[0].getsockname()
        free.close()
        forwarder = Forwarder(Redirect(SERVICES))
        await forwarder.show({place: (pod.sockets[0].getsockname(),)})
        reader, writer = await asyncio.open_connection(*place)
        writer.write(b"hello\n")
        said = await reader.read()
        writer.close()
        forwarder.close()
        pod.close()
        return said

    monkeypatch.setattr(forward, "load", refuse)
    assert asyncio.run(test()) == b"hello\n"
