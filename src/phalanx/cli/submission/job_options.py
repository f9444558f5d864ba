"""The options from which a Job is made without YAML, shared by `run` and `submit`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from phalanx.cli.files.manifest import ManifestRequest, environment, name_of
from phalanx.cli.submission.scheduling_options import WishOptions
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError

HOST_IMAGE = "host"
# Kubernetes' letters of generated names: without vowels they form no words.
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options that say what the pods of the job ask, and where they run."""

    name: str | None = None
    """The Job's name. [default: that of the program or script, and five letters]"""

    pods: Annotated[int, Parameter(alias="-p")] = 1
    """Pods that run the command at once and start together. Each has a name, NAME-INDEX.NAME, and RANK, WORLD_SIZE,
    MASTER_ADDR and MASTER_PORT, as torchrun and torch.distributed read them."""

    cpu: str = "1"
    """CPU of each pod: 2, 500m."""

    memory: str = ""
    """Memory of each pod, which it may not exceed: 512Mi, 16Gi."""

    gpu: int = 0
    """GPUs (nvidia.com/gpu) of each pod."""

    image: str = HOST_IMAGE
    """The container image; `host` is the machine's own file system."""

    directory: str | None = None
    """The working directory. [default: the current one with --image host, else the image's]"""

    env: tuple[str, ...] = ()
    """NAME=VALUE for the environment; may be given again."""

    retries: Annotated[int, Parameter(validator=Number(gte=0))] = 0
    """How often pods that fail are started again, in all."""

    output: str = ""
    """Write the output into this file of the pod, and not into its log: out.txt, run-%r.txt (%r is the pod's index, %a
    the array's task). [default: the log, which phalanx logs shows]"""

    ttl: str = ""
    """Delete the Job so long after its end: 12h, 7d. The ledger keeps its record, and one machine its output.
    [default: 1d; of `phalanx run` 1h]"""

    def request(
        self,
        command: Sequence[str],
        namespace: str,
        queue: str,
        keep_s: int | None = None,
        *,
        is_array: bool = False,
    ) -> ManifestRequest:
        """Return the request for a Job that runs the command. Raises PhalanxError for invalid options."""
        if "%a" in self.output and not is_array:
            raise PhalanxError(f"--output {self.output}: %a is the task of an array, and there is no --array.")
        suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))
        here = os.getcwd() if self.image == HOST_IMAGE else ""
        return ManifestRequest(
            name=self.name or name_of(command, suffix),
            command=tuple(command),
            output=self.output,
            namespace=namespace,
            queue=queue,
            pods=self.pods,
            cpu=self.cpu,
            memory=self.memory,
            gpu=self.gpu,
            image=self.image,
            directory=here if self.directory is None else self.directory,
            environment=environment(self.env),
            keep_s=_length_s(self.ttl) if self.ttl else keep_s,
            retries=self.retries,
            chance=secrets.randbelow(1 << 30),
        )


def _length_s(text: str) -> int:
    try:
        return int(duration_s(text))
    except Misread:
        raise PhalanxError(f"--ttl {text!r}: write for instance 12h or 7d. Nothing was created.") from None


def given(options: JobOptions | WishOptions) -> str:
    """Return the first option that was given; "" if none was."""
    changed = (one.name for one in fields(options) if getattr(options, one.name) != one.default)
    return next((f"--{name.replace('_', '-')}" for name in changed), "")
