"""Define the rights of the coordinators of Slurm's accounts. A coordinator of an account may change the users of this
account and the accounts below it, and nothing else.

The site's ConfigMap (`phalanx.slurm.cluster.site`) has its own keys for each account NAME: `account.NAME` (shares,
limits), `users.NAME`, `members.NAME`, `coordinators.NAME`, and `path.NAME`, the accounts from the topmost account to
NAME, separated by slashes. A user whom `coordinators.A` names, for any account A on this path, is a coordinator of the
account. As in Slurm (observed with 22.05), a coordinator of an account adds and changes users, names other
coordinators, and adds accounts below this account. A coordinator changes the shares and limits only of accounts that
are below an account that names the coordinator. A coordinator deletes no account.

A role lets coordinators patch the site's ConfigMap, the binding of the role, and queues. Three admission policies
restrict these patches:

- In the site's ConfigMap, coordinators may change only the keys of their accounts. A path that they write must be the
  path of the account above plus the name. So coordinators cannot move a foreign account below their own accounts, and
  cannot move their own account away from the accounts above it, whose limits apply to it.
- Coordinators may change only the queues of their accounts. They may change the shares of users and, if the account is
  below an account that names them, also the queue's weight, limits and parent. The limits of the parent queues still
  apply.
- In the binding, coordinators may not remove a user whom the site's ConfigMap names as a coordinator.

The policies apply to users who may patch the site's ConfigMap but may not replace it (`update`). Operators have both
rights, and other users have neither. So no policy needs a list of the coordinators, and a former coordinator who still
has the role can write nothing.
"""

from __future__ import annotations

from typing import Any

from phalanx.embedded.login.admission import DATA_ALONE, META, alike

Object = dict[str, Any]

ROLE, SITE = "phalanx:slurm-coordinator", "phalanx-slurm"
_SYSTEM = "kube-system"
_RBAC = "rbac.authorization.k8s.io"
RULES: list[Object] = [
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [SITE], "verbs": ["get", "patch"]},
    {"apiGroups": ["phalanx.dev"], "resources": ["queues"], "verbs": ["get", "create", "patch"]},
    {"apiGroups": [_RBAC], "resources": ["clusterrolebindings"], "resourceNames": [ROLE], "verbs": ["get", "patch"]},
]

_USER = "request.userInfo.username"
_ASKED = f'authorizer.group("").resource("configmaps").namespace("{_SYSTEM}").name("{SITE}")'
_CONDITIONS = [
    {"name": "coordinator", "expression": f'{_ASKED}.check("patch").allowed() && !{_ASKED}.check("update").allowed()'}
]


def _list(body: str, **names: str) -> str:
    """Return a CEL expression for a list. `body`: the expression, with short names for some values. The values are
    bound to these names once, because a loop that reads a field of a variable may copy the value at each step, and the
    site is large."""
    for name, value in reversed(names.items()):
        body = f"[{value}].map({name}, {body})[0]"
    return body


def _holds(body: str, **names: str) -> str:
    """Return a CEL expression for a condition. `body`: the expression, with short names as in `_list`."""
    for name, value in reversed(names.items()):
        body = f"[{value}].all({name}, {body})"
    return body


def _own(data: str) -> str:
    """Return a CEL expression for the list of accounts that name the user as a coordinator."""
    named = f'key.startsWith("coordinators.") && {_USER} in data[key].split(",")'
    return _list(f"data.filter(key, {named}).map(key, key.substring(13))", data=data)


def _coordinated(data: str, account: str, *, above: bool = False) -> str:
    """Return a CEL expression that is true if the account exists, and the account or an account above it names the
    user. `above`: True if only the accounts above count."""
    path = f'"path." + {account}'
    strictly = f" && one != {account}" if above else ""
    return f'({path} in {data} && {data}[{path}].split("/").exists(one, one in variables.own{strictly}))'


def _denied(expression: str, message: str) -> Object:
    return {"expression": expression, "reason": "Forbidden", "message": message}


def _policy(name: str, rule: Object, variables: dict[str, str], *validations: Object, **more: Object) -> Object:
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": _CONDITIONS,
        "variables": [{"name": each, "expression": text} for each, text in variables.items()],
        "validations": list(validations),
    }
    return {"metadata": {"name": name}, "spec": spec | more}


_BEFORE = "has(oldObject.data) ? oldObject.data : {}"
_AFTER = "has(object.data) ? object.data : {}"
_NOT_COORDINATED = "Access/permission denied: you do not coordinate this account"
_PARENT_NOT_COORDINATED = "Access/permission denied: you do not coordinate the account above it"


def _names(*kinds: str) -> str:
    """Return a CEL expression for the list of accounts that have a changed key in the site's ConfigMap. `kinds`: the
    prefixes of the keys."""
    found = (
        f'variables.changed.filter(key, key.startsWith("{kind}.")).map(key, key.substring({len(kind) + 1}))'
        for kind in kinds
    )
    return " + ".join(found)


def _coordinates(names: str, *, above: bool) -> str:
    """Return a CEL expression that is true if the user coordinates these accounts after the change and, if they existed
    before it, also before it."""
    own = f'.split("/").exists(one, one in variables.own{" && one != name" if above else ""})'
    return _holds(
        f'variables.{names}.all(name, "path." + name in after && after["path." + name]{own}'
        f' && (!("path." + name in before) || before["path." + name]{own}))',
        before=_BEFORE,
        after=_AFTER,
    )


