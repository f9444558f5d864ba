"""Archives of hostile and of honest authors, unpacked."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from phalanx.embedded.node.images.unpack import Allowance, unpack
from phalanx.errors import PhalanxError
from tests.embedded.node.images.roots import archive, member

Member = tuple[tarfile.TarInfo, bytes]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def unpacked(target: Path, *members: Member, layer: bool = False, **allowed: int) -> Allowance:
    allowance = Allowance(**allowed)
    unpack(io.BytesIO(archive(*members)), target, allowance, layer=layer)
    return allowance


def link(name: str, to: str) -> Member:
    return member(name, type=tarfile.SYMTYPE, linkname=to)


def hard(name: str, to: str) -> Member:
    return member(name, type=tarfile.LNKTYPE, linkname=to)


def test_files_folders_links_and_modes_are_there(target: Path) -> None:
    data = archive(
        member("./etc", type=tarfile.DIRTYPE, mode=0o755),
        member("./etc/a", b"hello", mode=0o640),
        member("deep/er/b", b"made", mode=0o4755),
        link("etc/l", "/etc/a"),
        hard("etc/h", "./etc/a"),
    )
    assert unpack(io.BytesIO(data), target, Allowance(), layer=False) == hashlib.sha256(data).hexdigest()
    assert (target / "etc/h").read_text() == "hello"
    assert (target / "etc/h").stat().st_ino == (target / "etc/a").stat().st_ino
    assert os.readlink(target / "etc/l") == "/etc/a"
    assert stat.S_IMODE((target / "deep/er/b").stat().st_mode) == 0o4755


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/../out"])
def test_a_name_that_leads_out_is_refused(target: Path, name: str) -> None:
    with pytest.raises(PhalanxError, match="leads out of the archive"):
        unpacked(target, member(name, b"x"))
    assert not (target.parent / "out").exists()


def test_an_absolute_name_lies_within(target: Path) -> None:
    unpacked(target, member("/etc/x", b"mine"))
    assert (target / "etc/x").read_text() == "mine"


@pytest.mark.parametrize("absolute", [True, False])
def test_files_do_not_follow_links_out_of_the_folder(target: Path, absolute: bool) -> None:
    outside = target.parent / "outside"
    outside.mkdir()
    to = str(outside) if absolute else "../outside"
    for name in (f"{outside}/".lstrip("/"), "outside/"):  # what the links mean within
        (target / name).mkdir(parents=True, exist_ok=True)
    unpacked(target, link("way", to), member("way/x", b"x"))
    assert list(outside.iterdir()) == []
    assert len(list(target.rglob("x"))) == 1


def test_a_file_does_not_write_through_a_link_of_its_name(target: Path) -> None:
    secret = target.parent / "secret"
    secret.write_text("before")
    unpacked(target, link("x", str(secret)), member("x", b"after"))
    assert (secret.read_text(), (target / "x").read_text()) == ("before", "after")


def test_the_mode_of_what_a_link_leads_to_stays(target: Path) -> None:
    secret = target.parent / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    unpacked(target, link("x", str(secret)))
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


@pytest.mark.parametrize("to", ["/etc/passwd", "../../../../../etc/passwd", "way/secret"])
def test_hard_links_to_files_of_the_machine_are_refused(target: Path, to: str) -> None:
    (target.parent / "secret").write_text("x")
    with pytest.raises(PhalanxError):
        unpacked(target, link("way", str(target.parent)), hard("mine", to))
    assert not (target / "mine").exists()


def test_device_files_are_left_out(target: Path) -> None:
    kinds = (tarfile.CHRTYPE, tarfile.BLKTYPE)
    found = unpacked(target, *(member(f"d{i}", type=kind, devmajor=8) for i, kind in enumerate(kinds)))
    assert (found.devices, list(target.iterdir())) == (2, [])


def test_bytes_are_bounded_whatever_the_header_says(target: Path) -> None:
    with pytest.raises(PhalanxError, match="--most-bytes"):
        unpacked(target, member("a", bytes(200_000)), bytes_left=100_000)


def test_a_sparse_file_counts_with_its_holes(target: Path) -> None:
    """Forty gigabytes in two kilobytes: the format of GNU tar, version 1.0."""
    size = str(40 << 30)
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "a", "GNU.sparse.realsize": size}
    sparse = member("a", f"1\n{size}\n0\n".encode().ljust(512, b"\0"), pax_headers=headers)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(sparse[0], io.BytesIO(sparse[1]))
    with pytest.raises(PhalanxError, match="--most-bytes"):
        unpack(io.BytesIO(buffer.getvalue()), target, Allowance(bytes_left=1 << 20), layer=False)


def test_files_are_counted(target: Path) -> None:
    with pytest.raises(PhalanxError, match="--most-files"):
        unpacked(target, *(member(f"f{i}") for i in range(11)), files_left=10)


def test_a_deep_path_is_refused(target: Path) -> None:
    with pytest.raises(PhalanxError, match="folders deep"):
        unpacked(target, member("d/" * 2000 + "f"))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_long_header_is_refused_before_it_is_read(target: Path, kind: bytes) -> None:
    header = member("x", type=kind)[0]
    header.size = 4 << 30
    data = header.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    with pytest.raises(PhalanxError, match="a header of 4294967296 bytes"):
        unpack(io.BytesIO(data), target, Allowance(), layer=False)


def test_owners_that_no_system_has_are_refused(target: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("files are given to others by root alone")
    with pytest.raises(PhalanxError, match="has the owner"):
        unpacked(target, member("x", uid=2**32 - 1))


@pytest.mark.parametrize("data", [b"", b"no archive at all" * 100, archive(member("a", b"x" * 5000))[:2000]])
def test_what_is_no_archive_is_refused(target: Path, data: bytes) -> None:
    with pytest.raises(PhalanxError, match="cannot be"):
        unpack(io.BytesIO(data), target, Allowance(), layer=False)


def test_whiteouts_are_what_overlayfs_takes_for_them(target: Path) -> None:
    unpacked(target, member("etc/.wh.gone"), member("var/.wh..wh..opq"), member("x/.wh..wh.aufs"), layer=True)
    gone = (target / "etc/gone").stat()
    assert (stat.S_ISCHR(gone.st_mode), gone.st_rdev) == (True, 0)
    kind = "trusted" if os.geteuid() == 0 else "user"
    assert os.getxattr(target / "var", f"{kind}.overlay.opaque") == b"y"
    assert list((target / "x").iterdir()) == []


@pytest.mark.parametrize("name", [".wh.", ".wh...", ".wh.."])
def test_a_whiteout_names_a_file(target: Path, name: str) -> None:
    with pytest.raises(PhalanxError, match="names no file"):
        unpacked(target, member(name), layer=True)
