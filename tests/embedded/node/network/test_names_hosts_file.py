"""`embedded/node/network/names.py`: A pod's /etc/hosts, which changes while programs read it."""

from __future__ import annotations

from pathlib import Path

from phalanx.embedded.node.network import names


def live(path: Path) -> set[str]:
    return {line.strip() for line in path.read_text().splitlines() if line and not line.startswith("#")}


def test_a_hosts_file_follows_and_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    names.create(path, ["127.64.0.1 me"], b"127.0.0.1 localhost")
    head = {"127.64.0.1 me", "127.0.0.1 localhost"}
    for number in range(50):
        lines = {f"127.64.0.{number} p-{number}.s.default", f"127.64.1.{number} s"}
        names.show(path, lines)
        assert live(path) == head | lines
    assert path.stat().st_size < 1000
    names.show(path, [])
    assert live(path) == head


def test_a_line_longer_than_a_block_keeps_its_end(tmp_path: Path) -> None:
    path, line = tmp_path / "hosts", f"127.64.0.1 {'x' * 60}.default.svc.cluster.local {'x' * 60}"
    names.create(path, [], b"")
    names.show(path, ["127.64.0.2 short", line])
    names.show(path, [line])
    assert live(path) == {line}
