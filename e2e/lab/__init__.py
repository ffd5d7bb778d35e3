"""The lab: a real Slurm and a real Kubernetes on one machine, on loopback, without a container engine or systemd.

Only the standard library is used here, so that the lab starts on a bare machine before any virtual environment exists.
"""
