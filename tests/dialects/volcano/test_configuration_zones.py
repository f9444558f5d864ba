"""Numatopologies as zones of nodes."""

from __future__ import annotations

from typing import Any

from phalanx.dialects.volcano.definitions.configuration import read_zones
from phalanx.dialects.volcano.pod_groups import options_of
from phalanx.model.node import Zone


def test_the_cpus_of_each_zone_whatever_of_them_is_free() -> None:
    detail = {str(cpu): {"numa": cpu // 4} for cpu in range(8)}
    spec: Any = {"numares": {"cpu": {"allocatable": "1-3,4-7", "capacity": 8}}, "cpuDetail": detail}
    flat: Any = {"cpuDetail": {"0": {"numa": 0}, "1": {}, "2": None}}
    found = read_zones({"n1": {"spec": spec}, "flat": {"spec": flat}, "odd": {"spec": {"numares": None}}})
    assert found == {
        "n1": (Zone(name="0", allocatable=(("cpu", 4000),)), Zone(name="1", allocatable=(("cpu", 4000),))),
        "flat": (Zone(name="0", allocatable=(("cpu", 1000),)),),
    }
    spec["numares"]["cpu"]["allocatable"] = "7"
    assert read_zones({"n1": {"spec": spec}})["n1"] == found["n1"]


def test_policies() -> None:
    def said(policy: str) -> str | None:
        return options_of({"annotations": {"volcano.sh/numa-topology-policy": policy}}, "volcano").get(
            "phalanx.dev/numa-alignment"
        )

    assert [said(one) for one in ("single-numa-node", "restricted", "best-effort", "none")] == [
        *("preferred", "preferred", "preferred", None)
    ]
