"""`rpc/library.py`: a process that has called a gRPC service starts programs, whatever runs before execve."""

from __future__ import annotations

import subprocess
import sys

import pytest

STARTS = 300  # with the library's handlers, about two of them abort
PROGRAM = f"""
import os, signal, subprocess
from concurrent import futures
from phalanx.rpc.library import grpc

class Echo(grpc.GenericRpcHandler):
    def service(self, call):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)

server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((Echo(),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with grpc.insecure_channel(f"127.0.0.1:{{port}}") as channel:
    assert channel.unary_unary("/a/b")(b"said") == b"said"
    ends = set()
    for _ in range({STARTS}):
        started = subprocess.run(["true"], preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None)
        ends.add(started.returncode)
print(sorted(ends), "GRPC_ENABLE_FORK_SUPPORT" in os.environ)
server.stop(None)
"""


@pytest.mark.slow
def test_no_child_ends_in_a_handler_of_grpc() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert ran.stdout == "[0] False\n", ran.stderr


@pytest.mark.slow
def test_the_only_module_that_imports_grpc_is_ours() -> None:
    found = subprocess.run(
        ["git", "grep", "-lE", "^ *(import|from) grpc", "--", "src", "tests"], capture_output=True, text=True
    )
    assert found.stdout == "src/phalanx/rpc/library.py\n"
