"""Chaos on the lab's real servers: a mixed load, hundreds of faults at random moments, a verdict from both sides."""
