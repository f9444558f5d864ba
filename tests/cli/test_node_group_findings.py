"""phalanx doctor on node groups: their providers, lost nodes and flavors."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.commands.administer.node_group_findings import PROBLEM, WARNING, of_node_groups
from phalanx.cli.local.node_groups.file import read_node_groups
from phalanx.client.kind import NODES, Kind
from phalanx.dialects.kueue.kinds import RESOURCE_FLAVORS
from phalanx.kube.install.definitions import FLAVORS
from tests.cli.doctored import Cluster


async def test_providers_of_node_groups_are_asked_and_lost_nodes_are_named(tmp_path: Path) -> None:
    good, bad, file = tmp_path / "good", tmp_path / "bad", tmp_path / "groups.yaml"
    states = '{"name": "g-1", "node": "n1", "state": "running"}, {"name": "g-2", "state": "running"}'
    good.write_text(f"#!/bin/sh\necho '{{\"nodes\": [{states}]}}'\n")
    bad.write_text("#!/bin/sh\necho no login >&2\nexit 1\n")
    for each in (good, bad):
        each.chmod(0o755)
    file.write_text(f"""
nodeGroups:
- {{name: a, provider: {{exec: {{command: [{good}]}}}}, allocatable: {{cpu: 1}}}}
- {{name: b, provider: {{exec: {{command: [{bad}]}}}}, allocatable: {{cpu: 1}}}}
- {{name: c, provider: {{autoscaler: {{}}}}, allocatable: {{cpu: 1}}}}
""")
    node = {"metadata": {"name": "n1", "labels": {"phalanx.dev/node-group": "a"}}}
    first, second, third = await of_node_groups(Cluster((NODES, "n1", node)), read_node_groups(file))
    text = "its provider lists 2 running; the cluster has 1 of its nodes; not in the cluster: g-2"
    assert (first.about, first.state, first.text) == ("node group a", WARNING, text)
    assert "with the label phalanx.dev/node-group=a" in first.mend
    assert second.state == PROBLEM
    assert "ended with status 1: no login; try it by hand: echo" in second.text
    assert (third.state, third.text) == ("ok", "an autoscaler adds its nodes, of which the cluster has 0")


@pytest.mark.parametrize(("kind", "field"), [(FLAVORS, "labels"), (RESOURCE_FLAVORS, "nodeLabels")])
async def test_a_node_group_whose_nodes_are_of_no_flavor_is_named(tmp_path: Path, kind: Kind, field: str) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text("""
nodeGroups:
- {name: a, provider: {autoscaler: {}}, allocatable: {cpu: 1}, labels: {pool: a100}}
- {name: b, provider: {autoscaler: {}}, allocatable: {cpu: 1}, labels: {pool: h100}}
""")
    groups = read_node_groups(file)
    assert {each.state for each in await of_node_groups(Cluster(), groups)} == {"ok"}, "without flavors all fit"
    flavor = {"metadata": {"name": "big"}, "spec": {field: {"pool": "a100"}}}
    *_, last = await of_node_groups(Cluster((kind, "big", flavor)), groups)
    assert (last.about, last.state) == ("node group b", WARNING)
    assert last.text == "its nodes belong to none of the 1 flavors; nodes of big also have pool=a100"
