"""The old place of ``bridge.model.hostlist``."""

from bridge.model.hostlist import MAX_RANGE, expand, fold

__all__ = ["MAX_RANGE", "expand", "fold"]
