"""`phalanx import`: create the partitions, queues and users of a Slurm site in this cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from phalanx.cli.commands.work.slurm import label
from phalanx.cli.terminal.output import note, print_json, print_table
from phalanx.errors import PhalanxError
from phalanx.slurm.accounts.dump import read_dump
from phalanx.slurm.accounts.tree import carry
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.cluster.conf import LineReport, read_conf, read_gres
from phalanx.slurm.cluster.site import Site

import_ = App(
    name="import",
    help="Import the configuration of another scheduler's site.",
    help_epilogue="For example:\n\n    phalanx import slurm --conf slurm.conf --accounts dump.cfg --dry-run\n",
    help_format="markdown",
)


@import_.command
def slurm(
    *,
    conf: Path | None = None,
    gres: Path | None = None,
    accounts: Annotated[Path | None, Parameter(name="--accounts")] = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Import the partitions, accounts, users and QOS of a Slurm site, and report the result of each line.

    slurm.conf has the partitions and the weights, and its features become labels of nodes. Accounts become queues with
    their shares and limits, and users keep their associations. Existing objects are replaced if they have the same
    name, and are kept otherwise. For each line of the files the command prints what it became, or why it has no effect.

    For example:

        sacctmgr dump mycluster file=dump.cfg      # on the Slurm site
        phalanx import slurm --conf /etc/slurm/slurm.conf --gres /etc/slurm/gres.conf --accounts dump.cfg --dry-run
        phalanx import slurm --conf /etc/slurm/slurm.conf --accounts dump.cfg --json > became.json

    Parameters
    ----------
    conf
        The slurm.conf.
    gres
        The gres.conf.
    accounts
        A file that `sacctmgr dump` wrote.
    dry_run
        Print the result, and change nothing.
    json
        Print JSON: file, line, text, became (the result of the line), taken (false if the line has no effect).
    """
    if conf is None and gres is None and accounts is None:
        raise PhalanxError("name a file to read: --conf, --gres or --accounts FILE. Nothing was changed.")
    told: list[LineReport] = []
    api = None if dry_run else ApiClient.open()
    before = Site() if api is None else site.load(api)
    found = before
    if conf is not None:
        found, told = read_conf(_text(conf), conf.name)
        found.keep(before)
    if gres is not None:
        told += read_gres(_text(gres), gres.name)
    if accounts is not None:
        told += read_dump(_text(accounts), found, accounts.name)
    refused = [] if api is None else _carry(api, found, accounts is not None)
    if json:
        print_json(msgspec.to_builtins(told))
    else:
        rows = [[f"{one.file}:{one.line}", one.text, "" if one.taken else "not imported:", one.became] for one in told]
        print_table(("LINE", "TEXT", "", "BECAME"), rows)
    for line in refused:
        note(line)
    taken = sum(one.taken for one in told)
    note(f"{taken} lines imported, {len(told) - taken} not; " + ("nothing was changed" if dry_run else "now in effect"))


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"{file} cannot be read: {error}. Nothing was changed.") from error


def _carry(api: ApiClient, found: Site, accounts: bool) -> list[str]:
    """Write the queues (parents before children), and then the site. In this order, no job can be submitted to an
    account whose queue does not exist. Return the errors with which the API server refused a change."""
    if accounts:
        for name in sorted(found.accounts, key=lambda one: _depth(found, one)):
            carry(api, found, name)
    site.store(api, found)
    return label(api, found)


def _depth(found: Site, name: str) -> int:
    depth = 0
    while (name := found.accounts[name].parent if name in found.accounts else "") and depth <= len(found.accounts):
        depth += 1
    return depth
