"""The Unix user of a namespace's pods."""

from __future__ import annotations

import os
import pwd
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.embedded.node.machine.owners import GID, UID, MachineOwner, Owners
from phalanx.embedded.node.pod.environment import EnvironmentFault


def owner(notes: dict[str, str] | None = None, namespace: str = "ns") -> MachineOwner:
    known: Any = SimpleNamespace(objects={"ns": {"metadata": {"annotations": notes}}})
    return Owners(known).of(namespace)


def test_a_known_user_has_the_groups_of_this_machine() -> None:
    me = pwd.getpwuid(os.getuid())
    found = owner({UID: str(me.pw_uid), GID: "4242"})
    assert (found.user, found.group, found.name, found.home) == (me.pw_uid, me.pw_gid, me.pw_name, me.pw_dir)
    assert 4242 not in found.groups


def test_an_unknown_user_has_the_group_that_is_noted() -> None:
    found = owner({UID: "2000000000", GID: "2000000001"})
    assert found == MachineOwner(user=2_000_000_000, group=2_000_000_001, groups=(2_000_000_001,))


def test_without_notes_pods_run_as_nobody() -> None:
    assert owner(None).user == owner({}).user == 65534


@pytest.mark.parametrize("said", ["-1", "0x0", "²", "", " 0", "2147483648", "9" * 5000])
def test_what_is_no_number_of_a_user(said: str) -> None:
    with pytest.raises(EnvironmentFault, match="which is not a uid or gid"):
        owner({UID: said})


def test_a_namespace_that_is_not_known_yet_is_waited_for() -> None:
    with pytest.raises(EnvironmentFault, match="namespace other is not known to this node yet"):
        owner(namespace="other")
