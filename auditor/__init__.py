"""The auditor: the invariants I1-I8 from fresh lists of both servers, by code that shares nothing with the loop.

It reads Slurm's JSON and Kubernetes' raw objects in its own way on purpose: a mistake in the product's parsing, device
map or ledger cannot hide itself here. It writes nowhere.
"""
