"""Rights are judged by the path alone, before the server says whether there is such a resource."""

from __future__ import annotations

import pytest

from phalanx.embedded.apiserver.auth.rbac import AccessRequest
from phalanx.embedded.apiserver.endpoints.paths.attributes import attributes
from tests.embedded.apiserver.process import ServerProcess

GADGETS = "/apis/nope.io/v1/namespaces/a/gadgets"


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("GET", "/apis/batch/v1", None),
        ("GET", "/version", None),
        ("GET", "/api/v1/nopes", ("list", "", "nopes", "", "")),
        ("GET", f"{GADGETS}/x", ("get", "nope.io", "gadgets", "x", "a")),
        ("GET", f"{GADGETS}/x/y", ("get", "nope.io", "gadgets/y", "x", "a")),
        ("HEAD", GADGETS, ("list", "nope.io", "gadgets", "", "a")),
        ("DELETE", GADGETS, ("deletecollection", "nope.io", "gadgets", "", "a")),
        ("PUT", GADGETS, ("update", "nope.io", "gadgets", "", "a")),
        ("OPTIONS", GADGETS, ("", "nope.io", "gadgets", "", "a")),
        ("GET", "/api/v1/namespaces/a", ("get", "", "namespaces", "a", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", ("update", "", "namespaces/finalize", "a", "a")),
        ("GET", "/api/v1/watch/namespaces/a/pods/x/log", ("watch", "", "pods", "x", "a")),
    ],
)
def test_a_path_asks_for(method: str, path: str, asked: tuple[str, ...] | None) -> None:
    found = attributes(method, path, watch=False)
    assert found == (asked and (AccessRequest(*asked[:4]), asked[4]))


def test_a_watch_of_a_collection_is_asked_by_its_query() -> None:
    found = attributes("GET", GADGETS, watch=True)
    assert found is not None
    assert found[0].verb == "watch"


@pytest.mark.parametrize(
    ("method", "path", "refused"),
    [
        ("GET", f"{GADGETS}/x", 'gadgets.nope.io "x" is forbidden: User "system:anonymous" cannot get resource '
                                '"gadgets" in API group "nope.io" in the namespace "a"'),
        ("PUT", "/api/v1/pods", 'pods is forbidden: User "system:anonymous" cannot update resource "pods" in API '
                                'group "" at the cluster scope'),
        ("GET", "/apis/batch/v9/jobs", 'jobs.batch is forbidden: User "system:anonymous" cannot list resource "jobs" '
                                       'in API group "batch" at the cluster scope'),
        ("GET", "/nope", 'forbidden: User "system:anonymous" cannot get path "/nope"'),
    ],
)  # fmt: skip
def test_without_rights_nobody_learns_what_is_served(
    api_server: ServerProcess, method: str, path: str, refused: str
) -> None:
    answer = api_server.ask(method, path, {} if method == "PUT" else None, token="")
    assert (answer.code, answer.body["message"]) == (403, refused)
    assert api_server.ask(method, path, {} if method == "PUT" else None).code in (404, 405)
