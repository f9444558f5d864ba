"""The options of a PATCH: who makes it, and whether an apply takes over what others have."""

from __future__ import annotations

import pytest

from phalanx.embedded.apiserver.apimachinery.meta.resource import User
from phalanx.embedded.apiserver.apimachinery.meta.status import ApiError
from phalanx.embedded.apiserver.transport.negotiation import accepted
from phalanx.embedded.apiserver.transport.options import field_manager, forced
from phalanx.embedded.apiserver.transport.request import Request, parse_query


def request(query: str) -> Request:
    return Request(
        method="PATCH",
        path="/api/v1/namespaces/default/configmaps/a",
        query=parse_query(query.encode()),
        user=User(name="u"),
        accept=accepted(""),
        user_agent="kubectl/v1.36.2 (linux/amd64)",
    )


def test_the_manager_is_named_by_the_query_or_by_the_user_agent() -> None:
    assert field_manager(request("fieldManager=me"), "PatchOptions") == "me"
    assert field_manager(request(""), "PatchOptions") == "kubectl"


def test_only_an_apply_can_be_forced() -> None:
    assert forced(request("fieldManager=me&force=true"), applies=True)
    assert not forced(request("fieldManager=me"), applies=True)
    assert not forced(request(""), applies=False)


@pytest.mark.parametrize(
    ("query", "applies", "message"),
    [
        ("", True, "fieldManager: Required value: is required for apply patch"),
        ("force=true", False, "force: Forbidden: may not be specified for non-apply patch"),
    ],
)
def test_options_that_do_not_fit_are_refused(query: str, applies: bool, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        forced(request(query), applies=applies)
    assert caught.value.status()["message"] == f'PatchOptions.meta.k8s.io "" is invalid: {message}'


@pytest.mark.parametrize(
    ("manager", "message"),
    [
        ("x" * 129, "fieldManager: Too long: may not be more than 128 bytes"),
        ("a%07", 'fieldManager: Invalid value: "a\\a": invalid character U+0007 (at position 1)'),
    ],
)
def test_a_manager_has_a_name_that_can_be_shown(manager: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        field_manager(request(f"fieldManager={manager}"), "CreateOptions")
    assert message in caught.value.message
