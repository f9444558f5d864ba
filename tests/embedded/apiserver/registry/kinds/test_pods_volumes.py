"""The volumes of a pod: what is refused of them (messages of kube-apiserver 1.36)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import pod, refusal

MODE = "must be a number between 0 and 0777 (octal), both inclusive"
FIRST, ITEM = "spec.volumes[0]", {"key": "k", "path": "p"}


def projected(*sources: Any) -> Any:
    return [{"name": "w", "projected": {"sources": list(sources)}}]


@pytest.mark.parametrize(
    ("volumes", "lines"),
    [
        ([{"name": "w"}, {"name": "w", "emptyDir": {}}], ['spec.volumes[1].name: Duplicate value: "w"']),
        (
            [{"name": "w", "emptyDir": {}, "secret": {"secretName": "s"}}],
            [f"{FIRST}.secret: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            [{"name": "w", "emptyDir": {"sizeLimit": "-1"}}],
            [f"{FIRST}.emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
        ),
        (
            [{"name": "w", "configMap": {"name": "m", "defaultMode": 512}}],
            [f"{FIRST}.configMap.defaultMode: Invalid value: 512: {MODE}"],
        ),
        (
            [{"name": "w", "configMap": {"name": "m", "items": [{"key": "k", "path": "../up"}]}}],
            [f"{FIRST}.configMap.items[0].path: Invalid value: \"../up\": must not contain '..'"],
        ),
        (
            [{"name": "w", "downwardAPI": {"items": [{"path": "p"}]}}],
            [f"{FIRST}.downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"],
        ),
        (projected({"secret": {"name": "s", "items": [ITEM]}}), []),
        (
            projected({"secret": {"name": "s", "items": [ITEM]}}, {"configMap": {"name": "m", "items": [ITEM]}}),
            [f'{FIRST}.projected: Invalid value: "m": conflicting duplicate paths'],
        ),
        (
            projected({"serviceAccountToken": {"path": "t", "expirationSeconds": 599}}),
            [
                f"{FIRST}.projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: "
                "may not specify a duration less than 10 minutes",
                f"{FIRST}.projected.sources[0].serviceAccountToken: Forbidden: must not be specified when "
                "serviceAccountName is not set",
            ],
        ),
    ],
    ids=str,
)
def test_wrong_volumes_are_refused(volumes: Any, lines: list[str]) -> None:
    assert refusal("pods", pod(volumes=volumes)) == lines
