"""The configuration of the bench's slurmctld for one fleet; both topologies are there, each with a partition."""

from __future__ import annotations

from bench.fleets import Shape

PORT = 27817

SLURM_CONF = """\
ClusterName=bench
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
CommunicationParameters=NoCtldInAddrAny
StateSaveLocation=/var/spool/slurmctld
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmctldDebug=info
LogTimeFormat=iso8601_ms,format_stderr
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,default_queue_depth=20000,partition_job_depth=0,max_sched_time=90
MaxJobCount=100000
MinJobAge=2
# max_sched_time may not be longer
MessageTimeout=100
MailProg=/bin/true
NodeName=DEFAULT Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 Gres=gpu:{gpus} State=EXTERNAL
NodeName=n[1-{nodes}] NodeAddr=127.0.0.1
PartitionName=DEFAULT State=UP MaxTime=INFINITE Nodes=ALL
PartitionName=tree Topology=tree Default=YES
PartitionName=block Topology=block
"""


def files(shape: Shape) -> dict[str, str]:
    """Return the files of /etc/slurm by name. Nodes are ``n1`` … in the order of the leaves.

    GPUs of such nodes are counted, without indices: slurmctld reads gres.conf for nodes with a slurmd only.
    """
    return {
        "slurm.conf": SLURM_CONF.format(port=PORT, nodes=shape.nodes, gpus=shape.gpus),
        "topology.yaml": topology(shape),
    }


def topology(shape: Shape) -> str:
    """Return topology.yaml: leaves below spines as a tree, and as blocks whose second size is a spine."""
    lines = ["---", "- topology: tree", "  cluster_default: true", "  tree:", "    switches:"]
    lines += ["      - switch: core", f"        children: spine[0-{shape.spines - 1}]"]
    for spine in range(shape.spines):
        first = spine * shape.leaves
        lines += [f"      - switch: spine{spine}", f"        children: leaf[{first}-{first + shape.leaves - 1}]"]
    leaves = [
        (leaf, f"n[{leaf * shape.size + 1}-{(leaf + 1) * shape.size}]") for leaf in range(shape.spines * shape.leaves)
    ]
    for leaf, nodes in leaves:
        lines += [f"      - switch: leaf{leaf}", f"        nodes: {nodes}"]
    lines += ["- topology: block", "  cluster_default: false", "  block:", "    block_sizes:"]
    lines += [f"      - {size}" for size in (shape.size, shape.size * shape.leaves, shape.nodes)]
    lines += ["    blocks:"]
    for leaf, nodes in leaves:
        lines += [f"      - block: leaf{leaf}", f"        nodes: {nodes}"]
    return "\n".join(lines) + "\n"
