"""What may stand in place of the last word of a command line, and the scripts by which shells ask."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import phalanx
from phalanx.cli.commands.work.completion import _SCRIPTS
from tests.kubectl import KUBECTL


@pytest.mark.parametrize("shell", list(_SCRIPTS))
def test_each_script_is_one_that_its_shell_reads(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    check = ("--no-execute",) if shell == "fish" else ("-n",)
    done = subprocess.run((shell, *check), input=_SCRIPTS[shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_asks_with_the_words_so_far(tmp_path: Path) -> None:
    """A `phalanx` that says what it was asked."""
    program = tmp_path / "phalanx"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$#:$*"\n')
    program.chmod(0o755)
    script = (
        f"{_SCRIPTS['bash']}\nCOMP_WORDS=(phalanx logs tr)\nCOMP_CWORD=2\n_phalanx\nprintf '%s' \"${{COMPREPLY[0]}}\""
    )
    done = subprocess.run(
        ("bash", "-c", script), env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "4:complete -- logs tr"


@pytest.mark.slow
def test_kubectl_has_the_commands_as_a_plugin(tmp_path: Path) -> None:
    """`kubectl phalanx`, and what the Tab key offers behind it: kubectl finds both programs on the PATH."""
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}

    def kubectl(*words: str) -> str:
        return subprocess.run((KUBECTL, *words), env=environment, capture_output=True, text=True, check=True).stdout

    assert kubectl("phalanx", "--version").strip() == phalanx.__version__
    assert kubectl("__complete", "phalanx", "jo").splitlines()[0] == "jobs"
