"""`phalanx migrate`: translate the queues of another scheduler, and list the differences."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Protocol

import msgspec
import yaml
from cyclopts import Parameter

from phalanx.cli.files.configuration_file import configuration_text
from phalanx.cli.terminal.output import counted, note, print_json
from phalanx.dialects.frame.moved import Moved
from phalanx.dialects.kai import fields as kai
from phalanx.dialects.kube_scheduler.koordinator.fields import migration as koordinator
from phalanx.dialects.kueue.fields import migration as kueue
from phalanx.dialects.volcano import pod_groups as volcano
from phalanx.dialects.yunikorn.checks import read
from phalanx.dialects.yunikorn.configuration import YuniKornConfigurationError
from phalanx.dialects.yunikorn.queues import Translation, translate
from phalanx.errors import PhalanxError


class MigrationSource(StrEnum):
    """The scheduler whose queues are translated."""

    KUEUE = "kueue"
    VOLCANO = "volcano"
    KAI = "kai"
    KOORDINATOR = "koordinator"
    YUNIKORN = "yunikorn"


class Migration(Protocol):
    """A module that describes what the objects of another scheduler mean to Phalanx. `STEPS`: the steps of the
    migration from this scheduler, in order."""

    @property
    def STEPS(self) -> Sequence[str]: ...  # noqa: N802 - a constant of a module

    def moved(self, objects: list[dict[str, object]], /) -> Sequence[Moved]: ...


_PEERS: dict[MigrationSource, tuple[Migration, str]] = {
    MigrationSource.KUEUE: (kueue, "of kueue.x-k8s.io"),
    MigrationSource.VOLCANO: (volcano, "of volcano.sh"),
    MigrationSource.KAI: (kai, "of scheduling.run.ai"),
    MigrationSource.KOORDINATOR: (koordinator, "of Koordinator's groups"),
}


def migrate(
    file: Annotated[Path, Parameter(name="FILE")],
    /,
    *,
    source: Annotated[MigrationSource, Parameter(name="--from")],
    json: bool = False,
) -> None:
    """Show the Phalanx queues that another scheduler's queues become, and the settings that have no effect.

    The command changes nothing.

    YuniKorn: FILE is a `queues.yaml`, or a manifest of its ConfigMap `yunikorn-configs`. The queues are printed as
    manifests, and differences on standard error. If YuniKorn would refuse the file, it is refused here too, with the
    line of the error.

    All other schedulers: FILE has manifests, or the output of `kubectl get -o yaml`. Phalanx reads the objects of these
    schedulers as they are, so nothing is translated. The command prints what each object means to Phalanx, and each job
    in one of these queues, and then the steps of the migration in order. For Kueue and Volcano, add the ConfigMap of
    the scheduler to FILE.

    For example:

        phalanx migrate queues.yaml --from yunikorn
        kubectl get clusterqueues,cohorts,localqueues,resourceflavors,ns,jobs,cm -A -o yaml > now.yaml
        phalanx migrate now.yaml --from kueue
        kubectl get queues.scheduling.volcano.sh,vcjob,cm -A -o yaml > now.yaml
        phalanx migrate now.yaml --from volcano
        kubectl get queues.scheduling.run.ai,podgroups.scheduling.run.ai,jobs -A -o yaml > now.yaml
        phalanx migrate now.yaml --from kai
        kubectl get elasticquotas.scheduling.sigs.k8s.io,pods,jobs -A -o yaml > now.yaml
        phalanx migrate now.yaml --from koordinator
        kubectl get configmap -n yunikorn yunikorn-configs -o yaml > now.yaml
        phalanx migrate now.yaml --from yunikorn | kubectl apply -f -

    Parameters
    ----------
    source
        The scheduler for which the file was written.
    json
        Print JSON: the queues and the notes together.
    """
    if source in _PEERS:
        migration, whose = _PEERS[source]
        _show(file, migration.moved(_objects(file)), migration.STEPS, whose, json)
        return
    try:
        found = translate(read(configuration_text(file)))
    except YuniKornConfigurationError as error:
        text = f"{file}:{error.line}: {error.text}. YuniKorn would refuse the whole file; nothing was translated."
        raise PhalanxError(text) from None
    if json:
        print_json({"queues": _manifests(found), "notes": msgspec.to_builtins(found.notes)})
        return
    if found.queues:
        print(yaml.safe_dump_all(_manifests(found), sort_keys=False), end="")
    note(f"{counted(len(found.queues), 'queue')}; {counted(len(found.notes), 'note')} on settings with another effect:")
    for one in found.notes:
        note(f"  {one.where}: {one.field}: {one.why}")


def _manifests(found: Translation) -> list[dict[str, object]]:
    return [
        {"apiVersion": "phalanx.dev/v1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        for name, spec in found.queues.items()
    ]


def _show(file: Path, found: Sequence[Moved], steps: Sequence[str], whose: str, json: bool) -> None:
    if not found:
        raise PhalanxError(f"{file} has no object {whose} and no job that names one of its queues")
    if json:
        print_json({"objects": msgspec.to_builtins(found), "steps": list(steps)})
        return
    for one in found:
        print(f"{one.object}: {one.becomes}")
        for text in one.notes:
            print(f"    {text}")
    print(f"\n{counted(len(found), 'object')}. Steps of the migration, in this order:")
    for number, step in enumerate(steps, 1):
        print(f"  {number}. {step}")


def _objects(file: Path) -> list[dict[str, object]]:
    """Return the objects in a file of manifests. A List object is replaced by its items. Raises PhalanxError."""
    try:
        parts = list(yaml.safe_load_all(file.read_text()))
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"{file} cannot be read: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise PhalanxError(f"{file} is not valid YAML: {' '.join(str(error).split())}") from error
    whole = [part for part in parts if isinstance(part, dict)]
    inside = [one for part in whole for one in part.get("items") or [part]]
    return [one for one in inside if isinstance(one, dict) and isinstance(one.get("metadata"), dict)]
