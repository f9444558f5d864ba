"""`cli/local/node_groups/cloud_fields.py`: the fields of a group that its cloud provider states, and invalid ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.local.node_groups import cloud_fields
from phalanx.cli.local.node_groups.cloud_fields import complete_cloud
from phalanx.cli.local.node_groups.file import GroupInFile, read_node_groups
from phalanx.cli.local.node_groups.provider_fields import CloudProvider
from phalanx.errors import PhalanxError
from phalanx.model.node import NodeGroup, Taint
from phalanx.providers.counted.cloud_protocol import NotOffered, message
from phalanx.providers.provider import ProviderError
from tests.providers.cloud import template

NODE = template("a", cpu="4", memory="8Gi", pods="20")
KNOWN = {"g": (1, 5), "h": (0, 1)}


class Service:
    """A provider that answers each call with a function. It does not offer calls without a function."""

    def __init__(self, **answers: Callable[..., Any]) -> None:
        self.asked: dict[str, dict[str, Any]] = {}
        self._answers = {"NodeGroups": lambda: groups(KNOWN), **answers}

    async def call(self, name: str, **fields: Any) -> Any:
        self.asked[name] = fields
        if name not in self._answers:
            raise NotOffered(name)
        return self._answers[name](**fields)


def groups(known: dict[str, tuple[int, int]]) -> Any:
    found = [SimpleNamespace(id=name, minSize=least, maxSize=most) for name, (least, most) in known.items()]
    return SimpleNamespace(nodeGroups=found)


def node(made: Any = NODE) -> Callable[..., Any]:
    return lambda **_: SimpleNamespace(nodeBytes=made.SerializeToString())


def price(of: float) -> Callable[..., Any]:
    return lambda **_: SimpleNamespace(price=of)


@pytest.fixture
def in_file(tmp_path: Path) -> Callable[[str], GroupInFile]:
    def read(more: str = "") -> GroupInFile:
        provider = '{externalgrpc: {address: "unix:/cloud.sock", group: g}}'
        (tmp_path / "groups.yaml").write_text(f"nodeGroups:\n- {{name: gpu, provider: {provider}{more}}}\n")
        (found,) = read_node_groups(tmp_path / "groups.yaml")
        return found

    return read


def completed(group: GroupInFile, service: Service, monkeypatch: pytest.MonkeyPatch) -> NodeGroup:
    @asynccontextmanager
    async def open_cloud(at: Any) -> AsyncIterator[Service]:
        yield service

    monkeypatch.setattr(cloud_fields, "open_cloud", open_cloud)
    assert isinstance(group.provider, CloudProvider)
    return asyncio.run(complete_cloud(group, group.provider)).group


def test_the_provider_states_what_the_file_leaves_out(in_file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(NodeGroupTemplateNodeInfo=node(), PricingNodePrice=price(2.5))
    found = completed(in_file(), service, monkeypatch)
    assert (found.min_nodes, found.max_nodes, found.price_per_hour) == (1, 5, 2.5)
    assert dict(found.template.allocatable) == {"cpu": 4000, "memory": 8 << 30, "pods": 20}
    assert ("pool", "a") in found.template.labels
    assert "kubernetes.io/hostname" not in dict(found.template.labels)  # it belongs to a single node
    asked = service.asked["PricingNodePrice"]
    assert asked["endTimestamp"].seconds - asked["startTimestamp"].seconds == 3600
    assert {pair.key: pair.value for pair in asked["node"].labels}["pool"] == "a"


def test_the_file_takes_precedence(in_file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own = in_file(", min: 2, max: 3, price: 9, allocatable: {cpu: 1}, labels: {pool: b}, "
                  "taints: [{key: own, effect: NoSchedule}]")  # fmt: skip
    service = Service(NodeGroupTemplateNodeInfo=node(), PricingNodePrice=price(2.5))
    found = completed(own, service, monkeypatch)
    assert (found.min_nodes, found.max_nodes, found.price_per_hour) == (2, 3, 9)
    assert dict(found.template.allocatable)["cpu"] == 1000
    assert dict(found.template.labels)["pool"] == "b"
    assert found.template.taints == (Taint("own", "", "NoSchedule"),)
    assert "PricingNodePrice" not in service.asked


def test_a_provider_without_prices_and_templates(in_file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = completed(in_file(", allocatable: {cpu: 1}"), Service(), monkeypatch)
    assert (found.price_per_hour, dict(found.template.allocatable)["cpu"]) == (0.0, 1000)
    with pytest.raises(PhalanxError, match="does not state the resources of a node; write `allocatable`"):
        completed(in_file(), Service(), monkeypatch)


def test_a_template_without_allocatable_amounts_has_its_capacity(in_file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = message("Node")()
    made.status.capacity.add(key="cpu").value.string = "2"
    service = Service(NodeGroupTemplateNodeInfo=node(made))
    found = completed(in_file(), service, monkeypatch)
    assert dict(found.template.allocatable)["cpu"] == 2000
    assert dict(found.template.allocatable)["pods"] == 110


INVALID = "node group gpu: the values of its provider cannot be used: "


@pytest.mark.parametrize(
    ("more", "answers", "complaint"),
    [
        ("", {"NodeGroups": lambda: groups({"a": (0, 1)})}, "it has no group g; its groups are a"),
        ("", {"NodeGroups": lambda: groups({})}, "it has no group g; its groups are none"),
        ("", {"NodeGroups": lambda: groups({"g": (3, 2)})}, "the minimum of 3 and the maximum of 2 nodes"),
        ("", {"NodeGroups": lambda: groups({"g": (0, 0)})}, "the minimum of 0 and the maximum of 0 nodes"),
        (", min: 6", {}, "the minimum of 6 and the maximum of 5 nodes"),
        ("", {"NodeGroupTemplateNodeInfo": node(template("a", cpu="many"))}, "'many' is not a quantity"),
        ("", {"NodeGroupTemplateNodeInfo": node(template("a", cpu="-2"))}, "its node has an amount of cpu below 0"),
        ("", {"NodeGroupTemplateNodeInfo": lambda **_: SimpleNamespace(nodeBytes=b"\xff\xff")}, ""),
        ("", {"PricingNodePrice": price(-1.0)}, "-1.0 is not a valid price"),
        ("", {"PricingNodePrice": price(float("nan"))}, "nan is not a valid price"),
        ("", {"PricingNodePrice": price(float("inf"))}, "inf is not a valid price"),
    ],
)
def test_invalid_values_are_refused(
    more: str, answers: dict[str, Any], complaint: str, in_file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(**{"NodeGroupTemplateNodeInfo": node(), **answers})
    with pytest.raises(PhalanxError) as caught:
        completed(in_file(more), service, monkeypatch)
    assert str(caught.value).startswith(INVALID + complaint)


def test_a_provider_that_is_away_stops_only_a_group_that_needs_it(
    in_file: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> Any:
        raise ProviderError("it does not answer")

    own = in_file(", allocatable: {cpu: 1}")
    with caplog.at_level(logging.WARNING):
        assert completed(own, Service(NodeGroups=away), monkeypatch) == own.group
    assert "node group gpu: it does not answer; only the fields of the file are used" in caplog.text
    with pytest.raises(PhalanxError, match="it does not answer; write `allocatable` of a node into the file"):
        completed(in_file(), Service(NodeGroups=away), monkeypatch)
