"""The resource types that gangbridge reads or writes, and where they live under the API server."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from bridge import wellknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource type. ``group`` is empty for the core group."""

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return the value of ``apiVersion`` in objects of this type."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object or of its subresource.

        Without ``namespace`` the collection spans all namespaces; one object of a namespaced type needs it.
        """
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.plural}/{name}: a namespace is needed")
        parts = ["apis", self.group] if self.group else ["api"]
        parts.append(self.version)
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)


PODS = Resource(plural="pods", kind="Pod")
SERVICES = Resource(plural="services", kind="Service")
NODES = Resource(plural="nodes", kind="Node", namespaced=False)
NAMESPACES = Resource(plural="namespaces", kind="Namespace", namespaced=False)
EVENTS = Resource(plural="events", kind="Event")
LEASES = Resource(group="coordination.k8s.io", plural="leases", kind="Lease")
SELFSUBJECTREVIEWS = Resource(
    group="authentication.k8s.io", plural="selfsubjectreviews", kind="SelfSubjectReview", namespaced=False
)
RESOURCECLAIMS = Resource(group="resource.k8s.io", plural="resourceclaims", kind="ResourceClaim")
RESOURCESLICES = Resource(group="resource.k8s.io", plural="resourceslices", kind="ResourceSlice", namespaced=False)
DEVICECLASSES = Resource(group="resource.k8s.io", plural="deviceclasses", kind="DeviceClass", namespaced=False)


def _own(plural: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource(group=wellknown.GROUP, version=wellknown.VERSION, plural=plural, kind=kind, namespaced=namespaced)


GANGJOBS = _own("gangjobs", "GangJob", namespaced=True)
GANGQUEUES = _own("gangqueues", "GangQueue", namespaced=False)
FLEETS = _own("fleets", "Fleet", namespaced=False)

ALL = (
    PODS,
    SERVICES,
    NODES,
    NAMESPACES,
    EVENTS,
    LEASES,
    SELFSUBJECTREVIEWS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    DEVICECLASSES,
    GANGJOBS,
    GANGQUEUES,
    FLEETS,
)
