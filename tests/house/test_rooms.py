"""The structure of the code, as a test: few parts in a folder, imports in one direction, and unique class names.

A *room* (part) is a module or a folder in a folder. Each folder's `__init__` states the purpose of the folder and lists
its parts, lowest first. A part imports only parts that are listed before it. Imports for type checkers alone count like
any other, so there is no circle of imports, open or hidden.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .test_structure import ROOT, SOURCE, SOURCES, module, where

PACKAGES = (
    "model",
    "state",
    "core",
    "report",
    "kube",
)  # packages to which all rules apply; to the next ones only the rule about the order applies
LISTED = (*PACKAGES, "client", "dialects", "embedded", "extensions", "simulator", "slurm", "ledger", "dashboard", "cli")
ROOMS, FAN_OUT, OWN_TERMS = 9, 15, 14

# folder of core -> the folders of core that it may import
ARROWS: dict[str, set[str]] = {
    "fold": set(),
    "quota": set(),
    "order": {"quota"},
    "placement": set(),
    "backfill": {"placement"},
    "preemption": {"placement", "quota", "backfill"},
    "reasons": {"placement", "quota", "backfill", "preemption"},
    "cycle": {"fold", "quota", "order", "placement", "backfill", "preemption", "reasons"},
    "decide": {"cycle", "fold"},
}

# Exceptions that are not mended yet, with the reason. Exceptions are removed from these tables, never added.
NOT_YET_FEW_ROOMS: dict[str, str] = {}
NOT_YET_LISTED: dict[str, str] = {}
NOT_YET_ONE_WAY: dict[tuple[str, str], str] = {}
FAN_OUT_ELSEWHERE = 16  # the bound for packages that are not in `PACKAGES`


def dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in SOURCES}
OURS = [name for name in MODULES if name.split(".")[1:2] and name.split(".")[1] in PACKAGES]
ALL = sorted(name for name in MODULES if name.split(".")[1:2] and name.split(".")[1] in LISTED)
FOLDERS = sorted({MODULES[name].parent for name in ALL})


@cache
def imported(name: str) -> frozenset[str]:
    """Return the modules of Phalanx that a module imports."""
    found = set()
    for _, full in module(MODULES[name]).imports:
        parts = full.split(".")
        known = next((".".join(parts[:n]) for n in range(len(parts), 1, -1) if ".".join(parts[:n]) in MODULES), None)
        if known is not None and known != name:
            found.add(known)
    return frozenset(found)


def rooms_of(folder: Path) -> list[str]:
    inside = (each for each in folder.iterdir() if each.suffix == ".py" or (each / "__init__.py").exists())
    return sorted(each.stem for each in inside if not each.name.startswith("__"))


def listed(folder: Path) -> list[str]:
    """Return the parts that the folder's `__init__` lists: in rows of a table (a folder may have a slash), or in
    backticks."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    rows = re.findall(r"^ *(\w+)/? {2,}\S", text, re.MULTILINE)
    return rows or [name for name in re.findall(r"`(\w+)`", text) if name in rooms_of(folder)]


@cache
def prefix(folder: Path) -> str:
    """Return the start of the names of all modules in a folder."""
    return f"{dotted(folder / '__init__.py')}."


def room_in(folder: Path, name: str) -> str | None:
    """Return the room of the folder that the module is in."""
    start = prefix(folder)
    return name[len(start) :].partition(".")[0] if name.startswith(start) else None


def upward(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (module, imported module) if a part imports a part that is not listed before it."""
    order = {room: at for at, room in enumerate(listed(folder))}
    for name in inside(folder):
        own = room_in(folder, name)
        for other in sorted(imported(name)):
            room = room_in(folder, other)
            if room not in {None, own} and order.get(room, len(order)) > order.get(own, len(order)):
                yield name, other


def inside(folder: Path) -> list[str]:
    """Return the modules in a folder and in the folders below it."""
    start = prefix(folder)
    return ALL[bisect_left(ALL, start) : bisect_left(ALL, start[:-1] + "/")]  # "/" comes directly after "."


def test_a_folder_has_few_rooms() -> None:
    full = {where(folder) for folder in FOLDERS if len(rooms_of(folder)) > ROOMS}
    assert full == set(NOT_YET_FEW_ROOMS), "at most nine rooms: give those that belong together a folder"


def test_a_folder_says_what_it_is_for_and_lists_its_rooms() -> None:
    wrong = {}
    for folder in FOLDERS:
        said = listed(folder)
        if sorted(said) != rooms_of(folder) and where(folder) not in NOT_YET_LISTED:
            wrong[where(folder)] = f"__init__ lists {said}; its rooms are {rooms_of(folder)}"
    assert not wrong, wrong


def test_a_room_imports_only_those_before_it() -> None:
    found = {pair for folder in FOLDERS if where(folder) not in NOT_YET_LISTED for pair in upward(folder)}
    assert found == set(NOT_YET_ONE_WAY), "move what is shared to the lower room, or pass it in as an argument"


def test_between_the_folders_of_core_only_the_arrows() -> None:
    core = SOURCE / "core"
    assert set(rooms_of(core)) == set(ARROWS), "the table of arrows has a row for each room of core"
    wrong = {
        (name, other)
        for name in OURS
        for other in imported(name)
        if (own := room_in(core, name)) and (room := room_in(core, other)) and room not in {own, *ARROWS[own]}
    }
    assert wrong == set(NOT_YET_ONE_WAY), "core's folders know each other by the arrows alone"


def test_a_module_knows_few_others() -> None:
    wide = {name for name in OURS if len(imported(name)) > FAN_OUT}
    assert not wide, f"at most {FAN_OUT} modules of ours: split it, or pass things in"


def test_a_module_elsewhere_knows_few_others() -> None:
    wide = {name: count for name in MODULES if (count := len(imported(name))) > FAN_OUT_ELSEWHERE}
    assert not wide, f"at most {FAN_OUT_ELSEWHERE} modules of ours: split it, or pass things in"


def test_a_class_name_means_one_thing() -> None:
    found: dict[str, list[str]] = {}
    for name in OURS:
        for node in ast.parse(MODULES[name].read_text()).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(name)
    twice = {name: modules for name, modules in found.items() if len(modules) > 1}
    assert not twice, f"give each its own name: {twice}"


def test_few_terms_are_our_own() -> None:
    rows = re.findall(r"^\| (\w[\w, ]*) \| (.+) \| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    terms = [row[0] for row in rows if row[0] != "term"]
    assert 0 < len(terms) <= OWN_TERMS, f"{len(terms)} terms of our own: find the one that the field uses"
    text = "\n".join(MODULES[name].read_text() for name in OURS)
    unused = [term for names in terms for term in names.split(", ") if not re.search(rf"\b{term}", text)]
    assert not unused, f"nobody uses {unused}"
