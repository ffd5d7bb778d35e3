"""``gangbridge plan``: where a gang would run, or why not. Reads, and never writes."""
