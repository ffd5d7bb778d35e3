"""Versions of everything the lab is made of. The cache is keyed by these, so a bump here is a rebuild there."""

KUBERNETES = "1.37.2"
CONTAINERD = "2.4.2"
SLURM = "26.05"
DEBIAN_SUITE = "forky"
PYSLURM = "25.11.2"

# Raised when the recipe of the Slurm root changes although no version did.
SLURM_ROOT_RECIPE = "1"
