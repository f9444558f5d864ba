"""The structure of the code base, as a test. Each failure states what to do instead.

The import table and the sizes are those of the design: data flows in one direction, and a file can be read in one
sitting.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "phalanx"

LEAVES = ("errors", "fair_tree", "lazy", "rpc")
# package -> the packages of Phalanx that it may import. Every package may also import the leaves.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "fair_tree": set(),
    "lazy": set(),
    "rpc": set(),
    "model": set(),
    "state": {"model"},
    "core": {"model", "state"},
    "scaling": {"model", "state", "core"},
    "report": {"model", "state", "core"},
    "dialects": {"model", "client"},  # from `client` only the module of quantities
    "client": set(),
    "kube": {"model", "client", "dialects"},
    "simulator": {"model", "state"},
    "providers": {"model", "client", "simulator"},  # from `simulator` only the failures of a provider
    "clusters": {"model", "client", "dialects", "kube"},  # from `kube` the modules that read nodes and Jobs
    "ledger": {"model"},
    "embedded": {"client"},
    # from `embedded` discovery, and the evaluation of policies
    "extensions": {"client", "kube", "metrics", "embedded"},
    # from `client` its counters; an applier that counts events wraps the other one
    "metrics": {"model", "state", "client"},
    "loop": {"model", "state", "core", "scaling"},
    "dashboard": set(),
    "demo": {"client"},
    "slurm": {"client"},  # from `client` only modules that import fast: kubeconfigs and quantities
    "cli": {"*"},
    "api": {"*"},
    "__init__": {"api"},  # `import phalanx` offers the calls of `api`, and imports them at their first use
}
# Exceptions: file -> the reason. A file is removed when its fault is mended; no file is added.
NOT_YET: dict[str, str] = {}
# Parts of embedded/ communicate through the API only, as on a real cluster.
EMBEDDED_SIBLINGS = {"apiserver", "controllers", "node"}
OUTSIDE_WORLD = {
    *("time", "random", "os", "asyncio", "logging", "threading", "socket", "subprocess", "pathlib", "io"),
    *("tempfile", "uuid", "secrets", "aiohttp", "sqlite3", "multiprocessing", "datetime"),
}
PURE = {"fair_tree", "model", "state", "core", "scaling", "report", "dialects"}
BANNED_NAME = re.compile(r"(^|_)(util|utils|helper|helpers|manager|common|misc|base)(_|$)")
FILE_LINES, FUNCTION_LINES = 500, 60

SOURCES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = sorted((ROOT / "benchmarks").rglob("*.py")) + sorted((ROOT / "examples").rglob("*.py"))


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """The properties of a file that the tests need. The syntax tree is not kept, because with all trees in memory
    everything else is slow.

    `imports`: (line, dotted name), relative imports resolved.
    `functions`: (line, name, lines).
    `defined`: the names at the top of the module, including names that it imports to export them (`import X as X`).
    `docstrings`: (line, text) of functions and classes.
    `classes`: (name, number of methods, attributes)."""

    code_lines: int
    imports: tuple[tuple[int, str], ...]
    functions: tuple[tuple[int, str, int], ...]
    documented: bool
    defined: frozenset[str]
    docstrings: tuple[tuple[int, str], ...]
    classes: tuple[tuple[str, int, frozenset[str]], ...]


@cache
def module(path: Path) -> Module:
    text = path.read_text()
    tree = ast.parse(text)
    found = [tree, *statements(tree.body)]
    return Module(
        code_lines=code_lines(text, found),
        imports=tuple(imports(found, path)),
        functions=tuple(
            (node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
            for node in found
            if isinstance(node, FUNCTIONS)
        ),
        documented=bool(ast.get_docstring(tree)),
        defined=frozenset(names_at_the_top(tree)),
        docstrings=docstrings(found),
        classes=tuple(
            (node.name, len([each for each in node.body if isinstance(each, FUNCTIONS)]), attributes(node))
            for node in found
            if isinstance(node, ast.ClassDef)
        ),
    )


def docstrings(found: Iterable[ast.AST]) -> tuple[tuple[int, str], ...]:
    """Return the line and the docstring, or "", of each function and class."""
    nodes = [node for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    return tuple((node.lineno, ast.get_docstring(node) or "") for node in nodes)


def attributes(node: ast.ClassDef) -> frozenset[str]:
    """Return the names that the class body annotates, and those that are stored in `self`."""
    found = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    stored = (each for each in ast.walk(node) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store))
    return frozenset(
        found | {each.attr for each in stored if isinstance(each.value, ast.Name) and each.value.id == "self"}
    )


def names_at_the_top(tree: ast.Module) -> Iterator[str]:
    for node in statements(tree.body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.asname == alias.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
            if isinstance(targets[0], ast.Name) and targets[0].id == "__all__" and node.value is not None:
                yield from ast.literal_eval(node.value)


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield all statements at every depth, without expressions."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(inner := getattr(node, part, None), list):
                yield from statements(inner)


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


def package_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def imports(found: Iterable[ast.AST], path: Path) -> Iterator[tuple[int, str]]:
    root = SOURCE.parent if path.is_relative_to(SOURCE) else ROOT
    own = path.relative_to(root).with_suffix("").parts
    for node in found:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = ".".join(own[: len(own) - node.level]) + "." if node.level else ""
            name = prefix + (node.module or "")
            yield from ((node.lineno, f"{name.rstrip('.')}.{alias.name}") for alias in node.names)


def code_lines(text: str, found: Iterable[ast.AST]) -> int:
    """Return the number of lines that are neither blank nor a comment nor part of a docstring."""
    dropped: set[int] = set()
    for node in found:
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
            and isinstance(node.body[0].value, ast.Constant)
            and isinstance(node.body[0].value.value, str)
        ):
            dropped.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return sum(
        1
        for number, line in enumerate(text.splitlines(), 1)
        if number not in dropped and line.strip() and not line.strip().startswith("#")
    )


def test_imports_flow_one_way() -> None:
    wrong = [each for path in SOURCES if where(path) not in NOT_YET for each in wrong_imports(path)]
    assert not wrong, "\n" + "\n".join(wrong)


def wrong_imports(path: Path) -> Iterator[str]:
    package = package_of(path)
    allowed = ALLOWED.get(package, set())
    sub = path.relative_to(SOURCE).with_suffix("").parts
    for line, name in module(path).imports:
        parts = name.split(".")
        if package in PURE and parts[0] in OUTSIDE_WORLD:
            yield f"{where(path)}:{line}: {package} is pure and may not import {parts[0]}; pass it in"
        if parts[0] != "phalanx" or len(parts) < 2 or parts[1] in {package, "__version__", *LEAVES}:
            if package == "embedded" and parts[:2] == ["phalanx", "embedded"] and len(parts) > 2 and len(sub) > 1:
                other = parts[2]
                if other in EMBEDDED_SIBLINGS and sub[1] in EMBEDDED_SIBLINGS and other != sub[1]:
                    yield f"{where(path)}:{line}: {sub[1]} may not import embedded.{other}; use the API"
            continue
        if "*" not in allowed and parts[1] not in allowed:
            yield (
                f"{where(path)}:{line}: {package} may not import {parts[1]} "
                f"(allowed: {', '.join(sorted(allowed)) or 'nothing'}); pass it in as an argument instead"
            )


def test_a_name_is_imported_from_the_module_that_defines_it() -> None:
    """mypy does not check this (`no_implicit_reexport`), because tests replace names where they are used."""
    defined = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): module(path) for path in SOURCES}
    defined |= {name.removesuffix(".__init__"): found for name, found in defined.items()}
    wrong = []
    for path in SOURCES:
        for line, full in module(path).imports:
            home, _, name = full.rpartition(".")
            if home in defined and full not in defined and name not in defined[home].defined:
                wrong.append(f"{where(path)}:{line}: {home} does not define {name}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_package_has_its_row_in_the_import_table() -> None:
    packages = {package_of(path) for path in SOURCES} - {"__init__", "__main__"}
    assert packages <= set(ALLOWED), f"add a row to ALLOWED for {packages - set(ALLOWED)}, with the reason in docs/"


def test_sizes() -> None:
    wrong = [each for path in [*SOURCES, *TESTS, *SCRIPTS] for each in too_long(path)]
    assert not wrong, "\n" + "\n".join(wrong)


def too_long(path: Path) -> Iterator[str]:
    if (lines := module(path).code_lines) > FILE_LINES:
        yield f"{where(path)}: {lines} lines of code (at most {FILE_LINES}); split it by noun or verb"
    for line, name, length in module(path).functions:
        if length > FUNCTION_LINES:
            yield (
                f"{where(path)}:{line}: {name} has {length} lines "
                f"(at most {FUNCTION_LINES}); name its steps and call them"
            )


def test_names_say_something() -> None:
    paths = [*SOURCES, *TESTS, *SCRIPTS]
    parts = [(path, part) for path in paths for part in path.relative_to(ROOT).with_suffix("").parts]
    wrong = [
        f"{where(path)}: {part!r} says nothing; use the noun or verb of the field"
        for path, part in parts
        if BANNED_NAME.search(part)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_modules_open_with_their_theory() -> None:
    silent = [path for path in SOURCES if path.name != "__init__.py" and not module(path).documented]
    assert not silent, f"open with what this module is and why: {', '.join(map(where, silent))}"


def test_an_exception_to_a_rule_has_its_reason_beside_it() -> None:
    paths = [path for path in (*SOURCES, *SCRIPTS, *TESTS) if where(path) not in EXAMPLES_OF_SILENCE]
    wrong = [each for path in paths for each in unreasoned(path.read_text(), where(path))]
    assert not wrong, "say why behind it, on the same line, or do without:\n" + "\n".join(wrong)


# Files that contain examples of silenced checks.
EXAMPLES_OF_SILENCE = {"tests/house/test_structure.py"}
SILENCED = re.compile(r"# ?(?:noqa\b(?:: ?[A-Z]+\d+(?:, ?[A-Z]+\d+)*)?|type: ignore\b(?:\[[\w, -]*\])?)")
CATCHES_ALL = re.compile(r"^( *)except (?:Base)?Exception\b[^#]*:$")


def unreasoned(text: str, place: str) -> Iterator[str]:
    """Yield lines that silence a check without a reason, and lines that catch every exception, give no reason, and do
    not raise the exception again."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if silenced := SILENCED.search(line):
            if not re.search(r"\w", SILENCED.sub("", line[silenced.start() :])):
                yield f"{place}:{at + 1}: {line.strip()}"
        elif (found := CATCHES_ALL.match(line)) and not passed_on(lines[at + 1 :], found[1]):
            yield f"{place}:{at + 1}: {line.strip()}"


