"""Life of a gang and of a mirror: observed facts in, idempotent actions out."""
