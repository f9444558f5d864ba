"""Each package of the scheduling core has a ceiling of code lines (docs/decisions/0045-size.md gives the reason). The
reference of the rules has a ceiling too (docs/decisions/0076-the-reference.md)."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

from .test_structure import SOURCE

CEILINGS = {"model": 1_155, "state": 3_056, "core": 11_155, "scaling": 620, "report": 390}
REFERENCE = Path(__file__).parents[1] / "reference"
RULES = ("facts", "tree", "nodes", "order", "quota", "rights", "victims", "outcomes")
JUDGE = ("judge", "execution", "decisions", "choices", "snapshot")
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    """Return the number of lines that are neither blank nor a comment nor part of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


@pytest.mark.slow
@pytest.mark.parametrize("package", CEILINGS)
def test_a_package_keeps_below_its_ceiling(package: str) -> None:
    found = sum(code_lines(path.read_text()) for path in (SOURCE / package).rglob("*.py"))
    assert found <= CEILINGS[package], "take something away, or raise the ceiling and say what it buys"
    assert found > 0.95 * CEILINGS[package], "it has become smaller: lower the ceiling, so that it stays so"


@pytest.mark.parametrize(("modules", "ceiling"), [(RULES, 891), (JUDGE, 534)])
def test_the_reference_keeps_below_its_ceilings(modules: tuple[str, ...], ceiling: int) -> None:
    found = sum(code_lines((REFERENCE / f"{module}.py").read_text()) for module in modules)
    assert 0.98 * ceiling < found <= ceiling, f"{found} code lines: take away, then lower the ceiling"


@pytest.mark.parametrize("module", RULES)
def test_the_rules_know_the_model_and_no_plan(module: str) -> None:
    tree = ast.parse((REFERENCE / f"{module}.py").read_text())
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {name for name in names if name.startswith("phalanx") and not name.startswith("phalanx.model")}
    assert not ours | (names & {"phalanx.model.plan", "judge", "snapshot"})


def test_only_code_counts() -> None:
    assert code_lines('"""A module."""\n\n# why\nx = (\n    1\n)\n\n\ndef f():\n    """Return."""\n    return x\n') == 5
