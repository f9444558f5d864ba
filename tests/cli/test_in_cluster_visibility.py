"""`cli/commands/in_cluster/visibility.py`: the server of `phalanx visibility`, and when it is ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.commands.in_cluster import visibility as module
from phalanx.cli.commands.in_cluster.visibility import Visible
from phalanx.errors import PhalanxError


def server(unread: str = "", belief: str = "", keeper: str = "") -> Visible:
    found: Any = object.__new__(Visible)
    found._source = SimpleNamespace(unread=lambda: unread)
    found.belief = SimpleNamespace(wrong=lambda: belief)
    found.keeper = SimpleNamespace(wrong=lambda: keeper)
    return found


def test_a_server_says_why_it_answers_no_request() -> None:
    assert server().wrong() == ""
    assert server(unread="workloads").wrong() == "workloads are not read yet"
    assert server("workloads", "no authority", "no certificate").wrong() == "no authority"
    assert server("workloads", keeper="no certificate").wrong() == "no certificate"


@pytest.mark.parametrize("options", [{"address": "here"}, {"address": "0.0.0.0:1", "metrics_address": "nowhere"}])
def test_an_invalid_address_is_refused_before_anything_starts(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "log_to_stderr", lambda level: None)
    monkeypatch.setattr(module.asyncio, "run", lambda work: pytest.fail("it was started"))
    with pytest.raises(PhalanxError, match="is not an address to listen on"):
        module.visibility(**options)
