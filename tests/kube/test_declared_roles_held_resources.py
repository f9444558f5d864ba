"""`kube/gang/spec/declared_roles.py`: reserve capacity for pods that a running driver has yet to create."""

from __future__ import annotations

from phalanx.kube.gang.spec.declared_roles import equal_pieces, pods_in_pieces, read_resources, remaining_resources
from phalanx.model.pod import Shape


def test_pieces_for_known_members_are_equal() -> None:
    rest = remaining_resources(read_resources("cpu=3,memory=3Gi"), [(("cpu", 1000), ("memory", 2**30), ("pods", 1))])
    assert equal_pieces(rest, 2, {}) == (2, (("cpu", 1000), ("memory", 2**30), ("pods", 1)))


def test_blocks_are_as_few_as_the_largest_node_allows() -> None:
    assert equal_pieces({"cpu": 10_000}, None, {"cpu": 4_000})[0] == 3


def test_what_a_block_holds_is_counted_in_pods_of_the_real_shape() -> None:
    assert pods_in_pieces([(("cpu", 2000), ("pods", 1))] * 2, Shape((("cpu", 1500), ("pods", 1)))) == 2