SITE_POLICY = _policy(
    "slurm-coordinators.phalanx.dev",
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"],
     "resourceNames": [SITE]},
    {
        "own": _own(_BEFORE),
        "changed": _list(
            "before.filter(key, !(key in after) || after[key] != before[key]) + after.filter(key, !(key in before))",
            before=_BEFORE, after=_AFTER,
        ),
        "accounts": _names("account", "path"),
        "paths": _names("path"),
        "staffed": _names("users", "members", "coordinators"),
    },
    _denied(
        'variables.changed.all(key, key.matches("^(account|path|users|members|coordinators)[.]"))',
        "coordinators may change only accounts, their users and their coordinators",
    ),
    _denied(_coordinates("staffed", above=False), _NOT_COORDINATED),
    _denied(_coordinates("accounts", above=True), _NOT_COORDINATED),
    _denied(
        _holds('variables.changed.all(key, key in after || !key.startsWith("account."))', after=_AFTER),
        "coordinators may not delete accounts",
    ),
    _denied(
        _holds(
            'variables.paths.all(name, [after["path." + name].split("/")].all(parts, parts.size() > 1'
            ' && "path." + parts[parts.size() - 2] in after'
            ' && parts.join("/") == after["path." + parts[parts.size() - 2]] + "/" + name))',
            after=_AFTER,
        ),
        _PARENT_NOT_COORDINATED,
    ),
    DATA_ALONE,
)  # fmt: skip

_DATA = "params.data"
_SITE_AS_DATA: Object = {
    # With Deny, a cluster without a site would refuse every write to such an object. Without a site there are no
    # coordinators.
    "paramRef": {"name": SITE, "namespace": _SYSTEM, "parameterNotFoundAction": "Allow"},
}
_OWN_OF_SITE = {"own": f"has({_DATA}) ? {_own(_DATA)} : []"}
_PARAM_KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
_PARENT = 'has(object.spec.parent) ? object.spec.parent : ""'
_PARENT_BEFORE = 'has(oldObject.spec.parent) ? oldObject.spec.parent : ""'


def _same(fields: str) -> str:
    """Return a CEL expression that is true if no field of the queue has changed, except the fields for which the
    expression `fields` is true."""
    return (
        f"object.spec.all(field, {fields} || field in oldObject.spec && oldObject.spec[field] == object.spec[field])"
        f" && oldObject.spec.all(field, {fields} || field in object.spec)"
    )


_USERS = 'field == "accounts"'
_FIELDS = 'field in ["parent", "weight", "accounts", "limits"]'
QUEUE_POLICY = _policy(
    "slurm-coordinated-queues.phalanx.dev",
    {"apiGroups": ["phalanx.dev"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
     "resources": ["queues"]},
    _OWN_OF_SITE,
    _denied(
        f'request.operation == "CREATE" && !("path." + request.name in {_DATA})'
        f' || {_coordinated(_DATA, "request.name")}',
        _NOT_COORDINATED,
    ),
    _denied(  # otherwise an account with the name of another queue would give rights on that queue
        f'request.operation == "CREATE" || {_DATA}["path." + request.name] == (({_PARENT_BEFORE}) == "" ? "" :'
        f' ("path." + oldObject.spec.parent in {_DATA} ? {_DATA}["path." + oldObject.spec.parent] : "?") + "/")'
        " + request.name",
        "Access/permission denied: this queue does not belong to the account, because it has another place in the tree",
    ),
    _denied(
        f'request.operation == "UPDATE" && ({_PARENT}) == ({_PARENT_BEFORE})'
        f" || has(object.spec.parent) && {_coordinated(_DATA, 'object.spec.parent')}",
        _PARENT_NOT_COORDINATED,
    ),
    _denied(
        f'request.operation != "CREATE" || object.spec.all(field, {_FIELDS} || field == "gang" && object.spec.gang)'
        f" && {' && '.join(f'!has(object.{one})' for one in META)}",
        "coordinators may set only parent, weight, accounts and limits of a new account's queue",
    ),
    _denied(
        f'request.operation != "UPDATE" || {alike(*META)}'
        f" && ({_coordinated(_DATA, 'request.name', above=True)} ? {_same(_FIELDS)} : {_same(_USERS)})",
        "coordinators may change only the shares of users in a queue and, below their own accounts, also parent, "
        "weight and limits",
    ),
    paramKind=_PARAM_KIND,
)  # fmt: skip

_SUBJECTS = "(has({0}.subjects) ? {0}.subjects : [])"
BINDING_POLICY = _policy(
    "slurm-coordinators-named.phalanx.dev",
    {"apiGroups": [_RBAC], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["clusterrolebindings"],
     "resourceNames": [ROLE]},
    {},
    _denied(
        _holds(
            f"{_SUBJECTS.format('oldObject')}.all(one, one in {_SUBJECTS.format('object')}"
            ' || !data.exists(key, key.startsWith("coordinators.") && one.name in data[key].split(",")))',
            data=f"has({_DATA}) ? {_DATA} : {{}}",
        ),
        "Access/permission denied: a user who is named as a coordinator would lose the role",
    ),
    _denied(f'{_SUBJECTS.format("object")}.all(one, one.kind == "User") && {alike(*META)}', "only users may be named"),
    paramKind=_PARAM_KIND,
)  # fmt: skip


def _bound(policy: Object, params: Object) -> Object:
    return {
        "metadata": policy["metadata"],
        "spec": {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"], **params},
    }


POLICIES = (SITE_POLICY, QUEUE_POLICY, BINDING_POLICY)
BINDINGS = (
    _bound(SITE_POLICY, {}),
    _bound(QUEUE_POLICY, _SITE_AS_DATA),
    _bound(BINDING_POLICY, _SITE_AS_DATA),
)
