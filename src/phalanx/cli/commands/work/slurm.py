"""`phalanx slurm`: install Slurm's commands, and create the partitions of a slurm.conf in a cluster."""

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
from phalanx.slurm.cluster.api import ApiClient, RequestRefused
from phalanx.slurm.cluster.conf import read_conf
from phalanx.slurm.cluster.site import Site

_EXAMPLES = """For example:

    phalanx slurm install ~/slurm-commands
    phalanx slurm configure /etc/slurm/slurm.conf
"""
slurm = App(
    name="slurm",
    help="Slurm's commands (sbatch, squeue and others) for a cluster with Phalanx.",
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
    """Install Slurm's commands in a directory together with a Python interpreter, for containers that have no Python.

    If the site names an image of Phalanx (`phalanx slurm configure --tools`), an init container runs this command in
    pods with other images. The commands work only at this path, also on another machine of the same architecture.

    For example:

        phalanx slurm bundle /opt/phalanx-tools
        /opt/phalanx-tools/bin/squeue

    Parameters
    ----------
    directory
        The directory; created if it is missing. Its folders bin, home, lib and python are replaced if an earlier
        `bundle` created them. If anything else created them, nothing is done.
    """
    from phalanx.slurm.jobs.steps.pods.bundle import bundle as make

    try:
        make(directory.absolute(), commands.COMMANDS)
    except OSError as error:
        raise PhalanxError(f"{error.filename or directory} cannot be created: {error.strerror or error}") from error
    note(f"made {', '.join(commands.COMMANDS)} in {directory / 'bin'}")


@slurm.command
def serve(*, socket: Path = Path("/run/phalanx/slurm-commands.sock")) -> None:
    """Serve Slurm's commands to the users of this machine, so that each call of a command takes a third of the
    processor time.

    `phalanx up` starts the service by itself. On a login node, start the service as root: then each call runs as the
    user who made it. If another user starts the service, it serves only this user. Without the service the commands
    work too, but take longer.

    For example:

        sudo phalanx slurm serve
        phalanx slurm serve --socket ~/.phalanx/slurm-commands.sock

    Parameters
    ----------
    socket
        The socket of the service. The commands search for it beside their kubeconfig, in ~/.phalanx, and at the default
        path.
    """
    words = commands.service_command(socket.expanduser().absolute())
    os.execv(words[0], words)  # noqa: S606 - no shell is wanted


@slurm.command
def configure(file: Path, *, tools: str | None = None) -> None:
    """Create the partitions of a slurm.conf in this cluster, and label the nodes with its features.

    The command prints each line of the file that has no effect in Phalanx. It writes the ConfigMap
    kube-system/phalanx-slurm.

    For example:

        phalanx slurm configure /etc/slurm/slurm.conf
        phalanx slurm configure /etc/slurm/slurm.conf --tools registry.example/phalanx:0.1.0

    Parameters
    ----------
    file
        The slurm.conf.
    tools
        The image of Phalanx from which pods with other images get srun and the step daemon; '' for none. [default:
        unchanged]
    """
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"{file} cannot be read: {error}. Nothing was changed.") from error
    found, told = read_conf(text, file.name)
    notes = apply(ApiClient.open(), found, tools)
    for one in told:
        if not one.taken:
            note(f"{one.text}: {one.became}")
    for line in notes:
        note(line)
    note(f"{len(found.partitions)} partitions: {', '.join(one.name for one in found.partitions)}")


@slurm.command
def node_groups(file: Path) -> None:
    """Print node groups for the nodes of a slurm.conf that programs power up and down (State=CLOUD).

    The output is a file for `phalanx scheduler --node-groups`. The scheduler then calls ResumeProgram and
    SuspendProgram as slurmctld does. SuspendTime, SuspendTimeout, ResumeTimeout, SuspendRate, ResumeRate and
    SuspendExcNodes keep their effect.

    For example:

        phalanx slurm node-groups /etc/slurm/slurm.conf > node-groups.yaml
        sudo phalanx scheduler --node-groups node-groups.yaml

    Parameters
    ----------
    file
        The slurm.conf.
    """
    import yaml  # imported here, because the other commands need no YAML

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


def apply(api: ApiClient, found: Site, tools: str | None = None) -> list[str]:
    """Write the partitions and settings of a slurm.conf to this cluster. Existing accounts and users of the cluster are
    kept. Return the errors with which the API server refused a change."""
    before = site.load(api)
    found.keep(before)
    found.tools = before.tools if tools is None else tools
    if found.tools:
        # do this before the site is stored: as soon as the site names the tools, pods with the tools get a token of
        # their job
        hold_tokens(api)
    site.store(api, found)
    return label(api, found)


def label(api: ApiClient, found: Site) -> list[str]:
    """Add the features to the nodes as labels. Return the errors with which the API server refused a change."""
    refused = []
    for name, features in found.features.items():
        labels = {f"{site.FEATURE}{feature}": "true" for feature in features}
        try:
            api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
        except RequestRefused as error:
            refused.append(f"NodeName={name}: {error.message}")
    return refused
