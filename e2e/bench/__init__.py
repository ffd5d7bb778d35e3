"""Times on the real servers: `python -m e2e.bench` prints one table."""
