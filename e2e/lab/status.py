"""`status`: one line per daemon that the lab has or should have."""

from __future__ import annotations

import time

from e2e.lab import control_plane, driver, fleet, slurm, supervise
from e2e.lab.layout import Layout


def expected() -> list[str]:
    real = fleet.real_nodes()
    return [
        *control_plane.STOP_ORDER[::-1], "dns", "kwok", *(f"containerd-{n.kube}" for n in real),
        *(f"kubelet-{n.kube}" for n in real), *(driver.name(n) for n in real), *slurm.names()[::-1],
    ]  # fmt: skip


def table(lab: Layout) -> tuple[str, bool]:
    """The table, and whether everything but the (optional) kubelet plugins runs."""
    rows, whole = [("NAME", "STATE", "PID", "SINCE", "ENDPOINT", "LOG")], True
    known = {record.name: record for record in supervise.records(lab)}
    for name in [*expected(), *sorted(set(known) - set(expected()))]:
        record = known.get(name)
        log = str(supervise.log_of(lab, name))
        if record is not None and record.alive():
            started = time.strftime("%H:%M:%S", time.localtime(supervise.since(record)))
            rows.append((name, "running", str(record.pid), started, record.endpoint, log))
            continue
        whole = whole and name.startswith("driver-")
        rows.append((name, "stopped" if record is None else "dead", "-", "-", "-", log))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[5]]) for row in rows]
    return "\n".join(lines), whole
