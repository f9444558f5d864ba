"""Tables of GPU jobs: Philly, Muri, Chronus, openb; and how a file's format is recognised."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from phalanx.simulator.readers import chronus, muri, openb, philly, swf
from phalanx.simulator.readers.lines import TraceError
from phalanx.simulator.readers.recognise import is_node_list, reader_of
from tests.simulator.builders import DATA, KTH


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("philly.csv", philly.read),
        ("muri.csv", muri.read),
        ("chronus.csv", chronus.read),
        ("openb-pods.csv", openb.read),
        (KTH.name, swf.read),
    ],
)
def test_formats_are_recognised(name: str, read: object) -> None:
    assert reader_of(DATA / name) is read


@pytest.mark.parametrize("name", ["philly.csv", "muri.csv", "chronus.csv", "openb-pods.csv"])
def test_however_a_table_is_written_it_is_read(tmp_path: Path, name: str) -> None:
    """Packed, with a mark before its header, names in quotes, lines that end as elsewhere."""
    header, *rows = (DATA / name).read_text().splitlines()
    quoted = ",".join(f'"{column}"' for column in header.split(","))
    path = tmp_path / "table"
    path.write_bytes(gzip.compress(("\ufeff" + "\r\n".join([quoted, *rows])).encode()))
    read = reader_of(path)
    assert read is reader_of(DATA / name)
    assert read(path).tasks == read(DATA / name).tasks


def test_other_files_are_not_taken_for_traces(tmp_path: Path) -> None:
    for text in ("", "a,b\n1,2\n", "\x00\x01\n"):
        path = tmp_path / "file.csv"
        path.write_text(text)
        with pytest.raises(TraceError, match="no trace that can be read"):
            reader_of(path)
    assert is_node_list(DATA / "openb-nodes.csv")
    assert not is_node_list(DATA / "openb-pods.csv")
