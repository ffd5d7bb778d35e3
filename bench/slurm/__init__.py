"""A slurmctld of the bench's own: no slurmd, no slurmdbd, nodes of State=EXTERNAL, loopback only."""
