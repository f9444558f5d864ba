"""Create the Secret and the Job of a Slurm job in one request and one commit.

    POST /slurm/v1/submissions?namespace=NAMESPACE        {"secret": {...}, "job": {...}}

The Job owns the Secret. Both objects pass the same checks as objects that are created one by one, with the rights of
the user. After a refusal neither object exists.
`sbatch` then creates both one by one, and reports what refuses them. It does the same with other API servers.
"""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.status import bad_request
from phalanx.embedded.apiserver.auth.authorization import Authorizer
from phalanx.embedded.apiserver.auth.rbac import AccessRequest
from phalanx.embedded.apiserver.endpoints.decoding import Intent
from phalanx.embedded.apiserver.endpoints.write import ObjectWriter
from phalanx.embedded.apiserver.registry.routing import RouteTarget, method_not_allowed
from phalanx.embedded.apiserver.transport.negotiation import decode_body
from phalanx.embedded.apiserver.transport.request import Request, Response, json_response


class SlurmSubmissions:
    """Answers requests for this path. `secrets` and `jobs`: the kinds of the two objects."""

    def __init__(self, writer: ObjectWriter, authorizer: Authorizer, secrets: Resource, jobs: Resource) -> None:
        self._writer, self._authorizer = writer, authorizer
        self._secrets, self._jobs = secrets, jobs

    async def answer(self, request: Request) -> Response:
        """Raises `ApiError` 400, 403, 404, 405, 409, 422."""
        if request.method != "POST":
            raise method_not_allowed()
        namespace = request.text("namespace")
        if request.text("dryRun"):
            raise bad_request("a submission has no dryRun; create the Job and its Secret one by one to try them")
        body: Any = decode_body(request.body, request.content_type, "Submission")
        if not namespace or not isinstance(body, dict) or body.keys() != {"secret", "job"}:
            raise bad_request('the body of a submission is {"secret": …, "job": …}, and the query names a namespace')
        for resource in (self._secrets, self._jobs):
            asked = AccessRequest("create", resource.group, resource.plural, "")
            self._authorizer.resource(request.user, asked, namespace)
        secrets, jobs = (RouteTarget(resource=one, namespace=namespace) for one in (self._secrets, self._jobs))
        intent = Intent(user=request.user, manager=request.manager)
        await self._writer.create_owned(secrets, jobs, (body["secret"], body["job"]), intent)
        return json_response({}, 201)
