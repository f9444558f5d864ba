"""`phalanx migrate`: the queues of another scheduler as ours, with what will be different."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml
from cyclopts import Parameter

from phalanx.cli.files.configuration_file import configuration_text
from phalanx.cli.terminal.output import counted, note, print_json
from phalanx.dialects.yunikorn.checks import read
from phalanx.dialects.yunikorn.configuration import ConfigurationError
from phalanx.dialects.yunikorn.queues import Translation, translate
from phalanx.errors import PhalanxError


class Peer(StrEnum):
    """Whose queues are read."""

    YUNIKORN = "yunikorn"


def migrate(
    file: Annotated[Path, Parameter(name="FILE")],
    /,
    *,
    source: Annotated[Peer, Parameter(name="--from")],
    json: bool = False,
) -> None:
    """Show what the queues of another scheduler become here, and what of them has no effect.

    The queues are printed as manifests; what is different is said beside them, on standard error. Nothing is changed
    anywhere. A file that the other scheduler refuses is refused, with the line.

    YuniKorn: a `queues.yaml`, or a manifest of its ConfigMap `yunikorn-configs`.

    For example:

        phalanx migrate queues.yaml --from yunikorn
        kubectl get configmap -n yunikorn yunikorn-configs -o yaml > now.yaml
        phalanx migrate now.yaml --from yunikorn | kubectl apply -f -

    Parameters
    ----------
    source
        Which scheduler the file was written for.
    json
        Print JSON: the queues and the notes together.
    """
    try:
        found = translate(read(configuration_text(file)))
    except ConfigurationError as error:
        text = f"{file}:{error.line}: {error.text}. YuniKorn would refuse the whole file; nothing was translated."
        raise PhalanxError(text) from None
    if json:
        print_json({"queues": _manifests(found), "notes": msgspec.to_builtins(found.notes)})
        return
    if found.queues:
        print(yaml.safe_dump_all(_manifests(found), sort_keys=False), end="")
    note(f"{counted(len(found.queues), 'queue')}; {counted(len(found.notes), 'note')} on what has another effect here:")
    for one in found.notes:
        note(f"  {one.where}: {one.field}: {one.why}")


def _manifests(found: Translation) -> list[dict[str, Any]]:
    return [
        {"apiVersion": "phalanx.dev/v1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        for name, spec in found.queues.items()
    ]
