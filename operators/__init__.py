"""The half of gangbridge that acts: thin, no decisions."""
