"""Where a gang runs: exact nodes, or the reasons why nowhere."""
