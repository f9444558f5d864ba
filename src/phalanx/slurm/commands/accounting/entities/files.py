"""`sacctmgr dump` and `sacctmgr load`: the tree of accounts as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phalanx.slurm.accounts.dump import dump as dumped
from phalanx.slurm.accounts.dump import read_dump
from phalanx.slurm.accounts.tree import carry, is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.options import Usage, say


def _file(words: Sequence[str]) -> tuple[str, str]:
    """Return the bare word, and the file."""
    bare = next((word for word in words if "=" not in word), "")
    pairs = dict(word.split("=", 1) for word in words if "=" in word)
    if unknown := set(pairs) - {"file", "cluster"}:
        name = min(unknown)
        raise Usage(f" Unknown option: {name}={pairs[name]}")
    return bare, pairs.get("file", "")


def dump(words: Sequence[str]) -> int:
    """`dump CLUSTER file=NAME`: by default CLUSTER.cfg."""
    here = site.load(Api.open())
    cluster, file = _file(words)
    if not cluster:
        raise Usage(" We need a cluster to dump.")
    if cluster != here.cluster:
        raise Usage(f" Cluster {cluster} doesn't exist.")
    text = dumped(here)
    try:
        Path(file or f"{here.cluster}.cfg").write_text(text)
    except OSError as error:
        raise Usage(f"sacctmgr: error: {file or here.cluster + '.cfg'} cannot be written: {error.strerror}") from None
    for line in text.splitlines():
        say(f"sacctmgr: {line}")
    return 0


def load(words: Sequence[str]) -> int:
    """`load FILE` or `load file=NAME`: add the entities of a file. Existing entities stay, except those of the same
    name."""
    bare, file = _file(words)
    api = Api.open()
    here = site.load(api)
    if not (file or bare):
        raise Usage(" No filename given, specify one with file=''")
    try:
        text = Path(file or bare).read_text()
    except OSError as error:
        raise Usage(f' Unable to read "{file or bare}": {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise Usage(f"sacctmgr: error: {file or bare} cannot be read: {error}") from None
    if not is_administrator(here):
        raise Usage(" Problem loading a file: Access/permission denied")
    before = set(here.accounts)
    told = read_dump(text, here, Path(file or bare).name)
    for name in here.accounts:  # parents stand before their children
        carry(api, here, name)
    site.store(api, here)
    for one in told:
        if not one.taken:
            say(f"sacctmgr: {one.text}: {one.became}")
    print(f" {len(set(here.accounts) - before)} accounts added, {sum(one.taken for one in told)} lines loaded")
    return 0
