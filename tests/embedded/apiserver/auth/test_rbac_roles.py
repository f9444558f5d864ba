"""A service account has exactly the rights of its roles, from the moment of their creation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.embedded.apiserver.process import Answer, ServerProcess

RBAC = "/apis/rbac.authorization.k8s.io/v1"

_numbers = count()


class Account:
    """A service account in a namespace of its own, and what it is granted."""

    def __init__(self, server: ServerProcess) -> None:
        self.server, self.namespace = server, f"roles-{next(_numbers)}"
        self.core = server.make_namespace(self.namespace)
        server.ask("POST", f"{self.core}/serviceaccounts", {"metadata": {"name": "robot"}})
        asked = server.ask("POST", f"{self.core}/serviceaccounts/robot/token", {"spec": {}})
        self.token = asked.body["status"]["token"]
        self.rules = f"{RBAC}/namespaces/{self.namespace}"

    def ask(self, method: str, path: str, body: object = None, media: str = "application/json") -> Answer:
        return self.server.ask(method, path, body, media=media, token=self.token)

    def grant(self, *rules: object, everywhere: bool = False) -> str:
        """The role's name."""
        name, kind = f"{self.namespace}-{next(_numbers)}", "ClusterRole" if everywhere else "Role"
        space = RBAC if everywhere else self.rules
        made = self.server.ask("POST", f"{space}/{kind.lower()}s", {"metadata": {"name": name}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": "robot", "namespace": self.namespace}
        binding = {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": name}, "subjects": [subject]}
        bound = self.server.ask("POST", f"{space}/{kind.lower()}bindings", binding)
        assert (made.code, bound.code) == (201, 201), (made.body, bound.body)
        return name


def rule(verbs: str, resources: str, group: str = "", **rest: object) -> object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **rest}


@pytest.fixture
def account(api_server: ServerProcess) -> Iterator[Account]:
    return Account(api_server)


def test_without_a_role_nothing(account: Account) -> None:
    answer = account.ask("GET", f"{account.core}/pods")
    assert answer.code == 403
    who = f"system:serviceaccount:{account.namespace}:robot"
    assert answer.body["message"] == (
        f'pods is forbidden: User "{who}" cannot list resource "pods" in API group "" in the namespace '
        f'"{account.namespace}"'
    )


def test_a_role_holds_in_its_namespace_a_cluster_role_everywhere(account: Account) -> None:
    account.grant(rule("list", "pods"))
    assert account.ask("GET", f"{account.core}/pods").code == 200
    assert account.ask("GET", "/api/v1/pods").code == 403
    account.grant(rule("list", "pods"), everywhere=True)
    assert account.ask("GET", "/api/v1/pods").code == 200


def test_a_subresource_is_a_right_of_its_own(account: Account) -> None:
    account.grant(rule("create get patch", "pods"))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert account.ask("POST", f"{account.core}/pods", pod).code == 201
    merge = "application/merge-patch+json"
    assert account.ask("PATCH", f"{account.core}/pods/p/status", {}, merge).code == 403
    account.grant(rule("patch", "*/status"))
    assert account.ask("PATCH", f"{account.core}/pods/p/status", {}, merge).code == 200


def test_names_narrow_what_a_path_or_a_field_selector_names(account: Account) -> None:
    account.grant(rule("get list create", "configmaps", resourceNames=["mine"]))
    account.server.ask("POST", f"{account.core}/configmaps", {"metadata": {"name": "mine"}})
    maps = f"{account.core}/configmaps"
    assert account.ask("GET", f"{maps}/mine").code == 200
    assert account.ask("GET", f"{maps}/yours").code == 403
    assert account.ask("GET", maps).code == 403
    assert account.ask("GET", f"{maps}?fieldSelector=metadata.name%3Dmine").code == 200
    assert account.ask("POST", maps, {"metadata": {"name": "mine"}}).code == 403


def test_a_role_that_changes_counts_at_once(account: Account) -> None:
    name = account.grant(rule("list", "pods"))
    account.server.ask("PATCH", f"{account.rules}/roles/{name}", {"rules": []}, media="application/merge-patch+json")
    assert account.ask("GET", f"{account.core}/pods").code == 403


def test_a_token_ends_with_its_account_and_so_do_its_rights(account: Account) -> None:
    account.grant(rule("list", "pods"))
    account.server.ask("DELETE", f"{account.core}/serviceaccounts/robot")
    assert account.ask("GET", f"{account.core}/pods").code == 401


def test_who_puts_or_applies_what_is_not_there_creates_it(account: Account) -> None:
    account.grant(rule("update patch", "leases", "coordination.k8s.io"), rule("patch", "configmaps"))
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{account.namespace}/leases/l"
    assert account.ask("PUT", lease, {"metadata": {"name": "l"}, "spec": {}}).code == 403
    path = f"{account.core}/configmaps/c?fieldManager=t"
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert account.ask("PATCH", path, applied, "application/apply-patch+yaml").code == 403
    account.grant(rule("create", "configmaps"))
    assert account.ask("PATCH", path, applied, "application/apply-patch+yaml").code == 201


def test_paths_that_are_no_resources(account: Account) -> None:
    assert account.ask("GET", "/metrics").code == 403
    account.grant({"nonResourceURLs": ["/met*"], "verbs": ["get"]}, everywhere=True)
    assert account.ask("GET", "/metrics").code == 404


def test_nobody_gives_what_he_does_not_have(account: Account) -> None:
    account.grant(rule("create update", "roles rolebindings", "rbac.authorization.k8s.io"), rule("get", "pods"))
    roles, bindings = f"{account.rules}/roles", f"{account.rules}/rolebindings"
    assert account.ask("POST", roles, {"metadata": {"name": "same"}, "rules": [rule("get", "pods")]}).code == 201
    refused = account.ask("POST", roles, {"metadata": {"name": "more"}, "rules": [rule("get list", "pods secrets")]})
    assert refused.code == 403
    assert refused.body["message"].endswith(
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["list"]}'
    )
    edit = {"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "edit"}, "subjects": []}
    assert account.ask("POST", bindings, edit).code == 403
    account.grant(rule("bind", "clusterroles", "rbac.authorization.k8s.io", resourceNames=["edit"]))
    assert account.ask("POST", bindings, edit).code == 201


def test_role_in_a_namespace_grants_rights_to_its_own_object(account: Account) -> None:
    refused = account.ask("GET", account.core)
    assert (refused.code, f'in the namespace "{account.namespace}"' in refused.body["message"]) == (403, True)
    account.grant(rule("get", "namespaces"))
    assert account.ask("GET", account.core).code == 200
    assert account.ask("GET", "/api/v1/namespaces/default").code == 403
    assert account.ask("DELETE", account.core).code == 403
