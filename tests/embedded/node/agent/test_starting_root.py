"""Capabilities of containers with a root of their own, and the files of earlier attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.node.agent.starting import root
from phalanx.embedded.node.agent.starting.root import capabilities, resolver, security_context
from phalanx.embedded.node.container.attempt import Mount
from phalanx.embedded.node.pod.environment import EnvironmentFault

POD: Any = {"spec": {}}
CHOWN, NET_RAW, SYS_ADMIN = 0, 13, 21


def held(**said: Any) -> set[int]:
    return set(capabilities({"securityContext": said}, POD))


def test_the_default_leaves_out_what_affects_the_machine() -> None:
    assert CHOWN in held()
    assert {NET_RAW, SYS_ADMIN}.isdisjoint(held())


def test_capabilities_are_added_and_dropped_by_either_form_of_their_names() -> None:
    assert held(capabilities={"add": ["SYS_ADMIN"]}) == held() | {SYS_ADMIN}
    assert held(capabilities={"add": ["cap_sys_admin"]}) == held() | {SYS_ADMIN}
    assert held(capabilities={"drop": ["ALL"], "add": ["CHOWN"]}) == {CHOWN}
    assert held(capabilities={"add": ["ALL"]}) == held(privileged=True)


@pytest.mark.parametrize("key", ["add", "drop"])
def test_a_capability_that_does_not_exist_is_refused(key: str) -> None:
    with pytest.raises(EnvironmentFault, match="there is no capability FLY"):
        held(capabilities={key: ["FLY"]})


def test_fields_of_the_container_count_before_those_of_the_pod() -> None:
    pod = {"spec": {"securityContext": {"runAsUser": 1, "runAsGroup": 2}}}
    assert security_context({"securityContext": {"runAsUser": 3}}, pod) == {"runAsUser": 3, "runAsGroup": 2}
    assert security_context({}, pod) == {"runAsUser": 1, "runAsGroup": 2}


def test_only_earlier_attempts_of_the_same_container_are_removed(tmp_path: Path) -> None:
    for name in ("a-0", "a-1", "a-b-0", "ab-0", "a-x"):
        (tmp_path / name).mkdir()
    root._forget_older(tmp_path / "a-2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-b-0", "a-x", "ab-0"]
    root._forget_older(tmp_path / "none" / "a-0")


def test_a_container_may_mount_a_resolver_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "resolv.conf"
    monkeypatch.setattr(root, "_RESOLVER", str(file))
    assert resolver(()) == ()
    file.touch()
    [mount] = resolver(())
    assert (mount.source, mount.target, mount.read_only) == (str(file), str(file), True)
    assert resolver((Mount(source="/x", target=str(file), read_only=False),)) == ()
