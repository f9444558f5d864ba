"""Expressions of a ValidatingAdmissionPolicy use only variables that exist."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.embedded.apiserver.inprocess import InProcess

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("nobody.spec == 1", "undeclared reference to 'nobody' (in container '')\n | nobody.spec == 1\n | ^"),
        ("params.x == 1", "undeclared reference to 'params'"),
        ("object.spec.replicas == variables.most", ""),
    ],
)
def test_a_policy_speaks_of_what_there_is(tmp_path: Path, rule: str, says: str) -> None:
    async def scene() -> None:
        resources = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
        spec = {"matchConstraints": {"resourceRules": resources}, "validations": [{"expression": rule}]}
        spec["variables"] = [{"name": "most", "expression": "3"}]
        async with InProcess.started(tmp_path) as client:
            answer = await client.ask("POST", POLICIES, {"metadata": {"name": "p"}, "spec": spec})
            assert (answer.code == 422) is bool(says)
            assert says in answer.body.get("message", "")

    asyncio.run(scene())
