"""What the end-to-end scenarios share: they see both servers as a user does, through kubectl and Slurm's commands."""
