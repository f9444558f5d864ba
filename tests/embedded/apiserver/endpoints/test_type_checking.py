"""`status.typeChecking` of ValidatingAdmissionPolicies says what the real server's controller says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apiserver.endpoints.reconcilers.type_checking import warnings
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.registry.crd.crd import resources_of
from phalanx.embedded.apiserver.registry.routing import Registry
from tests.embedded.apiserver.endpoints.test_definitions import definition, serving, until
from tests.embedded.apiserver.inprocess import InProcess

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
EVERYTHING = Registry((*RESOURCES, *resources_of(definition())))


def rule(*resources: str, group: str = "apps", version: str = "v1") -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": [version], "resources": list(resources), "operations": ["*"]}


def policy(text: str, *rules: dict[str, Any], **rest: Any) -> dict[str, Any]:
    spec = {"matchConstraints": {"resourceRules": list(rules)}, "validations": [{"expression": text}], **rest}
    return {"metadata": {"name": "p"}, "spec": spec}


def said(text: str, *rules: dict[str, Any], **rest: Any) -> str:
    """What is wrong with the only validation."""
    found = list(warnings(policy(text, *rules, **rest)["spec"], EVERYTHING))
    assert all(path == "spec.validations[0].expression" for path, _ in found)
    return "\n".join(text for _, text in found)


def test_a_policy_says_in_its_status_what_does_not_fit_the_kinds_it_is_about(data_dir: Path) -> None:
    async def act(server: InProcess) -> None:
        made = await server.make(POLICIES, policy("object.replicas > 1", rule("deployments")))
        assert made["status"] == {}
        found = (await until(server, POLICIES, lambda event: bool(event["object"].get("status"))))["object"]
        [warning] = found["status"]["typeChecking"]["expressionWarnings"]
        assert warning == {
            "fieldRef": "spec.validations[0].expression",
            "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n"
            " | object.replicas > 1\n | ......^\n",
        }
        assert found["status"]["observedGeneration"] == 1
        found["spec"]["validations"][0]["expression"] = "object.spec.replicas > 1"
        found["status"] = {"observedGeneration": 9}  # which is not the user's to say
        changed = await server.ask("PUT", f"{POLICIES}/p", found)
        assert changed.body["status"]["observedGeneration"] == 1
        mended = await until(server, POLICIES, lambda event: event["object"]["status"]["observedGeneration"] == 2)
        assert mended["object"]["status"] == {"observedGeneration": 2}

    serving(data_dir, act)


@pytest.mark.parametrize(
    ("text", "rules", "what"),
    [
        ("object.spec.replicas > 'a'", (rule("deployments"),), "'_>_' applied to '(int, string)'"),
        ("object.spec.template.spec.containers.all(c, c.img != '')", (rule("deployments"),), "undefined field 'img'"),
        ("object.data.x > 1", (rule("configmaps", group=""),), "/v1, Kind=ConfigMap: ERROR: <input>:1:15: found no"),
        ("object.spec.wait > 1", (rule("queues", group="phalanx.dev"),), "phalanx.dev/v1, Kind=Queue: ERROR"),
        ("has(oldObject.spec.name)", (rule("daemonsets"),), "apps/v1, Kind=DaemonSet: ERROR: <input>:1:19: undefined"),
    ],
)
def test_expressions_are_checked_with_the_types_of_the_kinds(text: str, rules: tuple[Any, ...], what: str) -> None:
    assert what in said(text, *rules)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("object.spec.replicas > 1 && object.metadata.labels['a'] == 'b'", (rule("deployments", "replicasets"),)),
        ("object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')", (rule("deployments"),)),
        ("object.spec.template.spec.containers.all(c, c.resources.limits['cpu'] != '0')", (rule("deployments"),)),
        ("object.spec.weight > 1 && object.metadata.name != ''", (rule("queues", group="phalanx.dev"),)),
        ("object.x", (rule("deployments", group="*"),)),  # no `*`
        ("object.x", (rule("deployments", version="*"),)),
        ("object.x", (rule("*", "deployments/scale", "elephants"),)),
    ],
)
def test_what_fits_and_what_is_about_no_certain_kind_is_not_told(text: str, rules: tuple[Any, ...]) -> None:
    assert said(text, *rules) == ""


def test_each_kind_that_an_expression_does_not_fit_is_told() -> None:
    found = said("object.spec.completions == 1", rule("statefulsets", "deployments"), rule("jobs", group="batch"))
    assert [line.split(": ")[0] for line in found.splitlines() if "Kind=" in line] == [
        "apps/v1, Kind=Deployment",
        "apps/v1, Kind=StatefulSet",
    ]


def test_parameters_and_variables_have_types_too() -> None:
    variables = [{"name": "n", "expression": "object.spec.replicas"}]
    of_queues = {"apiVersion": "phalanx.dev/v1", "kind": "Queue"}
    assert "'_==_' applied to '(int, string)'" in said("variables.n == 'a'", rule("deployments"), variables=variables)
    assert "undefined field 'most'" in said(
        "variables.n < params.spec.most", rule("deployments"), variables=variables, paramKind=of_queues
    )
    unknown = {"apiVersion": "phalanx.dev/v1", "kind": "Elephant"}
    assert "undeclared reference to 'params'" in said("params.x", rule("deployments"), paramKind=unknown)
