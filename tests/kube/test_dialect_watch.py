"""`kube/capacity/dialect_watch.py`: translate definitions of other schedulers into queues of the tree."""

from __future__ import annotations

from phalanx.client.informer import Change
from phalanx.client.kind import NAMESPACES
from phalanx.dialects.frame.dialect import Said
from phalanx.dialects.yunikorn.dialect import CONFIGURATIONS, YUNIKORN
from phalanx.kube.capacity.dialect_watch import DialectWatch
from phalanx.kube.read.queue import QueueCache
from tests.kube.double import Object
from tests.kube.test_yunikorn import QUEUES


def test_a_namespace_that_says_nothing_has_no_gang_looked_at_again() -> None:
    spaces: dict[str, Object] = {}
    marked: list[str] = []
    watch = DialectWatch([YUNIKORN], QueueCache(), objects=lambda kind: spaces, mark=marked.append)
    list(watch.events())
    assert watch.claim(Said(gang="g", namespace="n", queue="yunikorn/", options={})) is not None

    def create(name: str, **notes: str) -> None:
        spaces[name] = {"metadata": {"name": name, "uid": name, "annotations": notes}}
        assert watch.on_change(Change(kind=NAMESPACES, old=None, new=spaces[name]))
        list(watch.events())

    create("plain")
    assert marked == []
    create("tenant", **{"yunikorn.apache.org/parentqueue": "root.labs"})
    assert marked == ["g"]


def test_that_a_configuration_is_refused_is_said_on_its_config_map() -> None:
    said = list[str]()
    maps: dict[str, Object] = {}
    watch = DialectWatch(
        (YUNIKORN,),
        QueueCache(),
        objects=lambda kind: maps if kind is CONFIGURATIONS else {},
        mark=lambda gang: None,
        invalid=lambda kind, obj, text: said.append(f"{kind.name} {obj['metadata']['name']}: {text}"),
    )
    for text in (QUEUES, "partitions:\n  - colour: red"):
        meta = {"name": "yunikorn-configs", "namespace": "yunikorn", "uid": "u"}
        before, maps["yunikorn/yunikorn-configs"] = (
            maps.get("yunikorn/yunikorn-configs"),
            {"metadata": meta, "data": {"queues.yaml": text}},
        )
        watch.on_change(Change(kind=CONFIGURATIONS, old=before, new=maps["yunikorn/yunikorn-configs"]))
        list(watch.events())
    (found,) = said
    assert found.startswith(
        "ConfigMap yunikorn-configs: queues.yaml is invalid as a whole: line 2: there is no field 'colour'"
    )
    assert found.endswith("the last valid version stays in effect")
