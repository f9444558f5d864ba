"""Jobs and pods of all users, as far as the API server shows them.

1. `phalanx up` serves what Slurm shows everybody (`/slurm/v1/…`): jobs of others without scripts and directories.
2. Elsewhere operators and admins list all namespaces.
3. Everybody else sees the jobs of the kubeconfig's namespace, as with Slurm's PrivateData=jobs.

The first of these lists that the server grants is used for the rest of the command.
"""

from __future__ import annotations

from phalanx.slurm.cluster.api import JOBS, PODS, Api, Refused

_ALL = {JOBS: ("/slurm/v1/jobs", "/apis/batch/v1/jobs"), PODS: ("/slurm/v1/pods", "/api/v1/pods")}
_NOT_SHOWN = (401, 403, 404, 405)


def listed(api: Api, path: str, **query: str) -> bytes:
    """Return the content of the list. `path`: JOBS or PODS. Raises Refused, Unreachable."""
    places = (*_ALL[path], path) if not api.of_job else (path,)
    for at in range(min(api.sight, len(places) - 1), len(places)):
        try:
            content = api.list(places[at], **query)
        except Refused as error:
            if error.code not in _NOT_SHOWN or at == len(places) - 1:
                raise
            continue
        api.sight = at
        return content
    raise AssertionError  # the last path returns or raises
