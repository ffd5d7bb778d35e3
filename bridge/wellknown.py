"""Every label, annotation, finalizer and name under the project's prefix, spelled once."""

from __future__ import annotations

GROUP = "gangbridge.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

DRIVER = "gpu.gangbridge.dev"
"""DRA driver of the slices that gangbridge publishes and that ``operators.driver`` prepares."""

FIELD_MANAGER = "gangbridge"

# Labels
SLURM_NODE = f"{GROUP}/slurm-node"
"""On a Kubernetes node: its Slurm NodeName. A node with this label is managed.

On pods and claims of gangs: where they are, also when the Node object is gone."""
GANG = f"{GROUP}/gang"
GANG_UID = f"{GROUP}/gang-uid"
ATTEMPT = f"{GROUP}/attempt"
RANK = f"{GROUP}/rank"
ROLE = f"{GROUP}/role"
JOB_ID = f"{GROUP}/job-id"
MANAGED_BY = f"{GROUP}/managed-by"

# Annotations of mirrors: what a mirror was written from, and which job of a recycled job id it shows
DIGEST = f"{GROUP}/digest"
SUBMIT_TIME = f"{GROUP}/submit-time"

FENCED = f"{GROUP}/fenced"
"""Annotation of a Node: an admin vouches that nothing runs there any more, and why (``bridge.model.fence``)."""

RELEASE_BRAKE = f"{GROUP}/release-brake"
"""Annotation of a Fleet: the RFC 3339 time of an admin's word that what looks lost is lost; good for ten minutes."""

# Taints, gates, finalizers
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint by which an admin says that a node is shut down (KEP-2268); pod garbage collection believes it too."""
TAINT = f"{GROUP}/managed"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint by which an admin says that a node is shut down (KEP-2268); pod garbage collection believes it too."""
GATE = f"{GROUP}/gang"
FINALIZER = f"{GROUP}/release"
DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
"""Built-in finalizer of the resource claim controller: without it a deleted claim frees its device at once."""

# Slurm
GUARD = "gangbridge:"
"""Begins the ``Extra`` of a Slurm node with pods of holds: the ids of those holds, for which the epilog waits."""
DRAIN_REASON = "gangbridge: "
"""Begins every reason with which a node is drained by us, or by the epilog for us."""

MIRROR_NAMESPACE = "gangbridge-mirror"
