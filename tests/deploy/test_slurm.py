"""The component for Slurm's users: the same roles and the same rule as `phalanx up --shared` installs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from phalanx.embedded.login import admission, grants

FOLDER = Path(__file__).parents[2] / "deploy" / "components" / "slurm"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def test_levels_have_the_rights_that_they_have_on_one_machine() -> None:
    roles = {one["metadata"]["name"]: one["rules"] for one in documents("roles.yaml")}
    for name in ("phalanx:slurm-operator", "phalanx:slurm-administrator"):
        assert roles[name] == grants._RULES[name]
    assert roles["phalanx:slurm"] == grants.NUMBERS_RULES


def test_no_role_lets_its_holder_read_secrets_everywhere_or_bind_others() -> None:
    for one in documents("roles.yaml"):
        for rule in one["rules"]:
            if one["metadata"]["name"] != "phalanx:slurm-user":  # bound in the namespace of jobs alone
                assert "secrets" not in rule["resources"]
            if "bind" in rule["verbs"]:
                assert rule["resourceNames"] == ["phalanx:slurm-operator", "phalanx:slurm-administrator"]


def test_job_numbers_are_under_the_same_rule() -> None:
    policy, binding = documents("numbers.yaml")
    assert policy["spec"] == admission.NUMBERS["spec"]
    assert binding["spec"] == admission.NUMBERS_BINDING["spec"]
