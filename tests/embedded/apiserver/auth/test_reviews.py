"""Reviews of access: an account can ask what it may do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.embedded.apiserver.auth.test_rbac_roles import Account
from tests.embedded.apiserver.process import ServerProcess


def rule(verbs: str, resources: str, group: str = "", **rest: object) -> object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **rest}


@pytest.fixture
def account(api_server: ServerProcess) -> Iterator[Account]:
    return Account(api_server)


def test_it_can_ask_what_it_may_do(account: Account) -> None:
    account.grant(rule("get", "pods", resourceNames=["p"]))
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = account.ask("POST", path, {"spec": {"namespace": account.namespace}})
    rules = answer.body["status"]["resourceRules"]
    assert rules[-1] == {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]}
    assert [one["resources"] for one in rules[:-1]] == [
        ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ["selfsubjectreviews"],
    ]
    urls = [one["nonResourceURLs"] for one in answer.body["status"]["nonResourceRules"]]
    assert [len(one) for one in urls] == [11, 5, 4]  # discovery, public information, issuer of tokens
    everywhere = account.ask("POST", path, {"spec": {}})
    assert (everywhere.code, everywhere.body["message"]) == (400, "no namespace on request")
