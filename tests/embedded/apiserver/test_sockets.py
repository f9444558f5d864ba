"""`embedded/apiserver/sockets.py`: the port of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.embedded.apiserver.sockets import listen
from phalanx.errors import PhalanxError
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.apiserver.test_server import refused


def test_port_0_takes_a_free_port_and_a_taken_port_is_refused() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        with pytest.raises(PhalanxError, match=f"cannot listen on 127.0.0.1 port {port}.*Name another port"):
            listen("127.0.0.1", port)


@pytest.mark.slow
def test_a_port_in_use_is_named(api_server: ServerProcess, data_dir: Path) -> None:
    port = api_server.url.rpartition(":")[2]
    assert f"cannot listen on 127.0.0.1 port {port}" in refused(data_dir, "--port", port)
