"""What the operator costs while nothing happens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Of one process: resident memory in MiB and percent of one core."""

    rss_mib: float
    cpu_percent: float

    def __str__(self) -> str:
        return f"{self.rss_mib:.0f} MiB, {self.cpu_percent:.1f} % of a core"


async def run(pid: int, seconds: float) -> tuple[Load, Load]:
    """Return the operator's load and that of its worker process, over ``seconds``."""
    operator = psutil.Process(pid)
    worker = operator.children(recursive=True)
    first = [_cpu([operator]), _cpu(worker)]
    await asyncio.sleep(seconds)
    second = [_cpu([operator]), _cpu(worker)]
    percent = [100 * (later - earlier) / seconds for earlier, later in zip(first, second, strict=True)]
    return Load(rss_mib=_rss([operator]), cpu_percent=percent[0]), Load(rss_mib=_rss(worker), cpu_percent=percent[1])


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _rss(processes: list[psutil.Process]) -> float:
    return sum(process.memory_info().rss for process in processes) / 2**20
