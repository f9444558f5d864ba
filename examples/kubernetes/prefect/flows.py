"""As a user of Prefect writes it: two flows, of which one fails. A worker runs each as a Job."""

import os
from pathlib import Path

from prefect import flow, task


@task
def square(number: int) -> int:
    return number**2


@flow
def squares(most: int, into: str) -> None:
    Path(into).write_text(f"{[square(number) for number in range(most)]} {os.uname().nodename}")


@flow
def fails() -> None:
    raise ValueError("no such data")
