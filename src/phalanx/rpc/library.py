"""Import gRPC without its handlers for fork(2). No other module imports the library.

The handlers let a child process continue the gRPC calls of its parent. The child processes of Phalanx call execve(2)
and use no gRPC. With the handlers, about 1 in 150 of these processes aborts before execve(2) (grpcio 1.85). For
example, a `kubectl exec` on a node with a device plugin would then end with SIGABRT.
"""

from __future__ import annotations

import os

_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"  # the library reads this variable when it is imported
_before = os.environ.get(_SUPPORT)
os.environ[_SUPPORT] = "0"
import grpc  # noqa: E402 - after the setting
import grpc.aio  # noqa: E402 - likewise

del os.environ[_SUPPORT]
if _before is not None:
    os.environ[_SUPPORT] = _before

__all__ = ["grpc"]
