"""Ordered levels of the fleet and the domains of each node."""
