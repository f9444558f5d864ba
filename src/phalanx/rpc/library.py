"""gRPC without its handlers of fork(2); the only module that imports the library.

The library prepares itself for a fork of its process, because the child may go on with its calls. Children of Phalanx
call execve(2) and use no gRPC. With the handlers, such a child sometimes aborts before it has become its program
(grpcio 1.85: 1 of some 150), so a `kubectl exec` beside a device plugin would end with SIGABRT.
"""

from __future__ import annotations

import os

_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"  # read when the library is imported
_before = os.environ.get(_SUPPORT)
os.environ[_SUPPORT] = "0"
import grpc  # noqa: E402 - after the setting
import grpc.aio  # noqa: E402 - likewise

del os.environ[_SUPPORT]
if _before is not None:
    os.environ[_SUPPORT] = _before

__all__ = ["grpc"]
