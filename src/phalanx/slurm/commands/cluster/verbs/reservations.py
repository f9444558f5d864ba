"""scontrol create, update and delete of reservations."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.slurm.accounts.tree import is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.control import reservations
from phalanx.slurm.options import Usage


def create(words: Sequence[str]) -> int:
    if not words:
        raise Usage("too few arguments for create keyword")
    kind = words[0]
    said = {name.lower(): value for name, _, value in (word.partition("=") for word in words) if value}
    entity = entity_of(kind.partition("=")[0])
    if entity not in ("reservationname", "partitionname", "nodename"):
        raise Usage(f"scontrol: error: Invalid creation entity: {kind}")
    api = Api.open()
    here = site.load(api)
    if entity != "reservationname":
        if "=" not in kind and entity == "partitionname":
            raise Usage(f"scontrol: error: Invalid input: {kind}  Request aborted")
        if not is_administrator(here):
            what = "partition" if entity == "partitionname" else "node(s)"
            raise Usage(f"Error creating the {what}: Invalid user id")
        raise Usage(f"scontrol: error: create {kind} is not supported by Phalanx (docs/guide/slurm.md)")
    if "starttime" not in said and "start" not in said:
        raise Usage("scontrol: error: A start time must be given.  No reservation created.")
    if not {"endtime", "end", "duration"} & said.keys():
        raise Usage("scontrol: error: An end time or duration must be given.  No reservation created.")
    if not is_administrator(here):
        raise Usage("Error creating the reservation: Invalid user id")
    print(f"Reservation created: {reservations.create(api, here, said)}")
    return 0


def delete(words: Sequence[str]) -> int:
    if not words:
        raise Usage("too few arguments for delete keyword")
    text = " ".join(words)
    kind, equals, name = text.replace(" ", "=", 1).partition("=")
    if not equals:
        raise Usage("scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'")
    what = {"partitionname": "partition", "reservationname": "reservation", "nodename": "node"}.get(entity_of(kind))
    if what is None:
        raise Usage(f"Invalid deletion entity: {text}")
    api = Api.open()
    if not is_administrator(site.load(api)):
        raise Usage(f"delete_{what} {words[0]}: Invalid user id")
    if what != "reservation":
        raise Usage(f"scontrol: error: delete {text} is not supported by Phalanx (docs/guide/slurm.md)")
    if not reservations.delete(api, name):
        raise Usage(f"delete_reservation {words[0]}: Requested reservation is invalid")
    return 0


_ENTITIES = ("nodename", "partitionname", "reservationname", "jobid")
_LEAST = 3  # the least letters of an entity's name


def entity_of(typed: str) -> str:
    """Return the entity that the beginning of its name means; empty: none."""
    name = typed.lower()
    return next((one for one in _ENTITIES if len(name) >= _LEAST and one.startswith(name)), "")


def update_reservation(said: dict[str, str]) -> int:
    api = Api.open()
    here = site.load(api)
    if not is_administrator(here):
        raise Usage("Error updating the reservation: Invalid user id\nslurm_update error: Invalid user id")
    reservations.update(api, here, said)
    print("Reservation updated.")
    return 0
