"""One server for the scenes of a module, with an administrator and the user ada."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from phalanx.embedded.apiserver.auth.authentication import write_tokens
from tests.embedded.apiserver.inprocess import Scene, played


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Scene], None]]:
    data = tmp_path_factory.mktemp("api")
    write_tokens(data / "tokens.csv", [("admin", "admin", ("system:masters",)), ("ada", "ada", ())])
    with played(data) as playing:
        yield playing
