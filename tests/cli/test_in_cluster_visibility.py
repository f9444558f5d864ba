"""`cli/commands/in_cluster/visibility.py`: the API groups that `phalanx visibility` serves, and when it is ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.commands.in_cluster import visibility as module
from phalanx.cli.commands.in_cluster.visibility import APIS, READ, Visible, Workloads
from phalanx.dialects.kueue import kinds
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import OF_NUMBERS
from phalanx.errors import PhalanxError


@pytest.mark.parametrize("api", APIS)
def test_each_version_of_a_group_is_an_api_service(api: str) -> None:
    served = APIS[api]
    called = served.called
    assert all(name.endswith(f".{served.group}") for name in called.names)
    assert {name.partition(".")[0] for name in called.names} == {each.version for each in served.resources}
    assert len(called.names) == len(set(called.names))
    assert called.kept_in == served.service
    spec = {"group": served.group}
    assert called.told({"spec": spec}) == [spec]


def test_names_of_jobs_of_other_users_are_not_served() -> None:
    """Rows and pages have them; only the scheduler of `phalanx up` serves these."""
    served = {part.name for one in APIS["phalanx"].resources for part in one.subresources}
    assert served <= {"summary", "reason", "start"}
    assert served
    assert {part.name for one in OF_NUMBERS for part in one.subresources} > served
    assert [one.plural for one in APIS["phalanx"].resources] == [one.plural for one in OF_NUMBERS]


def test_workloads_are_not_answered_before_all_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Workloads(SimpleNamespace())  # type: ignore[arg-type]  # it is not asked
    path = ("v1beta1", "clusterqueues", "q", "pendingworkloads")
    for kind in READ:
        assert found.unread() == kind.plural
        assert found.view(path, {}) is None
        found._caches[kind].synced.set()
    assert found.unread() == ""
    asked: list[Any] = []
    monkeypatch.setattr(module, "of_workloads", lambda *words: asked.append(words) or {"items": []})
    assert found.view(path, {"limit": "1"}) == {"items": []}
    assert asked == [({kind: {} for kind in READ}, path, {"limit": "1"})]


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
    with pytest.raises(PhalanxError, match="is no address to listen on"):
        module.visibility(**options)


def test_kueues_group_has_the_name_of_its_own_server() -> None:
    assert APIS["kueue"].group == kinds.VISIBILITY
    assert APIS["kueue"].made_by == "deploy/components/kueue-visibility"
