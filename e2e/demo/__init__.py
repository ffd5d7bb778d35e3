"""The guided run: `python -m e2e.demo`."""
