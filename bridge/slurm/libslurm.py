"""libslurm through the compiled binding: what pyslurm folds, loses or does not wrap.

pyslurm gives one word for a job's state (COMPLETING hides how it ended), raises on count-only GRES, and has neither the
node's GRES texts nor ``slurm_allocate_resources`` and ``slurm_complete_job``. Records leave as plain dictionaries with
the keys of ``bridge.slurm.records``; empty fields are left out.
"""

from __future__ import annotations

import importlib
import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from bridge.errors import SlurmError, SlurmRejected
from bridge.slurm import wire
from bridge.slurm.libslurm_build import MODULE

_JOB_STATES = (
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
)
"""enum job_states, in order."""

_NODE_STATES = ("UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE")
"""enum node_states, in order."""

_NODE_FLAGS = {
    "NODE_STATE_DRAIN": "DRAIN",
    "NODE_STATE_COMPLETING": "COMPLETING",
    "NODE_STATE_NO_RESPOND": "NOT_RESPONDING",
    "NODE_STATE_POWERED_DOWN": "POWERED_DOWN",
    "NODE_STATE_POWERING_DOWN": "POWERING_DOWN",
    "NODE_STATE_POWERING_UP": "POWERING_UP",
    "NODE_STATE_POWER_DOWN": "POWER_DOWN",
    "NODE_STATE_FAIL": "FAIL",
    "NODE_STATE_MAINT": "MAINTENANCE",
    "NODE_STATE_RES": "RESERVED",
    "NODE_STATE_CLOUD": "CLOUD",
    "NODE_STATE_REBOOT_REQUESTED": "REBOOT_REQUESTED",
    "NODE_STATE_REBOOT_ISSUED": "REBOOT_ISSUED",
    "NODE_STATE_PLANNED": "PLANNED",
    "NODE_STATE_INVALID_REG": "INVALID_REG",
    "NODE_STATE_DYNAMIC_NORM": "DYNAMIC_NORM",
    "GB_NODE_STATE_BLOCKED": "BLOCKED",
    "GB_NODE_STATE_EXTERNAL": "EXTERNAL",
}
"""Names as in ``scontrol show nodes --json``."""

_JOB_TEXTS = (
    "name",
    "account",
    "partition",
    "qos",
    "nodes",
    "tres_per_node",
    "tres_per_job",
    "tres_per_socket",
    "tres_per_task",
    "admin_comment",
    "comment",
    "array_task_str",
    "work_dir",
)
_JOB_NUMBERS = (
    "submit_time",
    "start_time",
    "end_time",
    "exit_code",
    "restart_cnt",
    "priority",
    "array_job_id",
    "het_job_id",
    "het_job_offset",
)


_NODE_TEXTS = ("name", "gres", "gres_used", "reason", "extra")


