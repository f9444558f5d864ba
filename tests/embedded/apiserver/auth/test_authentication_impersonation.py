"""`--as`: a request counts as another user's only if the user has the right to impersonate that user."""

from __future__ import annotations

from itertools import count

from tests.embedded.apiserver.process import Answer, ServerProcess

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MASTERS = ("Impersonate-Group", "system:masters")
_numbers = count()


def as_(user: str) -> tuple[str, str]:
    return ("Impersonate-User", user)


def who(answer: Answer) -> object:
    assert answer.code == 201, answer.body
    return answer.body["status"]["userInfo"]


def robot(server: ServerProcess, *rules: object) -> str:
    """The token of a service account with these rights everywhere."""
    space, name = server.make_namespace(f"acting-{next(_numbers)}"), f"acting-{next(_numbers)}"
    server.ask("POST", f"{space}/serviceaccounts", {"metadata": {"name": "robot"}})
    server.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": space.rpartition("/")[2]}
    role = {"kind": "ClusterRole", "name": name}
    bound = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    assert server.ask("POST", f"{RBAC}/clusterrolebindings", bound).code == 201
    return str(server.ask("POST", f"{space}/serviceaccounts/robot/token", {"spec": {}}).body["status"]["token"])


def test_the_request_is_that_of_the_other_user(api_server: ServerProcess) -> None:
    headers = (as_("ada"), ("Impersonate-Group", "research"), ("Impersonate-Uid", "7"))
    assert who(api_server.ask("POST", SELF, {}, headers=headers)) == {
        "username": "ada",
        "uid": "7",
        "groups": ["research", "system:authenticated"],
    }


def test_he_may_what_he_may_and_not_what_the_admin_may(api_server: ServerProcess) -> None:
    refused = api_server.ask("GET", "/api/v1/pods", headers=(as_("ada"),))
    assert refused.code == 403
    assert refused.body["message"] == (
        'pods is forbidden: User "ada" cannot list resource "pods" in API group "" at the cluster scope'
    )
    assert api_server.ask("GET", "/api/v1/pods", headers=(as_("ada"), MASTERS)).code == 200


def test_who_has_no_right_to_it_acts_for_nobody(api_server: ServerProcess) -> None:
    answer = api_server.ask("GET", "/api/v1/pods", token=robot(api_server), headers=(as_("admin"), MASTERS))
    assert answer.code == 403
    assert answer.body["message"].startswith('users "admin" is forbidden: User "system:serviceaccount:')
    assert answer.body["message"].endswith('cannot impersonate resource "users" in API group "" at the cluster scope')


def test_every_group_is_a_right_of_its_own(api_server: ServerProcess) -> None:
    """A user who may impersonate ada may not add the group of cluster masters, in a separate header or behind a
    comma."""
    may = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["ada"]}
    group = {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"], "resourceNames": ["research"]}
    token = robot(api_server, may, group)
    allowed = (as_("ada"), ("Impersonate-Group", "research"))
    assert api_server.ask("POST", SELF, {}, token=token, headers=allowed).code == 201
    for groups in ("system:masters", "research,system:masters", "research, system:masters"):
        answer = api_server.ask("POST", SELF, {}, token=token, headers=(as_("ada"), ("Impersonate-Group", groups)))
        assert answer.code == 403, groups
    assert api_server.ask("POST", SELF, {}, token=token, headers=(as_("bob"),)).code == 403
    assert api_server.ask("POST", SELF, {}, token=token, headers=(as_("ada"), ("Impersonate-Uid", "1"))).code == 403


def test_a_service_account_comes_with_its_groups_and_is_asked_for_in_its_namespace(api_server: ServerProcess) -> None:
    name = "system:serviceaccount:lab:robot"
    found = who(api_server.ask("POST", SELF, {}, headers=(as_(name),)))
    groups = ["system:serviceaccounts", "system:serviceaccounts:lab", "system:authenticated"]
    assert found == {"username": name, "groups": groups}
    refused = api_server.ask("POST", SELF, {}, token=robot(api_server), headers=(as_(name),))
    assert (
        'cannot impersonate resource "serviceaccounts" in API group "" in the namespace "lab"'
        in refused.body["message"]
    )


def test_groups_without_a_user_are_refused(api_server: ServerProcess) -> None:
    answer = api_server.ask("GET", "/api/v1/pods", headers=(MASTERS,))
    assert answer.code == 400
    assert answer.body["message"].endswith("without impersonating a user name")
