"""The cache of rights is bounded, because a request may name any namespace and impersonate any user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apiserver.auth.rbac import Grants


class Stored:
    """One binding, which gives all; `listed` counts how often bindings were looked up."""

    listed = 0

    def get(self, group: str, plural: str, namespace: str, name: str) -> Any:
        return {"rules": [{"verbs": ["*"]}]}

    def list(self, group: str, plural: str, namespace: str = "") -> Iterable[Any]:
        self.listed += 1
        yield {"subjects": [{"kind": "User", "name": "ada"}], "roleRef": {"kind": "ClusterRole", "name": "all"}}


def kept(grants: Grants) -> int:
    """The bytes of the names that are remembered."""
    return sum(len(user.name) + sum(map(len, user.groups)) + len(namespace) for user, namespace in grants._known)


def test_names_of_requests_do_not_fill_the_memory() -> None:
    grants, ada = Grants(Stored()), User(name="ada", groups=())
    for number in range(5_000):
        assert grants.rules(ada, f"{number}-{'x' * 4000}")
        grants.rules(User(name=f"{number}-{'x' * 4000}", groups=()), "default")
        grants.rules(User(name="eve", groups=(f"{number}-{'x' * 4000}",)), "default")
        grants.rules(ada, f"short-{number}")
    assert len(grants._known) <= 4096
    assert kept(grants) < 4096 * 1100


def test_an_answer_is_remembered_until_it_is_forgotten() -> None:
    stored = Stored()
    grants, ada = Grants(stored), User(name="ada", groups=())
    for _ in range(3):
        grants.rules(ada, "default")
    assert stored.listed == 2  # of the cluster, and of the namespace
    grants.forget()
    grants.rules(ada, "default")
    assert stored.listed == 4
