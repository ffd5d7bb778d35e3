"""Nodes for scale: State=EXTERNAL in Slurm (no slurmd), KWOK in Kubernetes. `converge` makes exactly N of them."""

from __future__ import annotations

import re

from e2e.lab import chroot, fleet
from e2e.lab.command import LabError
from e2e.lab.layout import Layout
from e2e.lab.progress import say

FIRST = 16
"""So many a new lab has: enough for every test that is not about scale."""

# one record per socket; count and file of each record must agree
GRES_CONF = "+".join(
    f"count=4,cpu_cnt=64,name=gpu,type={fleet.GPU_TYPE},file=/dev/fakegpu[{first}-{first + 3}],cpus={cores}"
    for first, cores in ((0, "0-31"), (4, "32-63"))
)
CREATE = (
    "create NodeName={name} NodeAddr=127.0.0.1 State=EXTERNAL Feature=ext Sockets=2 CoresPerSocket=32 "
    f"ThreadsPerCore=1 RealMemory=512000 Gres=gpu:{fleet.GPU_TYPE}:{fleet.GPUS_PER_NODE} GresConf={GRES_CONF}"
)


def present(lab: Layout) -> set[str]:
    """Slurm names of the EXTERNAL nodes that exist."""
    seen = chroot.inside(lab, "sinfo", "-h", "-N", "-p", "ext", "-o", "%N").split()
    return {name for name in seen if re.fullmatch(r"ext\d+", name)}


def converge(lab: Layout, count: int) -> None:
    """Create the missing nodes in Slurm and delete those beyond `count`; LabError if one still has jobs."""
    wanted, have = {node.slurm for node in fleet.external_nodes(count)}, present(lab)
    # a range in one `create` breaks GresConf: one line per node, all lines to one scontrol
    lines = [CREATE.format(name=name) for name in sorted(wanted - have, key=_number)]
    lines += [f"delete NodeName={name}" for name in sorted(have - wanted, key=_number)]
    if lines:
        output = chroot.inside(lab, "scontrol", "-Q", stdin="\n".join(lines) + "\n", timeout=60 + len(lines))
        if (left := present(lab)) != wanted:
            raise LabError(f"{len(left)} EXTERNAL nodes instead of {count}; scontrol said:\n{output[-2000:]}")
    say(f"EXTERNAL nodes in Slurm: {count} ({len(wanted - have)} created, {len(have - wanted)} deleted)")


def _number(name: str) -> int:
    return int(name.removeprefix("ext"))
