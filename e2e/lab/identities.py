"""Who may speak to the API server: one token per component and per person, each with its own kubeconfig."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass

from e2e.lab import fleet
from e2e.lab.layout import Layout

OPERATOR_NAMESPACE = "gangbridge-system"
SERVER = "https://127.0.0.1:16443"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """`name` is the name of the kubeconfig, `user` and `groups` are what the API server sees."""

    name: str
    user: str
    groups: tuple[str, ...] = ()


def _service_account(name: str) -> Identity:
    """A token that the API server cannot tell from that of the service account in a pod."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{OPERATOR_NAMESPACE}", "system:authenticated")
    return Identity(name=name, user=f"system:serviceaccount:{OPERATOR_NAMESPACE}:{name}", groups=groups)


def identities() -> list[Identity]:
    return [
        Identity(name="admin", user="admin", groups=("system:masters",)),
        Identity(name="scheduler", user="system:kube-scheduler"),
        Identity(name="kcm", user="system:kube-controller-manager"),
        Identity(name="kwok", user="kwok"),
        Identity(name="dns", user="dns"),
        *(Identity(name=n.kube, user=f"system:node:{n.kube}", groups=("system:nodes",)) for n in fleet.real_nodes()),
        _service_account("gangbridge"),
        _service_account("gangbridge-driver"),
        Identity(name="alice", user="alice", groups=("research",)),
        Identity(name="bob", user="bob", groups=("bio",)),
    ]


def write(lab: Layout) -> None:
    """Write the token file and the kubeconfigs. Tokens that exist are kept: shells that are open go on working."""
    tokens_file = lab.pki / "tokens.csv"
    known = {}
    if tokens_file.exists():
        known = {line.split(",")[2]: line.split(",")[0] for line in tokens_file.read_text().splitlines()}
    tokens = {who.name: known.get(who.name) or secrets.token_hex(16) for who in identities()}
    lines = [f'{tokens[who.name]},{who.user},{who.name},"{",".join(who.groups)}"' for who in identities()]
    tokens_file.touch(mode=0o600)
    tokens_file.write_text("\n".join(lines) + "\n")
    lab.kubeconfigs.mkdir(exist_ok=True)
    for who in identities():
        path = lab.kubeconfig(who.name)
        path.touch(mode=0o600)
        path.write_text(_kubeconfig(lab, who.name, tokens[who.name]))


def _kubeconfig(lab: Layout, name: str, token: str) -> str:
    """JSON is YAML too."""
    cluster = {"server": SERVER, "certificate-authority": str(lab.pki / "ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name}}],
    }
    return json.dumps(config, indent=1) + "\n"
