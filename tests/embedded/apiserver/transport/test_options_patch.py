"""The options of a PATCH: who makes it, and whether an apply takes over what others have."""

from __future__ import annotations

import pytest

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.transport.negotiation import accepted
from phalanx.embedded.apiserver.transport.options import check_timeout, dry_run, field_manager, forced
from phalanx.embedded.apiserver.transport.request import HttpRequest, parse_query


def request(query: str) -> HttpRequest:
    return HttpRequest(
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
    with pytest.raises(StatusError) as caught:
        forced(request(query), applies=applies)
    assert caught.value.status()["message"] == f'PatchOptions.meta.k8s.io "" is invalid: {message}'


@pytest.mark.parametrize(
    ("manager", "message"),
    [
        ("x" * 129, "fieldManager: Too long: may not be more than 128 bytes"),
        ("a%0Ab", r'fieldManager: Invalid value: "a\nb": invalid character U+000A (at position 1)'),
        ("%C3%A9%E2%80%8B", r'fieldManager: Invalid value: "é\u200b": invalid character U+200B (at position 2)'),
        ("%7F", r'fieldManager: Invalid value: "\x7f": invalid character U+007F (at position 0)'),
    ],
)
def test_a_manager_has_a_name_that_can_be_shown(manager: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        field_manager(request(f"fieldManager={manager}"), "CreateOptions")
    assert message in caught.value.message


@pytest.mark.parametrize(("query", "is_dry"), [("dryRun=All", True), ("dryRun=All&dryRun=All", True), ("", False)])
def test_dry_run_may_be_asked_for_twice(query: str, is_dry: bool) -> None:
    assert dry_run(request(query), "CreateOptions") is is_dry


@pytest.mark.parametrize(
    ("timeout", "message"),
    [
        ("1h2m3.5s", ""),
        ("-1s", ""),
        ("0", ""),
        ("", ""),
        ("x", 'time: invalid duration "x"'),
        ("1", 'time: missing unit in duration "1"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
    ],
)
def test_timeout_is_a_duration(timeout: str, message: str) -> None:
    try:
        check_timeout(request(f"timeout={timeout}"))
    except StatusError as error:
        said = error.message
    else:
        said = ""
    assert said == (message and f"invalid timeout specified in the request URL - {message}")
