"""The connection between srun and a step daemon: the proof of the key, and frames."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from phalanx.slurm.jobs.steps.pods.channel import MOST_BYTES, STDOUT, Broken, Channel

KEY = "the job's key"


def joined(client_key: str = KEY) -> tuple[Channel, Channel]:
    here, there = socket.socketpair()
    with ThreadPoolExecutor(1) as threads:
        server = threads.submit(Channel, here, KEY, server=True)
        try:
            client = Channel(there, client_key, server=False)
        finally:
            daemon = server.result(30)
    return daemon, client


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    daemon, client = joined()
    yield daemon, client
    daemon.close()
    client.close()


def test_frames_arrive_whole_and_in_order(ends: tuple[Channel, Channel]) -> None:
    daemon, client = ends
    for content in (b"", b"a\0b", b"x" * 50_000):
        daemon.send(STDOUT, content)
        assert client.receive() == (STDOUT, content)


def test_the_end_of_one_side_is_told_to_the_other(ends: tuple[Channel, Channel]) -> None:
    daemon, client = ends
    daemon.close()
    daemon.close()  # closing it again has no effect
    with pytest.raises(Broken, match="closed"):
        client.receive()


def test_without_the_key_there_is_no_connection() -> None:
    with pytest.raises(Broken):
        joined("another key")


def test_a_proof_is_not_taken_back_from_its_maker() -> None:
    """An attacker without the key may send the proof of each side back to that side."""
    here, there = socket.socketpair()
    with ThreadPoolExecutor(1) as threads:
        server = threads.submit(Channel, here, KEY, server=True)
        nonce = there.recv(32)
        there.sendall(nonce)  # the daemon proves itself with the nonce that it made
        there.sendall(there.recv(32))
        with pytest.raises(Broken, match="does not know the key"):
            server.result(30)
    there.close()


def test_a_frame_that_is_too_long_is_not_read() -> None:
    here, there = socket.socketpair()
    with ThreadPoolExecutor(1) as threads:
        server = threads.submit(Channel, here, KEY, server=True)
        nonce = there.recv(32)
        there.sendall(os.urandom(32))
        there.recv(32)
        there.sendall(hmac.new(KEY.encode(), b"client" + nonce, hashlib.sha256).digest())
        there.sendall(struct.pack("!cI", STDOUT, MOST_BYTES + 1))
        daemon = server.result(30)
    with pytest.raises(Broken, match="too long"):
        daemon.receive()
    daemon.close()
    there.close()
