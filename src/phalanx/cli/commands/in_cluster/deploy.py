"""`phalanx deploy`: print or copy the manifests that install Phalanx in a cluster."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

from phalanx.cli.files.shipped import copy_out, shipped, write_chart
from phalanx.cli.terminal.output import print_json
from phalanx.errors import PhalanxError


def deploy(
    *,
    overlay: Literal["mutating", "webhook", "validating"] = "mutating",
    render: bool = False,
    output: Path | None = None,
    chart: Path | None = None,
    json: bool = False,
) -> None:
    """Print the manifests of an overlay, copy the kustomize folder with all overlays, or write a Helm chart.

    Use the overlay `mutating` from Kubernetes 1.36 on, and `webhook` for older versions; docs/guide/deploy.md has the
    details. The command sends nothing to a cluster.

    For example:

        phalanx deploy --render | kubectl apply --server-side --filename -
        phalanx deploy --render --overlay webhook > phalanx.yaml
        phalanx deploy --output .
        phalanx deploy --chart . && helm install phalanx ./phalanx --namespace phalanx-system --create-namespace

    Parameters
    ----------
    overlay
        The way in which new Jobs are prepared for the queue. In a chart, this is the value `admission`.
    render
        Print the manifests. This needs kubectl or kustomize on the PATH.
    output
        Copy the folder `deploy` into this directory: base, overlays and components for your own kustomization.
    chart
        Write the folder `phalanx`, a Helm chart, into this directory. Its values.yaml describes each value.
    json
        With --output or --chart, print JSON: directory, apply (the command).
    """
    root = shipped("deploy")
    if [render, output is not None, chart is not None].count(True) != 1:
        raise PhalanxError(
            "give one of these options: --render to print the manifests of an overlay, --output DIR to copy the "
            "folder, --chart DIR "
            "to write a Helm chart."
        )
    if render:
        sys.stdout.write(_rendered(root / "overlays" / overlay))
        return
    if output is not None:
        there = copy_out(root, output)
        apply = f"kubectl apply --kustomize {shlex.quote(f'{there}/overlays/{overlay}')}"
    else:
        assert chart is not None
        there = write_chart(root, chart)
        chart_at = shlex.quote(str(there))
        apply = (
            f"helm install phalanx {chart_at} --namespace phalanx-system --create-namespace --set admission={overlay}"
        )
    if json:
        print_json({"directory": str(there), "apply": apply})
    else:
        print(f"written to {there}; to install: {apply}")


def _rendered(folder: Path) -> str:
    """Return the manifests of a kustomize folder. Raises PhalanxError if neither kubectl nor kustomize is on the PATH,
    or if the program fails."""
    for name, words in (("kubectl", ("kustomize",)), ("kustomize", ("build",))):
        if (program := shutil.which(name)) is not None:
            done = subprocess.run((program, *words, str(folder)), capture_output=True, text=True, check=False)
            if done.returncode:
                raise PhalanxError(f"{name} {words[0]} {folder}: {done.stderr.strip()}")
            return done.stdout
    raise PhalanxError(
        "--render needs kubectl or kustomize on the PATH. `phalanx deploy --output DIR` copies the folder without them."
    )
