"""The resource that a path names, and the verb of a request."""

from __future__ import annotations

import pytest

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.registry.routing import Registry, RouteTarget, locate, verb_of

WIDGETS = Resource(
    group="example.com", version="v1", kind="Widget", plural="widgets", namespaced=True, custom=True,
    verbs=("get", "list", "watch", "create"),
)  # fmt: skip
REGISTRY = Registry([*RESOURCES, WIDGETS])


def found(path: str) -> RouteTarget:
    target = locate(REGISTRY, path)
    assert target is not None
    return target


def refusal(path: str, method: str = "", *, watch: bool = False) -> int:
    with pytest.raises(StatusError) as raised:
        verb_of(found(path), method, watch)
    return raised.value.code


@pytest.mark.parametrize(
    ("path", "plural", "namespace", "name", "sub"),
    [
        ("/api/v1/pods", "pods", "", "", ""),
        ("/api/v1/pods/", "pods", "", "", ""),
        ("/api/v1/namespaces/ns/pods/p/log", "pods", "ns", "p", "log"),
        ("/api/v1/namespaces", "namespaces", "", "", ""),
        ("/api/v1/namespaces/ns", "namespaces", "", "ns", ""),
        ("/api/v1/namespaces/ns/status", "namespaces", "", "ns", "status"),
        ("/api/v1/namespaces/ns/finalize", "namespaces", "", "ns", "finalize"),
        ("/apis/batch/v1/namespaces/ns/jobs/j", "jobs", "ns", "j", ""),
        ("/apis/example.com/v1/widgets", "widgets", "", "", ""),
        ("/api/v1/namespaces/ns/services/s/proxy/a/b", "services", "ns", "s", "proxy"),
    ],
)
def test_targets(path: str, plural: str, namespace: str, name: str, sub: str) -> None:
    target = found(path)
    assert (target.resource.plural, target.namespace, target.name, target.sub) == (plural, namespace, name, sub)
    assert not target.watch


def test_the_old_way_to_watch() -> None:
    target = found("/api/v1/watch/namespaces/ns/pods")
    assert (target.resource.plural, target.namespace, target.watch) == ("pods", "ns", True)
    assert verb_of(target, "GET", False) == "watch"


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/batch/v1", "/healthz", "/apis/none.example.com/v1/things", "/api/v2/pods"]
)
def test_other_paths_are_of_no_resource(path: str) -> None:
    assert locate(REGISTRY, path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/things",
        "/apis/batch/v9/jobs",
        "/api/v1/pods/p",  # without a namespace
        "/api/v1/namespaces/ns/nodes/n",  # nodes have no namespace
        "/api/v1/namespaces/ns/pods/p/nothing",
        "/api/v1/namespaces/ns/pods/p/log/more",
    ],
)
def test_paths_of_a_known_group_that_name_nothing(path: str) -> None:
    with pytest.raises(StatusError) as raised:
        locate(REGISTRY, path)
    assert raised.value.code == 404
    assert raised.value.message == "the server could not find the requested resource"


def test_below_a_custom_object_the_object_is_not_found() -> None:
    with pytest.raises(StatusError, match=r'widgets\.example\.com "w" not found'):
        locate(REGISTRY, "/apis/example.com/v1/namespaces/ns/widgets/w/nothing")


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "/api/v1/pods", "list"),
        ("GET", "/api/v1/namespaces/ns/pods/p", "get"),
        ("POST", "/api/v1/namespaces/ns/pods", "create"),
        ("POST", "/api/v1/namespaces/ns/pods/p/eviction", "create"),
        ("DELETE", "/api/v1/namespaces/ns/pods", "deletecollection"),
        ("PATCH", "/apis/batch/v1/namespaces/ns/jobs/j/status", "patch"),
    ],
)
def test_verbs(method: str, path: str, verb: str) -> None:
    assert verb_of(found(path), method, False) == verb


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/api/v1/pods", 405),  # a pod without a namespace
        ("DELETE", "/api/v1/pods", 405),
        ("PUT", "/api/v1/namespaces/ns/pods", 405),
        ("POST", "/api/v1/namespaces/ns/pods/p", 405),
        ("DELETE", "/api/v1/namespaces/ns/pods/p/log", 405),
        ("PATCH", "/apis/example.com/v1/namespaces/ns/widgets", 400),
        ("DELETE", "/apis/example.com/v1/namespaces/ns/widgets/w", 405),  # the definition does not list this verb
    ],
)
def test_methods_that_are_not_allowed(method: str, path: str, code: int) -> None:
    assert refusal(path, method) == code


def test_replaced_kinds_are_served_no_more() -> None:
    registry = Registry([*RESOURCES, WIDGETS])
    before = registry.generation
    registry.replace(RESOURCES)
    assert registry.generation == before + 1
    assert registry.find("example.com", "v1", "widgets") is None
    assert locate(registry, "/apis/example.com/v1/widgets") is None
    assert not registry.builds_in("example.com")
    assert registry.any_version("batch", "jobs") in registry.forms(registry.find("batch", "v1", "jobs"))
