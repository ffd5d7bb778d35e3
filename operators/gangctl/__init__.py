"""``kubectl gang``: who holds which device, from the API server alone. A kubectl user has no Slurm."""
