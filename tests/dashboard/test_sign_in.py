"""The page in a cluster: its own account reads the cluster, and each viewer sees and does what the viewer may."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from aiohttp import ClientConnectorError, ClientSession, CookieJar, TCPConnector

from phalanx.cli.cluster.target import Target
from phalanx.cli.commands.status.dashboard import dashboard
from phalanx.cli.views.page import following
from phalanx.cli.views.page.agents import admitted
from phalanx.cli.views.page.entrance import Entrance
from phalanx.cli.views.page.following import Following
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import JOBS, NAMESPACES, Kind
from phalanx.dashboard import sign_in
from phalanx.dashboard.libraries import missing
from phalanx.dashboard.rows import Board, Facts
from phalanx.dashboard.serving import Page, served_files, serving
from phalanx.dashboard.sign_in import SignIn
from phalanx.embedded.apiserver.auth.authority import Pair, make_authority, make_server
from phalanx.errors import PhalanxError
from phalanx.extensions.webhook.serving import show, tls_context
from phalanx.kube.install.definitions import install
from tests.embedded.apiserver.process import ServerProcess

pytestmark = pytest.mark.slow
COMPONENTS = Path(__file__).parents[2] / "deploy" / "components"
PROXY = "phalanx-dashboard-proxy"
RBAC = "rbac.authorization.k8s.io"
SPACES = ("phalanx-system", "vision", "speech")
SECRETS = ("sofia", "train", "speech")  # what only who may list the jobs of `speech` reads


def job(space: str, name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "any", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "schedulerName": "phalanx", "containers": [container]}
    meta = {"name": name, "namespace": space, "labels": {"phalanx.dev/queue": "default", "owner": "sofia"}}
    body = {"suspend": True, "parallelism": 1, "completions": 1, "template": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


def bound(role: str, subject: dict[str, str], space: str = "") -> dict[str, Any]:
    kind = "RoleBinding" if space else "ClusterRoleBinding"
    meta = {"name": f"{role}-{subject['name']}", **({"namespace": space} if space else {})}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": meta,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def account(name: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": "phalanx-system"}


def role(name: str, *verbs: str) -> dict[str, Any]:
    rules = [{"apiGroups": ["", "batch"], "resources": ["pods", "jobs"], "verbs": list(verbs)}]
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def made() -> Iterator[dict[str, Any]]:
    """Two users by token (ana lists everything, ivo works in `vision`), and one of a proxy (kim, in `vision`)."""
    for space in SPACES:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    for name in ("ana", "ivo"):
        meta = {"name": name, "namespace": "phalanx-system"}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    yield role("lists", "get", "list")
    yield role("works", "get", "list", "delete", "patch")
    yield bound("lists", account("ana"))
    yield bound("works", account("ivo"), "vision")
    yield bound("works", {"kind": "User", "apiGroup": RBAC, "name": "kim"}, "vision")
    for component in ("dashboard", "dashboard-proxy"):
        yield from yaml.safe_load_all((COMPONENTS / component / "rbac.yaml").read_text())
    yield job("vision", "seg")
    yield job("vision", "kept")
    yield job("speech", "train")


def kind_of(obj: dict[str, Any]) -> Kind:
    group, _, version = obj["apiVersion"].rpartition("/")
    name = obj["kind"]
    return Kind(
        group=group,
        version=version,
        plural=f"{name.lower()}s",
        name=name,
        namespaced="namespace" in obj["metadata"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """A cluster with its page."""

    admin: Connection
    door: SignIn
    address: str
    secure: str
    authority: Pair

    async def token(self, name: str) -> str:
        path = f"/api/v1/namespaces/phalanx-system/serviceaccounts/{name}/token"
        return str((await self.admin.request("POST", path, body={"spec": {}}))["status"]["token"])

    @asynccontextmanager
    async def viewer(self, name: str) -> AsyncIterator[ClientSession]:
        """A browser in which that user has signed in."""
        jar = CookieJar(unsafe=True)
        async with ClientSession(self.address, cookie_jar=jar, headers={"Origin": self.address}) as browser:
            form = {"token": await self.token(name)}
            async with browser.post("/sign-in", data=form, allow_redirects=False) as answer:
                assert answer.status == 303, await answer.text()
                assert "HttpOnly" in answer.headers["Set-Cookie"]
                assert "SameSite=Strict" in answer.headers["Set-Cookie"]
            yield browser

    @asynccontextmanager
    async def proxy(self, certificate: str | None, **headers: str) -> AsyncIterator[ClientSession]:
        """A proxy with a client certificate of that name; it sends these headers."""
        context = ssl.create_default_context(cadata=self.authority.certificate_pem.decode())
        if certificate is not None:
            now = dt.datetime.now(dt.UTC)
            show(context, make_server(self.authority, certificate, ["proxy"], now, dt.timedelta(hours=1)))
        said = {name.replace("_", "-"): value for name, value in headers.items()} | {"Origin": self.secure}
        async with ClientSession(self.secure, connector=TCPConnector(ssl=context), headers=said) as found:
            yield found


async def state_of(browser: ClientSession) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            async with browser.get("/state") as answer:
                if answer.status == 200:
                    return json.loads(await answer.text())
                assert answer.status == 503, await answer.text()
            await asyncio.sleep(0.05)  # until the cluster was read


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess.started(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@asynccontextmanager
async def shop(server: ServerProcess) -> AsyncIterator[Shop]:
    """The page as deploy/components/dashboard and dashboard-proxy run it, with their account."""
    async with await Connection.open(server.kubeconfig) as admin:
        try:
            await admin.get(NAMESPACES, "speech")
        except ApiRefusal:
            await install(admin)
            for obj in made():
                await admin.create(kind_of(obj), obj, obj["metadata"].get("namespace", ""))
        now = dt.datetime.now(dt.UTC)
        authority = make_authority("proxies", now, dt.timedelta(hours=1))
        context = tls_context()
        show(context, make_server(authority, "page", ["127.0.0.1"], now, dt.timedelta(hours=1)))
        context.load_verify_locations(cadata=authority.certificate_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        path = "/api/v1/namespaces/phalanx-system/serviceaccounts/phalanx-dashboard/token"
        token = (await admin.request("POST", path, body={"spec": {}}))["status"]["token"]
        own = admin.with_token(token)
        watching = Following(own, Facts())
        door = SignIn(lambda credential: admitted(own, credential, None), time.monotonic, proxies=[PROXY])
        page, port = Page(watching, door, served_files(), Board(), pause_s=0), free_port()
        door.namespaces = lambda: page.namespaces
        with mock.patch.multiple(following, _PAUSE_S=0.05, _IDLE_S=0.2):
            async with serving(page, 0, ("127.0.0.1", port), context) as local:
                task = asyncio.create_task(watching.run(page.publish))
                try:
                    yield Shop(
                        admin=admin,
                        door=door,
                        address=f"http://127.0.0.1:{local}",
                        secure=f"https://127.0.0.1:{port}",
                        authority=authority,
                    )
                finally:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    await own.close()


async def test_each_viewer_sees_by_the_viewers_own_rights(server: ServerProcess) -> None:
    async with shop(server) as at, at.viewer("ana") as ana, at.viewer("ivo") as ivo:
        everything = await state_of(ana)
        assert {row["id"] for row in everything["jobs"]} == {"vision/seg", "vision/kept", "speech/train"}
        async with ivo.get("/me") as answer:
            assert (await answer.json())["user"] == "system:serviceaccount:phalanx-system:ivo"
        for path in ("/state", "/past?from=0&to=9"):
            async with ivo.get(path) as answer:
                text = await answer.text()
                assert answer.status == 200
                assert [secret for secret in SECRETS if secret in text] == [], path
        seen = await state_of(ivo)
        assert {"vision/seg", "vision/kept"} < {row["id"] for row in seen["jobs"]}
        assert sum(row["cpu"] for row in seen["jobs"]) == sum(row["cpu"] for row in everything["jobs"])
        for path in ("/output?job=speech/train", "/history?job=speech/train"):
            async with ivo.get(path) as answer:
                assert answer.status == 404


async def test_who_has_no_token_of_the_cluster_sees_nothing(server: ServerProcess) -> None:
    async with shop(server) as at, ClientSession(at.address, headers={"Origin": at.address}) as stranger:
        for path in ("/", "/state", "/me", "/events", "/js/main.js"):
            async with stranger.get(path) as answer:
                assert (answer.status, "Sign in" in await answer.text()) == (401, True), path
        for token, status in (("", 400), ("two words", 400), ("x" * 9000, 400), ("guessed", 403)):
            async with stranger.post("/sign-in", data={"token": token}) as answer:
                assert answer.status == status
                assert not answer.cookies
        good = {"token": await at.token("ana")}
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}):
            async with stranger.post("/sign-in", data=good, headers=headers) as answer:
                assert answer.status == 403
        bearer = {"Authorization": f"Bearer {good['token']}"}
        async with stranger.get("/me", headers=bearer) as answer:
            assert (answer.status, (await answer.json())["leaves"]) == (200, False)
        async with stranger.get("/me", headers={"Authorization": "Bearer guessed"}) as answer:
            assert answer.status == 401


async def test_what_a_viewer_does_counts_as_done_by_the_viewer(server: ServerProcess) -> None:
    async with shop(server) as at, at.viewer("ana") as ana, at.viewer("ivo") as ivo:
        await state_of(ana)

        async def act(browser: ClientSession, name: str, action: str, **headers: str) -> tuple[int, str]:
            order = {"job": name, "action": action}
            async with browser.post("/act", json=order, headers=headers) as answer:
                return answer.status, await answer.text()

        code, text = await act(ana, "vision/seg", "cancel")
        assert (code, "cannot delete resource" in text) == (409, True), text
        assert (await act(ivo, "speech/train", "cancel"))[0] == 404
        assert (await act(ivo, "vision/seg", "cancel", Origin="http://evil.example"))[0] == 403
        await at.admin.get(JOBS, "seg", "vision")
        assert await act(ivo, "vision/seg", "hold") == (200, '{"done": "vision/seg was held"}')
        annotations = (await at.admin.get(JOBS, "seg", "vision"))["metadata"]["annotations"]
        assert annotations["phalanx.dev/hold"] == "true"
        assert (await act(ivo, "vision/seg", "release"))[0] == 200
        assert (await act(ivo, "vision/seg", "cancel"))[0] == 200
        with pytest.raises(ApiRefusal, match="not found"):
            await at.admin.get(JOBS, "seg", "vision")


async def test_rights_are_asked_again_and_a_token_that_is_taken_away_ends_the_session(server: ServerProcess) -> None:
    with mock.patch.object(sign_in, "REVIEW_S", 0.0):
        async with shop(server) as at, at.viewer("ivo") as ivo:
            before = await state_of(ivo)
            assert "speech/train" not in {row["id"] for row in before["jobs"]}
            async with ivo.get("/events", params={"since": before["id"]}) as stream:
                binding = bound("works", account("ivo"))
                await at.admin.create(kind_of(binding), binding)
                async with asyncio.timeout(60):
                    while b"reset" not in await stream.content.readuntil(b"\n\n"):
                        pass
            assert "speech/train" in {row["id"] for row in (await state_of(ivo))["jobs"]}
            await at.admin.request("DELETE", "/api/v1/namespaces/phalanx-system/serviceaccounts/ivo")
            async with ivo.get("/state") as answer:
                assert answer.status == 401
            assert at.door.sessions == []


async def test_a_proxy_is_believed_by_its_certificate(server: ServerProcess) -> None:
    async with shop(server) as at:
        async with at.proxy(PROXY, X_Remote_User="kim", X_Remote_Group="research") as kim:
            seen = await state_of(kim)
            assert "vision/kept" in {row["id"] for row in seen["jobs"]}
            assert "train" not in json.dumps(seen)
            async with kim.post("/act", json={"job": "vision/kept", "action": "nice", "value": 5}) as answer:
                assert answer.status == 200, await answer.text()
            written = await at.admin.get(JOBS, "kept", "vision")
            assert written["metadata"]["annotations"]["phalanx.dev/nice"] == "5"
        for certificate, user, group in (
            (None, "kim", "research"),
            ("another", "kim", "research"),
            (PROXY, "", "research"),
            (PROXY, "kim", "system:masters"),
            (PROXY, "system:admin", "research"),
        ):
            proxy = at.proxy(certificate, X_Remote_User=user, X_Remote_Group=group)
            async with proxy as other, other.get("/state") as answer:
                assert answer.status == 401, (certificate, user, group)
        plain = ClientSession(at.address, headers={"X-Remote-User": "kim"})
        async with plain, plain.get("/state") as answer:
            assert answer.status == 401


@pytest.mark.skipif(bool(missing()), reason="the libraries of the page are not installed (`make page`)")
async def test_the_command_serves_the_page_with_a_certificate_of_its_own(server: ServerProcess) -> None:
    async with shop(server):  # so that the cluster has queues
        port = free_port()
        entrance = Entrance(sign_in=True, address=f"127.0.0.1:{port}")
        task = asyncio.create_task(dashboard(target=Target(kubeconfig=server.kubeconfig), entrance=entrance))
        async with asyncio.timeout(60), ClientSession(f"https://127.0.0.1:{port}") as browser:
            while not task.done():
                with contextlib.suppress(ClientConnectorError):
                    async with browser.get("/readyz", ssl=False) as answer:
                        if answer.status == 200:
                            break
                await asyncio.sleep(0.05)  # until it listens, and has read the cluster
            async with browser.get("/", ssl=False) as answer:
                assert "Sign in to Phalanx" in await answer.text()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("entrance", "said"),
    [
        (Entrance(host=("phalanx.example",)), "need --sign-in"),
        (Entrance(sign_in=True, address="0.0.0.0:8443", proxy_name=("proxy",)), "need each other"),
        (Entrance(sign_in=True, proxy_name=("proxy",), proxy_ca=Path("ca.crt")), "need each other"),
        (Entrance(sign_in=True, tls_cert=Path("tls.crt"), tls_key=Path("tls.key")), "need each other"),
        (Entrance(sign_in=True, address="8443"), "not an address to listen on"),
    ],
)
def test_options_that_do_not_go_together_are_refused(entrance: Entrance, said: str) -> None:
    with pytest.raises(PhalanxError, match=said):
        entrance.public()
