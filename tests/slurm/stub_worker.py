"""A worker process without Slurm, for the client's tests: its behaviour comes as arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

VIEW = {
    "taken_at": 5.0,
    "jobs": [{"job_id": 1, "state": "RUNNING", "user": "alice", "nodes": "n1", "gres_detail": ["gpu:a:1(IDX:3)"]}],
    "nodes": [{"name": "n1", "state": ["MIXED"], "gres": "gpu:a:4", "gres_used": "gpu:a:1(IDX:3)"}],
    "partitions": {"main": "n[1-2]"},
}


def say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request: dict[str, object], how: str) -> None:  # noqa: C901
    number, op = request["id"], request["op"]
    match how:
        case "echo":
            ok = {"view": VIEW, "allocate": 77, "topology": {"config": "", "lines": "SwitchName=s Nodes=n1"}}
            say({"id": number, "ok": ok.get(str(op), request["args"])})
        case "pid":
            say({"id": number, "ok": {"version": "26.05.5", "cluster": str(os.getpid())}})
        case "reject":
            say({"id": number, "error": {"kind": "rejected", "message": "Invalid account", "errno": 2045}})
        case "unavailable":
            say({"id": number, "error": {"kind": "unavailable", "message": "connect failure (errno 1800)"}})
        case "hang":
            time.sleep(60)
        case "hang-with-child":
            subprocess.Popen(["sleep", "61.25"])
            time.sleep(60)
        case "die":
            sys.stderr.write("slurmctld ate the worker\n")
            sys.exit(7)
        case "confuse":
            say({"id": 12345, "ok": None})
        case "babble":
            sys.stdout.write("no JSON\n")
            sys.stdout.flush()
        case "odd-view":
            say({"id": number, "ok": VIEW | {"jobs": [{"job_id": 1, "state": "DREAMING", "user": "a"}]}})
        case "huge":
            jobs = [VIEW["jobs"][0] | {"job_id": n, "admin_comment": "x" * 200} for n in range(20_000)]  # type: ignore[index]
            say({"id": number, "ok": VIEW | {"jobs": jobs}})


def main() -> None:
    start, *behaviours = sys.argv[1:]
    match start:
        case "missing":
            sys.stderr.write("ModuleNotFoundError: No module named 'pyslurm'\n")
            sys.exit(1)
        case "silent":
            time.sleep(60)
    say({"id": 0, "ok": {"pid": os.getpid()}})
    for line in sys.stdin:
        request = json.loads(line)
        answer(request, behaviours[0] if len(behaviours) == 1 else behaviours.pop(0))


main()
