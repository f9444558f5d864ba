"""The files of the wheel that stand outside of the package: the examples, and the manifests for clusters."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("examples", "deploy")


class BuildWithFiles(build_py):
    """Copies the folders into `phalanx/shipped`, where `phalanx.cli.files.shipped` finds them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:  # they are where they always are
            return
        for folder in SHIPPED:
            there = Path(self.build_lib, "phalanx", "shipped", folder)
            shutil.rmtree(there, ignore_errors=True)
            shutil.copytree(folder, there, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"))


setup(cmdclass={"build_py": BuildWithFiles})
