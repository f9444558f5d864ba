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
    if kind.lower() not in ("reservation", "res") and "reservationname" not in said and "reservation" not in said:
        if kind.lower().partition("=")[0] not in ("node", "nodename", "partition", "partitionname"):
            raise Usage(f"scontrol: error: Invalid creation entity: {kind}")
        raise Usage(f"scontrol: error: create {kind} is not supported by Phalanx (docs/guide/slurm.md)")
    if "starttime" not in said and "start" not in said:
        raise Usage("scontrol: error: A start time must be given.  No reservation created.")
    api = Api.open()
    here = site.load(api)
    if not is_administrator(here):
        raise Usage("Error creating the reservation: Invalid user id")
    print(f"Reservation created: {reservations.create(api, here, said)}")
    return 0


def delete(words: Sequence[str]) -> int:
    if not words:
        raise Usage("too few arguments for delete keyword")
    text = " ".join(words)
    kind, _, name = text.replace(" ", "=", 1).partition("=")
    if not name:
        raise Usage("scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'")
    if kind.lower() in ("partition", "partitionname") and not is_administrator(site.load(Api.open())):
        raise Usage(f"delete_partition {text}: Invalid user id")
    if kind.lower() not in ("reservation", "reservationname", "partition", "partitionname", "node", "nodename"):
        raise Usage(f"Invalid deletion entity: {text}")
    if kind.lower() not in ("reservation", "reservationname"):
        raise Usage(f"scontrol: error: delete {text} is not supported by Phalanx (docs/guide/slurm.md)")
    api = Api.open()
    if not is_administrator(site.load(api)):
        raise Usage(f"delete_reservation {text}: Invalid user id")
    if not reservations.delete(api, name):
        raise Usage(f"delete_reservation {text}: Requested reservation is invalid")
    return 0


def update_reservation(said: dict[str, str]) -> int:
    api = Api.open()
    here = site.load(api)
    if not is_administrator(here):
        raise Usage("Error updating the reservation: Invalid user id")
    reservations.update(api, here, said)
    print("Reservation updated.")
    return 0
