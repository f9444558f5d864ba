"""`dialects/job_kinds/appwrapper/admission.py`: AppWrappers as the webhook of AppWrapper changes and checks them."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import Kind
from phalanx.dialects.enabled import DIALECTS
from phalanx.dialects.job_kinds.appwrapper import kinds
from phalanx.dialects.job_kinds.appwrapper.admission import POLICIES
from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apiserver.registry.crd.rules import broken
from phalanx.kube.install.definitions import crds_of
from tests.dialects.admitted import ADA, changed, refused, written
from tests.dialects.job_kinds.appwrapper.wrappers import job

Object = dict[str, Any]
SECOND = kinds.APP_WRAPPERS
FIRST = Kind(group=kinds.GROUP, version=kinds.MCAD_VERSION, plural=SECOND.plural, name=SECOND.name)
IBM = kinds.IBM_APP_WRAPPERS


def components(*templates: Object, **more: Any) -> Object:
    return {"components": [{"template": each, **more} for each in templates]}


def items(*templates: Object) -> Object:
    return {"resources": {"GenericItems": [{"generictemplate": each} for each in templates]}}


def admitted(spec: Any, kind: Kind = SECOND, user: User = ADA, **meta: Any) -> Object:
    return changed(POLICIES, kind, written(kind, spec, **meta), user=user)


def said(spec: Any, kind: Kind = SECOND, old: Any = None) -> str:
    return refused(POLICIES, kind, written(kind, spec), old=None if old is None else written(kind, old))


@pytest.mark.parametrize("kind", [SECOND, FIRST, IBM], ids=lambda kind: kind.api_version)
def test_a_new_appwrapper_is_suspended_and_signed(kind: Kind) -> None:
    spec = items(job()) if kind is not SECOND else components(job())
    found = admitted({**spec, "suspend": False}, kind, annotations={kinds.CREATOR: "root", "own": "x"})
    assert found["spec"]["suspend"] is True
    assert found["metadata"]["annotations"] == {
        "own": "x",
        kinds.CREATOR: "ada",
        kinds.CREATOR_GROUPS: "team,system:authenticated",
    }
    assert found["metadata"]["labels"] == {kinds.USER: "ada"}


@pytest.mark.parametrize(("kind", "field"), [(SECOND, "components"), (FIRST, "resources"), (IBM, "resources")])
def test_the_schema_names_the_field_with_the_wrapped_objects(kind: Kind, field: str) -> None:
    definitions = {body["spec"]["group"]: body for body in crds_of(DIALECTS["appwrapper"])}
    versions = {one["name"]: one for one in definitions[kind.group]["spec"]["versions"]}
    schema = versions[kind.version]["schema"]["openAPIV3Schema"]
    [cause] = broken(written(kind, {}), schema)
    assert (cause.field, cause.message) == (
        f"spec.{field}",
        "Required value: list the objects that the AppWrapper wraps",
    )


def test_an_update_that_removes_the_spec_is_refused() -> None:
    assert said(None, old=components(job())).endswith("denied request: spec: Required value")


@pytest.mark.parametrize("spec", ["text", [1]])
def test_a_spec_of_a_wrong_type_is_left_to_the_schema(spec: Any) -> None:
    assert admitted(spec)["spec"] == spec


def test_a_group_whose_name_has_a_comma_gives_no_rights() -> None:
    """Commas separate the groups: the name `a,system:masters` must not become the group `system:masters`."""
    found = admitted(components(job()), user=User(name="eve", groups=("team", "a,system:masters")))
    assert found["metadata"]["annotations"][kinds.CREATOR_GROUPS] == "team"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("ada", "ada"),
        ("system:serviceaccount:ns:sa", "system-serviceaccount-ns-sa"),
        ("ada@example.com", None),
        ("-ada", None),
        ("a" * 63, "a" * 63),
        ("a" * 64, None),
    ],
)
def test_a_user_whose_name_is_a_label_value_is_a_label(name: str, label: str | None) -> None:
    found = admitted(components(job()), user=User(name=name, groups=()))
    assert (found["metadata"].get("labels") or {}).get(kinds.USER) == label
    assert found["metadata"]["annotations"][kinds.CREATOR] == name


def test_an_appwrapper_of_another_controller_is_not_suspended() -> None:
    assert "suspend" not in admitted({**components(job()), "managedBy": "kueue.x-k8s.io/multikueue"})["spec"]
    assert admitted({**components(job()), "managedBy": kinds.MANAGER})["spec"]["suspend"] is True


def test_without_a_spec_the_schema_names_the_missing_field() -> None:
    assert admitted(None)["spec"] == {"suspend": True}


def nested(kind: str = "AppWrapper") -> Object:
    return {"apiVersion": SECOND.api_version, "kind": kind, "metadata": {"name": "x"}}


def inside(namespace: str) -> Object:
    made = job()
    made["metadata"]["namespace"] = namespace
    return made


@pytest.mark.parametrize(
    "spec",
    [components(job()), items(job()), components(*[job()] * 64), items(*[job()] * 64), components(inside("default")),
     components(inside("")), {"resources": {}}, {"resources": {"GenericItems": [{}]}},
     components({"kind": "Job", "apiVersion": "batch/v1"})],
)  # fmt: skip
def test_valid_appwrappers(spec: Object) -> None:
    assert said(spec) == ""


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (components(job(), nested()), "must not wrap another AppWrapper"),
        (items(nested()), "must not wrap another AppWrapper"),
        (components(inside("kube-system")), "must be in the namespace of their AppWrapper"),
        (items(inside("kube-system")), "must be in the namespace of their AppWrapper"),
        (components(*[job()] * 65), "must wrap 1 to 64 objects"),
        (items(*[job()] * 65), "must wrap 1 to 64 objects"),
        ({"components": []}, "must wrap 1 to 64 objects"),
        ({}, "must wrap 1 to 64 objects"),
        ({**components(job()), **items(job())}, "either components or resources"),
    ],
)
def test_appwrappers_that_are_refused(spec: Object, words: str) -> None:
    answer = said(spec)
    assert answer.startswith("403 ")
    assert words in answer


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        (components(job("b")), components(job("a")), "components are immutable"),
        (components(job(), job()), components(job()), "components are immutable"),
        (components(job(), podSets=[{"path": "a"}]), components(job(), podSets=[{"path": "b"}]), "are immutable"),
        (components(job(), podSets=[]), components(job()), ""),
        (components(job(), podSetInfos=[{"labels": {}}]), components(job()), ""),
        ({**components(job()), "suspend": False}, {**components(job()), "suspend": True}, ""),
        (items(job("b")), items(job("a")), "generictemplates are immutable"),
        (items(), items(job()), "generictemplates are immutable"),
        ({**items(job()), "priority": 1}, items(job()), ""),
        ({**components(job()), "managedBy": kinds.MANAGER}, components(job()), "managedBy is immutable"),
        (components(job()), {**components(job()), "managedBy": "x"}, "managedBy is immutable"),
        ({**components(job()), "managedBy": "x"}, {**components(job()), "managedBy": "x"}, ""),
    ],
)
def test_what_may_change(new: Object, old: Object, words: str) -> None:
    answer = said(new, old=old)
    assert (words in answer) if words else answer == ""


@pytest.mark.parametrize("key", [kinds.CREATOR, kinds.CREATOR_GROUPS])
def test_nobody_changes_whose_rights_an_appwrapper_has(key: str) -> None:
    for before, after in (
        ({key: "ada"}, {key: "root"}),
        ({key: "ada"}, {}),
        ({}, {key: "root"}),
        (None, {key: "root"}),
    ):
        states = [
            written(SECOND, components(job()), **({} if notes is None else {"annotations": notes}))
            for notes in (after, before)
        ]
        assert "because they name the AppWrapper's creator" in refused(POLICIES, SECOND, states[0], old=states[1])
    same = written(SECOND, components(job()), annotations={key: "ada"})
    assert refused(POLICIES, SECOND, {**same, "spec": components(job())}, old=same) == ""


def test_an_update_signs_nothing_anew() -> None:
    spec = components(job())
    signed = written(SECOND, spec, annotations={kinds.CREATOR: "ada"})
    assert changed(POLICIES, SECOND, signed, old=signed, user=User(name="bob"))["metadata"]["annotations"] == {
        kinds.CREATOR: "ada"
    }
