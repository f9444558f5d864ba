"""`apiserver/app/engine.py`: what is refused beyond the rights to a kind, and when changed rights apply."""

from __future__ import annotations

from collections.abc import Callable

from tests.embedded.apiserver.app.ada import MAPS, RBAC, SPACE, as_ada, grant, rule
from tests.embedded.apiserver.inprocess import InProcess, Scene

JOBS = "/apis/batch/v1/namespaces/default/jobs"


def test_changed_roles_apply_to_the_next_request(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        ada = as_ada(server)
        assert (await ada.ask("GET", MAPS)).code == 403
        await grant(server, "maps", rule("configmaps", "list"))
        assert (await ada.ask("GET", MAPS)).code == 200
        assert (await server.ask("DELETE", f"{RBAC}/namespaces/default/rolebindings/maps")).code == 200
        assert (await ada.ask("GET", MAPS)).code == 403

    play(scene)


def test_nobody_gives_rights_or_job_numbers_that_are_not_his(play: Callable[[Scene], None]) -> None:
    async def scene(server: InProcess) -> None:
        roles = f"{RBAC}/namespaces/default/roles"
        await grant(server, "roles", rule("roles", "create", group="rbac.authorization.k8s.io"))
        await grant(server, "jobs", rule("jobs", "create", group="batch"))
        ada, secrets = as_ada(server), [rule("secrets", "get")]
        refused = await ada.ask("POST", roles, {"metadata": {"name": "more"}, "rules": secrets})
        assert refused.code == 403
        assert "attempting to grant RBAC permissions not currently held" in refused.body["message"]
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        labels = {"slurm.phalanx.dev/number": "7"}
        spec = {"template": {"spec": pod}}
        numbered = {"metadata": {"name": "j", "labels": labels}, "spec": spec}
        assert (await ada.ask("POST", JOBS, numbered)).code == 403
        assert (await ada.ask("POST", JOBS, {"metadata": {"name": "j"}, "spec": spec})).code == 201
        assert (await server.ask("GET", f"{SPACE}/secrets")).code == 200

    play(scene)
