"""One example from its manifests to its checked result: what all the `run` commands here have in common.

Without `--kubeconfig` a `phalanx up` is started on a temporary directory and is gone afterwards, and pods are processes
of this machine (`image: host`); packages that they need are then installed into a virtual environment under out/.
With it, an existing cluster is used, `--image` says which image has Python and those packages, and what was created is
deleted at the end. Only the standard library is needed here.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from needs import MISSING, ExampleError, Missing, Packages, Program, program, python

_LOOK_S = 1.0  # each look is a kubectl, whose start is most of what it costs
_READY_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """`manifests`: choice -> file beside `run`, the first is the default. `files` go into a ConfigMap of that `name`.
    `waits_for`: by choice the resources, as kubectl names them, that must end well. `check` takes what the pods
    printed after RESULT, as JSON, and says what is right about it, or raises AssertionError."""

    about: str
    folder: Path
    name: str
    manifests: Mapping[str, str]
    waits_for: Mapping[str, tuple[str, ...]]
    check: Callable[[dict[str, Any]], str]
    files: tuple[str, ...] = ()
    cpu: str = "4"
    packages: Packages | None = None
    programs: tuple[Program, ...] = ()


def main(example: Example) -> int:
    options = _options(example)
    began_s = time.monotonic()

    def play() -> None:
        if options.install:
            _prepare(example, options)
            return
        with _cluster(example, options) as kubectl:
            text = _play(example, options, kubectl, lambda words: _say(began_s, words))
        _say(began_s, f"right: {text}")

    return told(play)


def told(play: Callable[[], None]) -> int:
    """The exit code of what is played, and on stderr why, unless it is 0."""
    try:
        play()
    except Missing as lack:
        print(f"cannot run here: {lack}", file=sys.stderr)
        return MISSING
    except (ExampleError, AssertionError) as error:
        print(f"wrong: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; nothing of it is left", file=sys.stderr)
        return 130
    return 0


def _say(began_s: float, words: str) -> None:
    print(f"{time.monotonic() - began_s:6.1f} s  {words}", flush=True)


def _options(example: Example) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=example.about,
        epilog=f"For example: examples/{example.folder.name}/run, or on a cluster: "
        f"examples/{example.folder.name}/run --kubeconfig ~/.kube/config --image registry.example/train:1",
    )
    kinds = list(example.manifests)
    parser.add_argument("--as", dest="kind", choices=kinds, default=kinds[0], help=f"the manifest ({kinds[0]})")
    parser.add_argument("--kubeconfig", type=Path, help="use this cluster; without it one is started for the example")
    parser.add_argument("--image", default="host", help="of the pods (host: this machine's own programs)")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="seconds to wait for the end (300)")
    add_install_options(parser)
    parser.add_argument("--keep", action="store_true", help="leave what was created, on a cluster of yours")
    return parser.parse_args()


def add_install_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--install",
        action="store_true",
        help=f"only install what it needs; exit code {MISSING} (here as without this option): it cannot run here",
    )
    parser.add_argument(
        "--install-timeout", type=float, default=1800.0, metavar="S", help="seconds that installing may take (1800)"
    )


# --- the cluster ------------------------------------------------------------------------------------------------------


class Kubectl:
    """kubectl on one cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._program = program("kubectl", "`make setup` installs one into .venv")
        self._env = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def __call__(self, *words: str, text: str | None = None) -> str:
        """What it printed. Raises ExampleError."""
        done = subprocess.run(
            [self._program, *words], env=self._env, input=text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ExampleError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    @property
    def server(self) -> str:
        """Its URL."""
        return self("config", "view", "--minify", "--output", "jsonpath={.clusters[0].cluster.server}")


@contextmanager
def _cluster(example: Example, options: argparse.Namespace) -> Iterator[Kubectl]:
    """Raises ExampleError."""
    if options.kubeconfig is not None:
        yield Kubectl(options.kubeconfig)
        return
    _prepare(example, options)
    folders = [str(example.packages.folder / "bin")] if example.packages else []
    with tempfile.TemporaryDirectory(prefix="phalanx-example-") as place, up(Path(place), example.cpu, folders):
        yield Kubectl(Path(place) / "kubeconfig")


def _prepare(example: Example, options: argparse.Namespace) -> None:
    """What this machine must have. Raises Missing."""
    for one in example.programs:
        one.require()
    if example.packages is not None:
        example.packages.install(options.install_timeout)


@contextmanager
def up(data: Path, cpu: str, folders: Sequence[str], *options: str) -> Iterator[None]:
    """`phalanx up`, whose pods find these folders on their PATH. Raises ExampleError."""
    command = [str(python()), "-m", "phalanx.cli.app", "up", "--data", str(data), "--port", "0"]
    command += ["--local-cpu", cpu, "--local-gpu", "0", "--stop-pods", *options]
    places = [*(folders or [str(python().parent)]), os.environ.get("PATH", "")]
    environment = {**os.environ, "PATH": os.pathsep.join(places)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        _await_ready(process)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=120)
        if process.poll() is None:
            process.kill()


def _await_ready(process: subprocess.Popen[str]) -> None:
    """Raises ExampleError."""
    said, deadline_s = [], time.monotonic() + _READY_S
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if "Ctrl-C stops it" in line:
            return
        if time.monotonic() > deadline_s:
            break
    raise ExampleError(f"phalanx up did not start: {''.join(said)}")


# --- the play ---------------------------------------------------------------------------------------------------------


def _play(example: Example, options: argparse.Namespace, kubectl: Kubectl, say: Callable[[str], None]) -> str:
    """What is right about the result. Raises ExampleError, AssertionError. RANDOM stands for a fresh token."""
    manifest = (example.folder / example.manifests[options.kind]).read_text()
    manifest = manifest.replace("image: host", f"image: {options.image}").replace("RANDOM", secrets.token_hex(32))
    try:
        if example.files:
            sources = [f"--from-file={example.folder / name}" for name in example.files]
            kubectl("create", "configmap", example.name, *sources)
        kubectl("create", "--filename", "-", text=manifest)
        say(f"created {', '.join(_named(manifest))}")
        _wait(example, options, kubectl, say)
        return example.check(_result(example, kubectl))
    finally:
        if options.kubeconfig is not None and not options.keep:
            kubectl("delete", "--ignore-not-found", "--wait=false", "--filename", "-", text=manifest)
            kubectl("delete", "--ignore-not-found", "configmap", example.name)


def _named(manifest: str) -> list[str]:
    """The kinds and names of its documents, read as their lines stand."""
    found = []
    for document in manifest.split("\n---\n"):
        lines = document.splitlines()
        kind = next((line.removeprefix("kind: ") for line in lines if line.startswith("kind: ")), "")
        name = next((line.removeprefix("  name: ") for line in lines if line.startswith("  name: ")), "")
        found.append(f"{kind} {name}")
    return found


def _wait(example: Example, options: argparse.Namespace, kubectl: Kubectl, say: Callable[[str], None]) -> None:
    """Until all are done, telling each change. Raises ExampleError."""
    shown, deadline_s = "", time.monotonic() + options.timeout
    waits_for = example.waits_for[options.kind]
    while True:
        states = {name: _state(json.loads(kubectl("get", name, "--output", "json"))) for name in waits_for}
        text = ", ".join(f"{name} {state}" for name, state in states.items())
        if text != shown:
            say(text)
            shown = text
        if all(state == "complete" for state in states.values()):
            return
        late = time.monotonic() > deadline_s
        if late or "failed" in states.values():
            raise ExampleError(f"{'too late' if late else 'failed'}: {text}\n{_logs(example, kubectl)}")
        time.sleep(_LOOK_S)


def _state(found: dict[str, Any]) -> str:
    status = found.get("status") or {}
    conditions = {one["type"] for one in status.get("conditions") or () if "type" in one and one["status"] == "True"}
    if "state" in status:  # of a Volcano Job
        phase = str(status["state"].get("phase"))
        return {"Completed": "complete", "Failed": "failed", "Terminated": "failed"}.get(phase, phase.lower())
    if conditions & {"Complete", "Succeeded"}:
        return "complete"
    if "Failed" in conditions:
        return "failed"
    replicas = (one.get("active", 0) for one in (status.get("replicaStatuses") or {}).values())
    active = status.get("active", 0) or sum(replicas)
    if active:
        return f"runs with {active} pods"
    reason = (found["metadata"].get("annotations") or {}).get("phalanx.dev/reason", "")
    return f"waits ({reason})" if reason else "waits"


def _logs(example: Example, kubectl: Kubectl) -> str:
    return kubectl("logs", "--selector", f"example={example.name}", "--tail=-1", "--prefix", "--ignore-errors")


def _result(example: Example, kubectl: Kubectl) -> dict[str, Any]:
    """What one pod printed after RESULT. Raises ExampleError."""
    logs = _logs(example, kubectl)
    found = [line.partition("RESULT ")[2] for line in logs.splitlines() if "RESULT " in line]
    if len(found) != 1:
        raise ExampleError(f"{len(found)} pods printed a RESULT, not one:\n{logs}")
    result: dict[str, Any] = json.loads(found[0])
    return result
