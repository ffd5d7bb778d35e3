#!/bin/sh
# Epilog: runs as root on every node of an ended job. While it runs the node is COMPLETING and takes no other job.
# [gangbridge] One line per job and node, so that the order of events on a node can be read afterwards.
echo "$(date +%s.%N) epilog node=$SLURMD_NODENAME job=$SLURM_JOB_ID user=$SLURM_JOB_USER gpus=$SLURM_JOB_GPUS" \
    >>/var/log/slurm/epilog.log
exit 0
