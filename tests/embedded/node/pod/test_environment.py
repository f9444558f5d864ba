"""A container's environment and command line."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

import pytest

from phalanx.client.kind import CONFIG_MAPS, Kind
from phalanx.embedded.node.container.image import Image, read_images
from phalanx.embedded.node.pod.environment import EnvironmentFault, command_line, environment, expand
from phalanx.errors import PhalanxError
from tests.embedded.node.objects import container, pod

CONFIG = {"data": {"colour": "red", "bad key!": "x"}}
SECRET = {"data": {"password": base64.b64encode(b"s3cret").decode()}}


async def look_up(kind: Kind, namespace: str, name: str) -> Any:
    return {"there": CONFIG if kind is CONFIG_MAPS else SECRET}.get(name)


def variables(*env: Any, **more: Any) -> dict[str, str]:
    box = container(env=list(env), **more)
    owner = pod(box, name="web", meta={"labels": {"app": "x"}}, nodeName="n1", serviceAccountName="bot")
    owner["status"] = {"podIP": "127.64.0.1", "hostIP": "127.0.0.1", "podIPs": [{"ip": "127.64.0.1"}]}
    return asyncio.run(environment(box, owner, {"cpu": "6", "memory": "1Gi"}, look_up))


def source(**value: Any) -> Any:
    return {"name": "X", "valueFrom": value}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$(A)-$(B)", "1-$(B)"), ("$$(A)", "$(A)"), ("$A ${A}", "$A ${A}"), ("$(A", "$(A"), ("cost: 5$", "cost: 5$")],
)
def test_references_are_expanded(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


def test_later_variables_see_earlier_ones() -> None:
    assert variables({"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C"}) == {
        "A": "1",
        "B": "1$(C)",
        "C": "",
    }


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "uid-web"),
        ("metadata.labels['app']", "x"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "bot"),
        ("status.podIP", "127.64.0.1"),
        ("status.podIPs", "127.64.0.1"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields_of_the_pod(path: str, expected: str) -> None:
    assert variables(source(fieldRef={"fieldPath": path})) == {"X": expected}


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("requests.cpu", "1m", "250"),
        ("requests.cpu", None, "1"),
        ("limits.cpu", None, "6"),
        ("limits.memory", "1Mi", "1024"),
    ],
)
def test_resources_round_up_and_fall_back_to_the_node(resource: str, divisor: str | None, expected: str) -> None:
    ref = {"resource": resource, **({"divisor": divisor} if divisor else {})}
    assert variables(source(resourceFieldRef=ref), resources={"requests": {"cpu": "250m"}}) == {"X": expected}


def test_values_of_configmaps_and_secrets() -> None:
    assert variables(source(configMapKeyRef={"name": "there", "key": "colour"})) == {"X": "red"}
    assert variables(source(secretKeyRef={"name": "there", "key": "password"})) == {"X": "s3cret"}


def test_whole_configmaps_without_keys_that_are_no_names() -> None:
    assert variables(envFrom=[{"prefix": "P_", "configMapRef": {"name": "there"}}]) == {"P_colour": "red"}


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ({"configMapKeyRef": {"name": "gone", "key": "k"}}, 'configmap "gone" not found'),
        ({"secretKeyRef": {"name": "gone", "key": "k"}}, 'secret "gone" not found'),
        ({"configMapKeyRef": {"name": "there", "key": "k"}}, "couldn't find key k in ConfigMap default/there"),
    ],
)
def test_what_is_missing_is_said_unless_optional(ref: Any, message: str) -> None:
    with pytest.raises(EnvironmentFault) as error:
        variables(source(**ref))
    assert str(error.value) == message
    ((kind, inner),) = ref.items()
    assert variables(source(**{kind: {**inner, "optional": True}})) == {}


def test_the_command_line_is_command_then_args() -> None:
    assert command_line(container("c", "echo", args=["$(A)"]), {"A": "1"}) == ("echo", "1")


def test_the_machine_has_no_entry_point() -> None:
    with pytest.raises(EnvironmentFault, match="has no command"):
        command_line({"name": "c"}, {})
    assert command_line({"name": "c", "args": ["echo", "x"]}, {}) == (
        "echo",
        "x",
    )  # as a runtime has it: execve(2) of them


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, ["/start", "--quick"]),
        ({"args": ["--slow"]}, ["/start", "--slow"]),
        ({"command": ["sh"]}, ["sh"]),
        ({"command": ["sh"], "args": ["-c", "ls"]}, ["sh", "-c", "ls"]),
    ],
)
def test_command_and_args_replace_those_of_the_image(said: Any, expected: list[str]) -> None:
    image = Image(entrypoint=("/start",), command=("--quick",))
    assert list(command_line({"name": "c", **said}, {}, image)) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("images: {a: {entry: [x]}}", "`entry`"),
        ("images: {a: {paths: {relative: .}}}", "image a: the path 'relative' is not an absolute path below /"),
        ("images: {a: {paths: {/app: ./nowhere}}}", "nowhere, the source of /app, does not exist"),
        ("images: {a: {workingDir: app}}", "workingDir 'app' does not begin with /"),
        ("images: [", "is not YAML"),
        ("{}", "missing required field `images`"),
    ],
)
def test_what_is_wrong_with_images_is_said(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "images.yaml").write_text(text)
    with pytest.raises(PhalanxError, match=re.escape(complaint)):
        read_images(tmp_path / "images.yaml")
