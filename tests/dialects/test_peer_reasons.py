"""Every reason has its word in each peer, or it is said why not; the guide shows it, and names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

from phalanx.dialects.peer_reasons import PEERS, Ignored
from phalanx.model.reason import Code

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guide" / "peers.md").read_text()
REASONS = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (.+) \| (.+) \|$", GUIDE, re.MULTILINE)
SCENARIOS = re.findall(r"^\| (\d+|A5 .+?) \| (.+?) \| (.+) \|$", GUIDE, re.MULTILINE)


def test_every_code_is_mapped_or_ignored_with_why() -> None:
    assert list(PEERS) == list(Code)
    assert all(word.why if isinstance(word, Ignored) else word for words in PEERS.values() for word in words)


def test_the_guide_shows_the_table() -> None:
    said = [tuple(each.strip("`") for each in row) for row in REASONS]
    assert said == [
        (str(code), *("–" if isinstance(each, Ignored) else each for each in PEERS[code])) for code in PEERS
    ]


def test_every_scenario_of_the_peers_is_shown_by_files_that_exist() -> None:
    numbers = [int(number) for number, _, _ in SCENARIOS if number.isdigit()]
    assert numbers == list(range(1, 44, 2))
    for number, _, shown in SCENARIOS:
        files = re.findall(r"`(\w+/\w+)`", shown)
        assert files, number
        for name in files:
            assert (ROOT / "tests" / "scenarios" / f"{name}.txt").exists(), name
