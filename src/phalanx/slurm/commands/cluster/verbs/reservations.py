"""scontrol create, update and delete of reservations."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.slurm.accounts.tree import is_administrator
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.api import Api
from phalanx.slurm.control import reservations
from phalanx.slurm.options import Usage


def create(words: Sequence[str]) -> int:
    kind = words[0] if words else ""
    said = {name.lower(): value for name, _, value in (word.partition("=") for word in words) if value}
    if kind.lower() not in ("reservation", "res") and "reservationname" not in said and "reservation" not in said:
        raise Usage(f"scontrol: error: create {kind} is not supported by Phalanx (docs/guide/slurm.md)")
    api = Api.open()
    here = site.load(api)
    if not is_administrator(here):
        raise Usage("Error creating the reservation: Invalid user id")
    print(f"Reservation created: {reservations.create(api, here, said)}")
    return 0


def delete(words: Sequence[str]) -> int:
    text = " ".join(words)
    kind, _, name = text.replace(" ", "=", 1).partition("=")
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
