"""`cli/commands/in_cluster/served_apis.py`: the API groups that `phalanx visibility` serves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from phalanx.cli.commands.in_cluster import served_apis as module
from phalanx.cli.commands.in_cluster.served_apis import APIS, READ, Workloads
from phalanx.dialects.kueue import kinds
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import OF_NUMBERS


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
    found = Workloads(cast("Any", SimpleNamespace()))  # it is not asked
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


def test_kueues_group_has_the_name_of_its_own_server() -> None:
    assert APIS["kueue"].group == kinds.VISIBILITY
    assert APIS["kueue"].made_by == "deploy/components/kueue-visibility"
