"""`build`: everything heavy, into the cache. Only what is missing is built; an interrupted build leaves no half."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from e2e.lab import go_build, host, images, slurm_root
from e2e.lab.layout import Layout


def build(lab: Layout) -> None:
    """The Go build uses the processors, the Slurm root mostly network and disk: they run side by side."""
    host.require_root()
    lab.cache.mkdir(parents=True, exist_ok=True)
    host.install_packages(lab)
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(work, lab) for work in (go_build.build, slurm_root.build)]
        images.build(lab)
        for job in jobs:
            job.result()