class Libslurm:
    """The binding, loaded once per process; ``slurm_init`` must have been called, by pyslurm or by ``init``."""

    def __init__(self) -> None:
        # Slurm's plugins look for libslurm's symbols among the global ones.
        sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
        module = importlib.import_module(MODULE)
        self._ffi: Any = module.ffi
        self._lib: Any = module.lib
        self._node_flags = [(getattr(self._lib, flag), name) for flag, name in _NODE_FLAGS.items()]

    def init(self) -> None:
        """Read slurm.conf; for processes without pyslurm."""
        self._lib.slurm_init(self._ffi.NULL)

    def load_jobs(self) -> tuple[float, list[dict[str, Any]]]:
        """Return slurmctld's clock and every job that it still knows, in one call."""
        lib, message = self._lib, self._ffi.new("job_info_msg_t **")
        self._check(lib.slurm_load_jobs(0, message, lib.SHOW_ALL | lib.SHOW_DETAIL))
        try:
            jobs = [self._job(message[0].job_array[i]) for i in range(message[0].record_count)]
            return float(message[0].last_update), jobs
        finally:
            lib.slurm_free_job_info_msg(message[0])

    def load_nodes(self) -> list[dict[str, Any]]:
        """Return every node, in one call. Partitions are not part of slurmctld's node records."""
        lib, message = self._lib, self._ffi.new("node_info_msg_t **")
        self._check(lib.slurm_load_node(0, message, lib.SHOW_ALL | lib.SHOW_DETAIL | lib.SHOW_MIXED))
        try:
            records = (message[0].node_array + i for i in range(message[0].record_count))
            return [self._node(record) for record in records if record.name]
        finally:
            lib.slurm_free_node_info_msg(message[0])

    def load_topology(self) -> tuple[str, str]:
        """Return what ``scontrol show topoconf`` and ``scontrol show topology`` print; no first before 25.05."""
        lib, texts = self._lib, self._ffi.new("char *[2]")
        try:
            self._check(lib.gb_load_topology(texts))
            config, lines = (self._text(text) if text else "" for text in texts)
            return config, lines
        finally:
            for text in texts:
                lib.free(text)

    def allocate(self, request: Mapping[str, Any]) -> int:
        """Submit a hold as the user that this process is, without waiting for it; return the job id."""
        lib, ffi = self._lib, self._ffi
        description = ffi.new("job_desc_msg_t *")
        lib.slurm_init_job_desc_msg(description)
        texts = [ffi.new("char[]", request[key].encode()) if request[key] else ffi.NULL for key in _TEXTS]
        for key, text in zip(_TEXTS, texts, strict=True):  # `texts` keeps the memory alive until the call is over
            setattr(description, key, text)
        for key in _NUMBERS:
            setattr(description, key, request[key])
        if request["pn_min_memory"]:  # 0 would mean all of the node
            description.pn_min_memory = request["pn_min_memory"]
        account = pwd.getpwnam(request["user"])
        description.user_id, description.group_id = account.pw_uid, account.pw_gid
        if request["external"] and not lib.gb_request_external(description):
            raise SlurmRejected("this libslurm has no external jobs (Slurm 25.05 and later)")
        response = ffi.new("resource_allocation_response_msg_t **")
        self._check(lib.slurm_allocate_resources(description, response))
        try:
            return int(lib.gb_allocated_job_id(response[0]))
        finally:
            lib.slurm_free_resource_allocation_response_msg(response[0])

    def complete(self, job_id: int, wait_status: int) -> None:
        """End a job with this wait(2) status. A job that has ended already is left as it is."""
        if self._lib.gb_complete_job(job_id, wait_status) and self._ffi.errno != self._lib.ESLURM_ALREADY_DONE:
            raise self._error()

    def update_nodes(
        self, names: Sequence[str], *, extra: str | None = None, reason: str | None = None, drain: bool | None = None
    ) -> None:
        """Change nodes in one call: their Extra field, and set or lift DRAIN. Nothing is done for no nodes."""
        if not names:
            return
        lib, ffi = self._lib, self._ffi
        update = ffi.new("update_node_msg_t *")
        lib.slurm_init_update_node_msg(update)
        texts = {"node_names": ",".join(names), "extra": extra, "reason": reason}
        kept = {key: ffi.new("char[]", text.encode()) for key, text in texts.items() if text is not None}
        for key, text in kept.items():  # `kept` keeps the memory alive until the call is over
            setattr(update, key, text)
        if drain is not None:
            update.node_state = lib.NODE_STATE_DRAIN if drain else lib.NODE_STATE_UNDRAIN
        self._check(lib.slurm_update_node(update))

    def _job(self, record: Any) -> dict[str, Any]:  # noqa: ANN401 (cffi structs have no type)
        lib = self._lib
        job: dict[str, Any] = {key: self._text(text) for key in _JOB_TEXTS if (text := getattr(record, key))}
        job |= {key: number for key in _JOB_NUMBERS if (number := getattr(record, key))}
        job["job_id"] = record.job_id
        job["state"] = _JOB_STATES[record.job_state & lib.JOB_STATE_BASE]
        if record.job_state & lib.JOB_COMPLETING:
            job["completing"] = True
        job["reason"] = self._reason(record.state_reason)
        job["user"] = self._text(record.user_name) if record.user_name else _user_name(record.user_id)
        if record.req_nodes:
            job["required_nodes"] = self._text(record.req_nodes)
        if record.gres_detail_cnt:
            details = (record.gres_detail_str[i] for i in range(record.gres_detail_cnt))
            job["gres_detail"] = [self._text(detail) if detail else "" for detail in details]
        if record.time_limit not in {lib.INFINITE, lib.NO_VAL}:
            job["time_limit"] = record.time_limit
        if record.array_task_id != lib.NO_VAL:
            job["array_task_id"] = record.array_task_id
        return job

    def _node(self, record: Any) -> dict[str, Any]:  # noqa: ANN401 (as above)
        state = record.node_state
        flags = [name for bit, name in self._node_flags if state & bit]
        texts = {key: self._text(text) for key in _NODE_TEXTS if (text := getattr(record, key))}
        return texts | {
            "hostname": self._text(record.node_hostname) if record.node_hostname else "",
            "state": [_NODE_STATES[state & self._lib.NODE_STATE_BASE], *flags],
            "cpus": record.cpus_efctv,
            "alloc_cpus": self._lib.gb_allocated_cpus(record),
            "real_memory": record.real_memory,
            "alloc_memory": self._lib.gb_allocated_memory(record),
        }

    def _text(self, text: Any) -> str:  # noqa: ANN401 (as above)
        raw: bytes = self._ffi.string(text)
        return raw.decode(errors="replace")

    @lru_cache(maxsize=512)  # noqa: B019 (one instance lives as long as the process)
    def _reason(self, number: int) -> str:
        return self._text(self._lib.gb_reason(number))

    def _check(self, code: int) -> None:
        if code:
            raise self._error()

    def _error(self) -> SlurmError:
        errno = self._ffi.errno
        return wire.refusal(errno, self._text(self._lib.slurm_strerror(errno)))


_TEXTS = ("name", "account", "partition", "qos", "req_nodes", "tres_per_node", "comment", "work_dir")
_NUMBERS = ("min_nodes", "max_nodes", "num_tasks", "ntasks_per_node", "cpus_per_task", "min_cpus", "time_limit")


@lru_cache(maxsize=4096)
def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
