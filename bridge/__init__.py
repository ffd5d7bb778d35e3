"""The half of gangbridge that decides: frozen values in, plans out, no effects (except in ``bridge.slurm``)."""
