"""RDMA cards divided among containers: what the kernel is told, and the refusal of a machine that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.embedded.node.container.cgroup import CgroupLimits, Cgroups, Hierarchy
from phalanx.embedded.node.machine.rdma import parse_rdma, rdma_cards, rdma_limits, rdma_resources, require_rdma
from phalanx.errors import PhalanxError


def test_what_is_offered_becomes_resources_and_limits_of_each_card(tmp_path: Path) -> None:
    offered = parse_rdma("hca_handle=64,hca_object=8192")
    assert rdma_resources(offered) == {"rdma/hca_handle": "64", "rdma/hca_object": "8192"}
    limits = rdma_limits(offered, ("mlx5_0", "mlx5_1"), {"rdma/hca_handle": 2, "cpu": 1000})
    groups = Cgroups([Hierarchy(version=1, controllers=("rdma",), own=tmp_path)], "node")
    group = groups.create("uid", "main-0", CgroupLimits(rdma=limits))
    assert (Path(group.dirs[0]) / "rdma.max").read_text() == (
        "mlx5_0 hca_handle=2 hca_object=0\nmlx5_1 hca_handle=2 hca_object=0\n"
    )
    assert rdma_limits({}, ("mlx5_0",), {}) == {}


@pytest.mark.parametrize(
    "text", ["", "hca_handle", "hca_handle=0", "hca_handle=x", "qp=1", "hca_handle=1,hca_handle=2"]
)
def test_a_wrong_amount_is_refused(text: str) -> None:
    with pytest.raises(PhalanxError, match=r"--local-rdma .* is not valid. Nothing was started. Write hca_handle=N"):
        parse_rdma(text)


def test_a_machine_that_cannot_divide_them_refuses_at_the_start(tmp_path: Path) -> None:
    assert rdma_cards(tmp_path / "none") == ()
    (tmp_path / "mlx5_0").mkdir()
    assert rdma_cards(tmp_path) == ("mlx5_0",)
    with pytest.raises(
        PhalanxError, match=r"cannot be enforced on this machine: it has no RDMA card .* Nothing was started"
    ):
        require_rdma((), enforced=True)
    with pytest.raises(PhalanxError, match="its kernel has no rdma controller of cgroups"):
        require_rdma(("mlx5_0",), enforced=False)
    require_rdma(("mlx5_0",), enforced=True)
