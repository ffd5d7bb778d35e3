"""The port to Slurm and its adapters: pyslurm worker process, CLI tools, in-memory fake."""
