"""Commands that only hand something over start quickly: they import no scheduler and no database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FRAME = {"phalanx.dialects.frame.dialect"}  # the protocol of dialects
HEAVY = ("numpy", "phalanx.core", "phalanx.state", "sqlalchemy")


COMMANDS = ["work.submit", "work.run", "one_machine.up", "one_machine.login"]
COMMANDS += [f"attend.{name}" for name in ("logs", "wait", "cancel", "hold", "release", "nice", "rerun", "attach")]
COMMANDS += [f"inside.{name}" for name in ("shell", "cp", "port_forward")]
COMMANDS += [f"status.{name}" for name in ("jobs", "queues", "explain")]  # where the scheduler serves their tables


def modules_of(*words: str) -> set[str]:
    """Return the modules that `phalanx WORDS` imports."""
    program = f"""import sys
sys.argv = ["phalanx", *{words!r}]
from phalanx.cli.app import main
try:
    main()
except SystemExit:
    print("\\nmodules", *sys.modules)"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("\nmodules ")[2].split())


@pytest.mark.parametrize("words", [("--version",), ("--help",), (), ("jbos",)])
def test_version_and_overview_import_next_to_nothing(words: tuple[str, ...]) -> None:
    """A bare Python has about 40 modules. The modules that parse command lines and draw tables are 250 more."""
    found = modules_of(*words)
    assert "phalanx.cli.app" in found
    assert len(found) < 90, sorted(found)
    assert not {"cyclopts", "rich", "asyncio", "msgspec"} & found


@pytest.mark.slow
def test_they_import_no_scheduler_and_no_database() -> None:
    """One process forks a child for each command. So modules that all commands import are imported only once."""
    program = """import asyncio, importlib, msgspec, os, sys
for command in sys.argv[1:]:
    if not os.fork():
        importlib.import_module(f"phalanx.cli.commands.{command}")
        print(command, *sys.modules, flush=True)
        os._exit(0)
    os.wait()"""
    done = subprocess.run([sys.executable, "-c", program, *COMMANDS], capture_output=True, text=True, check=True)
    found = [line.split() for line in done.stdout.splitlines()]
    assert [command for command, *_ in found] == COMMANDS, done.stderr
    for command, *modules in found:
        assert f"phalanx.cli.commands.{command}" in modules
        assert not {one for one in modules if one.startswith(HEAVY)}, command
        assert len(modules) < 420, command


@pytest.mark.slow
def test_where_the_ledger_lies_is_known_without_a_database(tmp_path: Path) -> None:
    program = "import os, sys; from phalanx.cli.cluster.target import find_ledger_of as find; "
    program += "print(find(None, os.environ), *sys.modules)"
    (tmp_path / "ledger.sqlite3").touch()
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig"), "PHALANX_LEDGER": ""}
    call = [sys.executable, "-c", program]
    words = subprocess.run(call, capture_output=True, text=True, check=True, env=environment).stdout.split()
    assert words[0] == f"sqlite:///{tmp_path}/ledger.sqlite3"
    assert "sqlalchemy" not in words


@pytest.mark.slow
def test_the_start_of_a_scheduler_imports_no_server_no_database_and_no_dialect() -> None:
    """The first binding waits for each module that the scheduler imports before it."""
    program = "import sys, phalanx.cli.commands.in_cluster.scheduler; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "phalanx.loop" in modules
    assert not {
        one for one in modules if one.startswith(("sqlalchemy", "phalanx.ledger.store", "aiohttp", "prometheus"))
    }
    assert not {one for one in modules if one.startswith("phalanx.dialects.") and one.endswith(".dialect")} - FRAME


def test_the_first_expression_brings_no_command_line_along() -> None:
    """The CEL library imports its own, with all that draws it."""
    program = "import sys; from phalanx.embedded.apimachinery.expressions.cel import compiled as c; "
    program += "print(c('1 + 1').evaluate({}), *sys.modules)"
    words = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert words[0] == "2"
    assert "prompt_toolkit" not in words
