"""Frozen values that every layer speaks: nothing here reads a server, a clock or a file."""