def passed_on(lines: list[str], indent: str) -> bool:
    """Return whether the handler with this indentation ends with `raise`."""
    body = []
    for line in lines:
        if line.strip() and not line.startswith(indent + " "):
            break
        body += [line] if line.strip() else []
    return bool(body) and body[-1] == f"{indent}    raise"


def test_which_reasons_count() -> None:
    bare = ["x = 1  # noqa: S1", "x = 1  # noqa", "x()  # type: ignore[a-b]", "x  # type: ignore[a]  # noqa: E501"]
    assert [len(list(unreasoned(line, "m.py"))) for line in bare] == [1, 1, 1, 1]
    assert not list(
        unreasoned("x = 1  # noqa: S1 (why)\ny()  # type: ignore[a]  # why\nexcept Exception:  # why", "m.py")
    )
    assert list(unreasoned("try:\n    pass\nexcept Exception as error:\n    print(error)\n", "m.py"))
    assert not list(unreasoned("try:\n    pass\nexcept BaseException:\n    stop()\n    raise\n", "m.py"))


def test_who_is_cancelled_ends() -> None:
    """`asyncio.wait_for` of CPython 3.11 loses a cancellation that arrives when its awaitable is done: the task
    continues, and a caller that waits for its end waits for ever."""
    wrong = [where(path) for path in SOURCES if re.search(r"asyncio\.wait_for\b", strip_docstrings(path))]
    assert not wrong, f"use `async with asyncio.timeout(...)` in {', '.join(wrong)}"


def strip_docstrings(path: Path) -> str:
    return re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL)


def test_the_project_speaks_of_itself_alone() -> None:
    """No path of a machine and no host of a registry is in the tree."""
    bad = re.compile(re.escape(f"{ROOT}/") + "|index" + "-url|find" + "-links")
    wrong = []
    for path in [*ROOT.glob("*"), *SOURCES, *TESTS, *SCRIPTS, *(ROOT / "docs").rglob("*.md")]:
        if path.is_file() and path.suffix in {".py", ".md", ".txt", ".toml", ".in", ""}:
            wrong += [where(path) for line in path.read_text().splitlines() if bad.search(line)]
    assert not wrong, wrong
