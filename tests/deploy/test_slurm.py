"""The component for Slurm's users: the same roles and the same rule as `phalanx up --shared` installs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from phalanx.embedded.login import admission, coordinators, grants

FOLDER = Path(__file__).parents[2] / "deploy" / "components" / "slurm"


RAISE = {
    "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["phalanx-slurm-number"], "verbs": ["update"],
}  # fmt: skip
ADMISSION = "admissionregistration.k8s.io/v1"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def test_levels_have_the_rights_that_they_have_on_one_machine() -> None:
    roles = {one["metadata"]["name"]: one["rules"] for one in documents("roles.yaml") if "rules" in one}
    for name in ("phalanx:slurm-operator", "phalanx:slurm-administrator", coordinators.ROLE):
        assert roles[name] == grants._RULES[name]
    assert roles["phalanx:slurm"] == [*grants.SITE_RULES, RAISE]
    assert grants.VIEW_RULE in roles["phalanx:slurm-sees"]


def test_nobody_is_a_coordinator_before_sacctmgr_says_so() -> None:
    [binding] = [one for one in documents("roles.yaml") if one["kind"] == "ClusterRoleBinding"]
    assert (binding["roleRef"]["name"], "subjects" in binding) == (coordinators.ROLE, False)


def test_coordinators_are_held_to_the_same_rules() -> None:
    made = [
        {"apiVersion": ADMISSION, "kind": f"ValidatingAdmissionPolicy{kind}", **body}
        for both in zip(coordinators.POLICIES, coordinators.BINDINGS, strict=True)
        for kind, body in zip(("", "Binding"), both, strict=True)
    ]
    assert documents("coordinators.yaml") == made


def test_no_role_lets_its_holder_read_secrets_everywhere_or_bind_others() -> None:
    for one in documents("roles.yaml"):
        for rule in one.get("rules", ()):
            if one["metadata"]["name"] != "phalanx:slurm-user":  # bound in the namespace of jobs alone
                assert "secrets" not in rule.get("resources", ())
            if "bind" in rule["verbs"]:
                assert rule["resourceNames"] == ["phalanx:slurm-operator", "phalanx:slurm-administrator"]


def test_job_numbers_are_under_the_same_rule() -> None:
    policy, binding, number = documents("numbers.yaml")
    assert number["metadata"]["name"] == "phalanx-slurm-number"
    assert "data" not in number  # applied again, it would give numbers out twice
    assert policy["spec"] == admission.NUMBERS["spec"]
    assert binding["spec"] == admission.NUMBERS_BINDING["spec"]


def test_namespaces_are_under_the_same_rules() -> None:
    made = [
        {"apiVersion": ADMISSION, "kind": f"ValidatingAdmissionPolicy{kind}", **body}
        for policy, binding in (
            (admission.NAMESPACES, admission.NAMESPACES_BINDING),
            (admission.POD_USERS, admission.POD_USERS_BINDING),
        )
        for kind, body in (("", policy), ("Binding", binding))
    ]
    assert documents("namespaces.yaml") == made
