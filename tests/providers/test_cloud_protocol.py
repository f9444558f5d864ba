"""`providers/counted/cloud_protocol.py`: connections to a provider, and what it says of its groups."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from phalanx.cli.local.node_groups.cloud_fields import complete_cloud
from phalanx.cli.local.node_groups.file import GroupInFile, read_node_groups
from phalanx.cli.local.node_groups.provider_fields import CloudProvider
from phalanx.embedded.apiserver.auth.authority import ensure
from phalanx.errors import PhalanxError
from phalanx.model.node import Taint
from phalanx.providers.counted.cloud_protocol import CloudAddress, open_cloud, wrong_address
from phalanx.providers.provider import ProviderError
from phalanx.rpc.library import grpc
from tests.providers.cloud import Cloud, CloudGroup, template
from tests.providers.test_cloud import served


@pytest.mark.parametrize(("content", "price"), [(b"\xff\xff", 1.0), (None, float("nan")), (None, -1.0)])
def test_a_template_or_price_that_is_none_is_an_error(tmp_path: Path, content: bytes | None, price: float) -> None:
    class Garbled:
        def SerializeToString(self) -> bytes:  # noqa: N802 (as of a message)
            return content or b""

    cloud = Cloud({"g": CloudGroup(price=price, node=Garbled())})

    async def scene(at: CloudAddress) -> None:
        with pytest.raises(PhalanxError, match="node group gpu: the values of its provider cannot be used"):
            await completed(in_file(tmp_path, "allocatable: {cpu: 6}", "labels: {pool: g}"))

    served(tmp_path, cloud, scene)


def test_calls_have_tls_with_certificates_of_both_sides(tmp_path: Path) -> None:
    ensure(tmp_path, "127.0.0.1")
    key, own, authority = (tmp_path / name for name in ("server.key", "server.crt", "ca.crt"))
    pair = [(key.read_bytes(), own.read_bytes())]
    tls = grpc.ssl_server_credentials(pair, authority.read_bytes(), require_client_auth=True)

    async def run() -> None:
        cloud = Cloud({"g": CloudGroup(target=3)})
        async with asyncio.timeout(60), cloud.served(tmp_path, tls) as at:
            at = at._replace(authority=authority, certificate=own, key=key)
            async with open_cloud(at) as service:
                assert (await service.call("NodeGroupTargetSize", id="g")).targetSize == 3
            for other in (at._replace(certificate=None, key=None), at._replace(authority=None)):
                with pytest.raises(ProviderError, match="cannot be called"):
                    async with open_cloud(other) as service:
                        await service.call("NodeGroupTargetSize", id="g")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("address", "tls", "error"),
    [
        ("unix:/run/nodes.sock", False, ""),
        ("127.0.0.1:8086", False, ""),
        ("[::1]:8086", False, ""),
        ("nodes.example.com:8086", True, ""),
        ("nodes.example.com:8086", False, "is not encrypted: set caFile"),
        ("nodes.example.com", True, "is neither HOST:PORT nor unix:PATH"),
        ("https://nodes.example.com:8086", True, "is neither HOST:PORT"),
        ("nodes.example.com:99999", True, "is neither HOST:PORT"),
        ("unix:nodes.sock", False, "has no absolute path"),
    ],
)
def test_an_address_is_encrypted_or_on_this_machine(address: str, tls: bool, error: str) -> None:
    found = wrong_address(address, tls=tls)
    assert error in found
    assert bool(error) == bool(found)


def in_file(tmp_path: Path, *fields: str) -> GroupInFile:
    file, more = tmp_path / "groups.yaml", "".join(f"  {each}\n" for each in fields)
    provider = f"provider: {{externalgrpc: {{address: 'unix:{tmp_path}/cloud.sock', group: g}}}}"
    file.write_text(f"nodeGroups:\n- name: gpu\n  {provider}\n{more}")
    return read_node_groups(file)[0]


async def completed(group: GroupInFile) -> GroupInFile:
    assert isinstance(group.provider, CloudProvider)
    return await complete_cloud(group, group.provider)


def test_bounds_template_and_price_come_from_the_provider_unless_the_file_states_them(tmp_path: Path) -> None:
    stated = template("g", **{"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"})
    stated.spec.taints.add(key="gpu", value="yes", effect="NoSchedule")
    cloud = Cloud({"g": CloudGroup(minimum=1, maximum=7, price=2.5, node=stated)})

    async def scene(at: CloudAddress) -> None:
        group = (await completed(in_file(tmp_path))).group
        assert (group.min_nodes, group.max_nodes, group.price_per_hour) == (1, 7, 2.5)
        has = {"cpu": 8000, "memory": 32 << 30, "nvidia.com/gpu": 2, "pods": 110}
        assert dict(group.template.allocatable) == has
        assert dict(group.template.labels) == {"pool": "g", "phalanx.dev/node-group": "gpu"}
        assert group.template.taints == (Taint("gpu", "yes"),)
        own = in_file(
            tmp_path, "allocatable: {cpu: 6}", "labels: {pool: g, zone: b}", "max: 3", "price: 9", "taints: []"
        )
        group = (await completed(own)).group
        assert (group.min_nodes, group.max_nodes, group.price_per_hour, group.template.taints) == (1, 3, 9, ())
        assert dict(group.template.allocatable) == {"cpu": 6000, "pods": 110}
        assert dict(group.template.labels)["zone"] == "b"

    served(tmp_path, cloud, scene)


def test_what_a_provider_cannot_say_is_needed_in_the_file(tmp_path: Path) -> None:
    cloud = Cloud({"g": CloudGroup(), "h": CloudGroup()})

    async def scene(at: CloudAddress) -> None:
        with pytest.raises(PhalanxError, match="it does not state the resources of a node; write `allocatable`"):
            await completed(in_file(tmp_path))
        group = (await completed(in_file(tmp_path, "allocatable: {cpu: 6}", "labels: {pool: g}"))).group
        assert group.price_per_hour == 0.0
        cloud.groups = {"h": CloudGroup()}
        with pytest.raises(PhalanxError, match=r"node group gpu: .* it has no group g; its groups are h"):
            await completed(in_file(tmp_path, "allocatable: {cpu: 6}"))

    served(tmp_path, cloud, scene)
