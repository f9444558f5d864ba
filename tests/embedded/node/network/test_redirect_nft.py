"""`embedded/node/network/forward.py`: rules of the kernel, by nft(8)."""

from __future__ import annotations

from phalanx.embedded.node.network import forward


def test_a_table_is_taken_away_whether_or_not_it_is_there() -> None:
    assert forward.without("inet x") == "table inet x\ndelete table inet x\n"
