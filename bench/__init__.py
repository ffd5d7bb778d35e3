"""The allocator beside real Slurm, and beside exact optima: ``make bench``."""
