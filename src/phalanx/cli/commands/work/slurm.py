"""`phalanx slurm`: Slurm's commands on the PATH, and a slurm.conf as this cluster's partitions."""

from __future__ import annotations

import os
from pathlib import Path

from cyclopts import App

from phalanx.cli.local.node_groups import slurm_conf
from phalanx.cli.terminal.output import note
from phalanx.errors import PhalanxError
from phalanx.slurm import main as commands
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.admission import hold_tokens
from phalanx.slurm.cluster.api import Api, Refused
from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.cluster.site import Site

_EXAMPLES = """For example:

    phalanx slurm install ~/slurm-commands
    phalanx slurm configure /etc/slurm/slurm.conf
"""
slurm = App(
    name="slurm",
    help="Slurm's commands (sbatch, squeue and others) for a cluster of Phalanx's.",
    help_epilogue=_EXAMPLES,
    help_format="markdown",
)


@slurm.command
def install(directory: Path) -> None:
    """Install Slurm's commands in a directory: sbatch, srun, salloc, squeue, scancel, sinfo, scontrol, sacct and more.

    Put that directory first on the PATH of the users. A real Slurm on the machine is not changed.

    For example:

        phalanx slurm install ~/.local/phalanx-slurm
        export PATH=~/.local/phalanx-slurm:$PATH

    Parameters
    ----------
    directory
        The directory; created if it is missing. If it contains another program of one of these names (a real Slurm's,
        for example), nothing is installed.
    """
    try:
        made = commands.install(directory.expanduser())
    except OSError as error:
        raise PhalanxError(f"{error.filename or directory} cannot be written: {error.strerror}") from error
    note(f"made {', '.join(path.name for path in made)} in {directory}: put it first on the PATH")


@slurm.command
def bundle(directory: Path) -> None:
    """Make Slurm's commands in a directory with an interpreter of their own, for containers that have no Python.

    An init container does so in pods of jobs with another image, where the site names one of Phalanx's
    (`phalanx slurm configure --tools`). The commands work at this path only, also on another machine of this kind.

    For example:

        phalanx slurm bundle /opt/phalanx-tools
        /opt/phalanx-tools/bin/squeue

    Parameters
    ----------
    directory
        Where to; made if it is missing. Its bin, home, lib and python are replaced if an earlier bundle made them, else
        nothing is done.
    """
    from phalanx.slurm.jobs.steps.pods.bundle import bundle as make

    try:
        make(directory.absolute(), commands.COMMANDS)
    except OSError as error:
        raise PhalanxError(f"{error.filename or directory} cannot be made: {error.strerror or error}") from error
    note(f"made {', '.join(commands.COMMANDS)} in {directory / 'bin'}")


@slurm.command
def serve(*, socket: Path = Path("/run/phalanx/slurm-commands.sock")) -> None:
    """Serve Slurm's commands to the users of this machine, so that each call takes a third of the processor time.

    `phalanx up` starts the service by itself. Start it as root on a login node: each call runs as the user who made it.
    Started as another user, it serves that user. Without it the commands work as well, and take longer.

    For example:

        sudo phalanx slurm serve
        phalanx slurm serve --socket ~/.phalanx/slurm-commands.sock

    Parameters
    ----------
    socket
        Where the commands reach the service. They look beside their kubeconfig, in ~/.phalanx, and at the default.
    """
    words = commands.service_command(socket.expanduser().absolute())
    os.execv(words[0], words)  # noqa: S606 - no shell is wanted


@slurm.command
def configure(file: Path, *, tools: str | None = None) -> None:
    """Create the partitions of a slurm.conf in this cluster, and label the nodes with its features.

    The command lists each line that has no meaning here. It writes the ConfigMap kube-system/phalanx-slurm.

    For example:

        phalanx slurm configure /etc/slurm/slurm.conf
        phalanx slurm configure /etc/slurm/slurm.conf --tools registry.example/phalanx:0.1.0

    Parameters
    ----------
    file
        The slurm.conf.
    tools
        The image of Phalanx from which pods of other images get srun and the step daemon; '' for none. [default:
        unchanged]
    """
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"{file} cannot be read: {error}. Nothing was changed.") from error
    found, told = read_conf(text, file.name)
    notes = apply(Api.open(), found, tools)
    for one in told:
        if not one.taken:
            note(f"{one.text}: {one.became}")
    for line in notes:
        note(line)
    note(f"{len(found.partitions)} partitions: {', '.join(one.name for one in found.partitions)}")


@slurm.command
def node_groups(file: Path) -> None:
    """Print node groups of the nodes of a slurm.conf that programs switch on and off (State=CLOUD).

    The output is a file for `phalanx scheduler --node-groups`. ResumeProgram and SuspendProgram are called as slurmctld
    calls them. SuspendTime, SuspendTimeout, ResumeTimeout, SuspendRate, ResumeRate and SuspendExcNodes are taken over.

    For example:

        phalanx slurm node-groups /etc/slurm/slurm.conf > node-groups.yaml
        sudo phalanx scheduler --node-groups node-groups.yaml

    Parameters
    ----------
    file
        The slurm.conf.
    """
    import yaml  # the other commands need no YAML

    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"{file} cannot be read: {error}.") from error
    settings, nodes = slurm_conf.read_power(text, file.name)
    try:
        found = slurm_conf.node_groups(settings, nodes)
    except PhalanxError as error:
        raise PhalanxError(f"{file}: {error}") from None
    print(yaml.safe_dump(found, sort_keys=False), end="")


def apply(api: Api, found: Site, tools: str | None = None) -> list[str]:
    """Write the site of a slurm.conf to this cluster, and keep the cluster's accounts and users. Return the refusals of
    the API server."""
    before = site.load(api)
    found.keep(before)
    found.tools = before.tools if tools is None else tools
    if found.tools:
        hold_tokens(api)  # first, because pods with the tools also get a token of their job
    site.store(api, found)
    return label(api, found)


def label(api: Api, found: Site) -> list[str]:
    """Add the features to the nodes as labels. Return the refusals of the API server."""
    refused = []
    for name, features in found.features.items():
        labels = {f"{site.FEATURE}{feature}": "true" for feature in features}
        try:
            api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
        except Refused as error:
            refused.append(f"NodeName={name}: {error.message}")
    return refused
