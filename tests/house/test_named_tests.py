"""A reader finds the test of a module by its name. The number of modules without such a test may only fall.

The test of `package/folder/module.py` is a file `test_module.py`, `test_module_<subject>.py` or `test_folder_module.py`
in `tests/package`. If several modules of the package have the same name, the path of the test also names the module's
folder. A module of fewer than 60 lines needs no test of its own, because tests of other modules use it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from .test_structure import ROOT, SOURCE, SOURCES, TESTS, where

LINES = 60  # modules of fewer lines need no test of their own
UNNAMED = 0  # modules without a test of their name


def long_modules() -> list[Path]:
    """Return the modules that need a test of their name."""
    modules = (path for path in SOURCES if not path.name.startswith("__"))
    return [path for path in modules if len(path.read_text().splitlines()) >= LINES]


def names_of_tests(package: str) -> list[str]:
    """Return the paths of the package's tests in `tests`, without `test_` and without the ending."""
    inside = [path.relative_to(ROOT / "tests") for path in TESTS if path.name.startswith("test_")]
    return [
        str(path.with_name(path.stem.removeprefix("test_")))
        for path in inside
        if path.parts[0] == package or path.parts[0] == f"test_{package}.py"
    ]


def has_test(module: Path, tests: list[str], *, is_alone: bool) -> bool:
    """Return whether one of the package's tests has the module's name.

    `is_alone`: no other module of the package has this name, so that the test need not name the folder."""
    folder, name = module.parent.name, module.stem
    for test in tests:
        *folders, subject = test.split("/")
        if subject.startswith(f"{folder}_{name}"):
            return True
        if (subject == name or subject.startswith(f"{name}_")) and (is_alone or folder in folders):
            return True
    return False


def unnamed() -> list[Path]:
    """Return the long modules that have no test of their name."""
    modules = long_modules()
    packages = {path: path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCES}
    names = Counter((packages[path], path.stem) for path in SOURCES)
    tests = {package: names_of_tests(package) for package in set(packages.values())}
    return [
        path
        for path in modules
        if not has_test(path, tests[packages[path]], is_alone=names[packages[path], path.stem] == 1)
    ]


def test_a_module_has_a_test_of_its_name() -> None:
    found = sorted(where(path) for path in unnamed())
    assert len(found) <= UNNAMED, "name a test after the module:\n" + "\n".join(found)
    assert len(found) > UNNAMED - 15, f"more modules have a test: lower the ceiling to {len(found)}"


def test_which_names_count() -> None:
    module = SOURCE / "slurm" / "show" / "table.py"
    assert has_test(module, ["slurm/table"], is_alone=True)
    assert has_test(module, ["slurm/table_width"], is_alone=True)
    assert has_test(module, ["slurm/show_table"], is_alone=False)
    assert has_test(module, ["slurm/show/table"], is_alone=False)
    assert not has_test(module, ["slurm/table"], is_alone=False)
    assert not has_test(module, ["slurm/tables", "slurm/show"], is_alone=True)
