"""Liveness, readiness and metrics over HTTP on one port."""

from __future__ import annotations

import time
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

STUCK_S = 120
"""A loop that ends no cycle for so long is restarted. A silent slurmctld never leads there: calls have deadlines."""


async def serve(
    port: int, registry: CollectorRegistry, last_cycle: Callable[[], float], is_ready: Callable[[], bool]
) -> web.AppRunner:
    """Serve ``/healthz``, ``/readyz`` and ``/metrics`` on loopback; ``last_cycle`` is in monotonic seconds."""

    async def healthz(_: web.Request) -> web.Response:
        age = time.monotonic() - last_cycle()
        return web.json_response({"lastCycleSeconds": round(age, 1)}, status=200 if age < STUCK_S else 500)

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok") if is_ready() else web.Response(text="a server has not been read", status=503)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner
