"""Who may own which device: GRES and TRES texts, device maps, the ledger and its invariants."""
