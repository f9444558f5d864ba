"""`cli/submission/moving/portable.py`: an object as another cluster can create it."""

from __future__ import annotations

from phalanx.cli.submission.moving.portable import contains, portable
from phalanx.client.kind import CONFIG_MAPS


def test_an_object_is_there_if_the_target_has_all_of_it() -> None:
    mine = {"spec": {"a": 1, "list": [{"x": 1}], "empty": {}}}
    assert contains({"spec": {"a": 1, "list": [{"x": 1, "default": 2}], "more": 3}}, mine)
    assert not contains({"spec": {"a": 2, "list": [{"x": 1}]}}, mine)
    assert not contains({"spec": {"a": 1, "list": []}}, mine)
    assert not contains({"data": {"a": "1", "b": "2"}}, {"data": {"a": "1"}}), "a ConfigMap may not have more"
    assert not contains({}, {"gang": False})
    body = portable(
        CONFIG_MAPS,
        {
            "metadata": {
                "name": "c",
                "uid": "u",
                "ownerReferences": [{}],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x", "mine": "y"},
            },
            "data": {},
            "status": {},
        },
    )
    meta = {"name": "c", "annotations": {"mine": "y"}}
    assert body == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}}
