"""Compile ``_gangbridge_libslurm``, the small binding for what pyslurm does not give.

Usage: ``python -m bridge.slurm.libslurm_build [OUTDIR]`` with the interpreter that runs the worker, on a machine with
libslurm's headers, a C compiler and cffi; OUTDIR (default: that interpreter's site-packages) must be importable for the
worker. Nothing happens when OUTDIR already has a build of this source against this libslurm. SLURM_INCLUDE_DIR and
SLURM_LIB_DIR name headers (the folder above ``slurm``) and libraries in unusual places.

It is cffi's API mode: the C compiler lays out every struct from the installed ``slurm.h`` and refuses a member that has
gone, so one source serves every Slurm version from 24.11 on. Calls that changed between versions are behind ``gb_``
wrappers.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

MODULE = "_gangbridge_libslurm"

# What slurm.h declares; "...;" lets the compiler fill in the rest.
DECLARATIONS = """
typedef long time_t;

typedef struct {
    char *account, *admin_comment, *comment, *name, *nodes, *partition, *qos, *req_nodes, *user_name, *work_dir;
    char *array_task_str, *tres_per_job, *tres_per_node, *tres_per_socket, *tres_per_task;
    char **gres_detail_str;
    uint32_t gres_detail_cnt;
    uint32_t job_id, array_job_id, array_task_id, het_job_id, het_job_offset;
    uint32_t exit_code, job_state, priority, state_reason, time_limit, user_id;
    uint16_t restart_cnt;
    time_t submit_time, start_time, end_time;
    ...;
} slurm_job_info_t;
typedef struct { time_t last_update; uint32_t record_count; slurm_job_info_t *job_array; ...; } job_info_msg_t;

typedef struct {
    char *name, *node_hostname, *reason, *extra, *gres, *gres_used;
    uint32_t node_state;
    uint16_t cpus_efctv;
    uint64_t real_memory;
    ...;
} node_info_t;
typedef struct { uint32_t record_count; node_info_t *node_array; ...; } node_info_msg_t;

typedef struct {
    char *node_names, *extra, *reason;
    uint32_t node_state;
    ...;
} update_node_msg_t;

typedef struct {
    char *account, *comment, *name, *partition, *qos, *req_nodes, *tres_per_node, *work_dir;
    uint32_t min_nodes, max_nodes, num_tasks, min_cpus, time_limit, user_id, group_id;
    uint16_t cpus_per_task, ntasks_per_node;
    uint64_t pn_min_memory, bitflags;
    ...;
} job_desc_msg_t;
typedef struct { ...; } resource_allocation_response_msg_t;

void slurm_init(const char *conf);
const char *slurm_strerror(int errnum);
int slurm_load_jobs(time_t update_time, job_info_msg_t **resp, uint16_t show_flags);
void slurm_free_job_info_msg(job_info_msg_t *msg);
int slurm_load_node(time_t update_time, node_info_msg_t **resp, uint16_t show_flags);
void slurm_free_node_info_msg(node_info_msg_t *msg);
void slurm_init_update_node_msg(update_node_msg_t *msg);
int slurm_update_node(update_node_msg_t *msg);
void slurm_init_job_desc_msg(job_desc_msg_t *msg);
int slurm_allocate_resources(job_desc_msg_t *request, resource_allocation_response_msg_t **response);
void slurm_free_resource_allocation_response_msg(resource_allocation_response_msg_t *msg);

void free(void *memory);
int gb_load_topology(char **texts);
int gb_complete_job(uint32_t job_id, uint32_t wait_status);
uint32_t gb_allocated_job_id(resource_allocation_response_msg_t *response);
char *gb_user_message(resource_allocation_response_msg_t *response);
int gb_request_external(job_desc_msg_t *request);
const char *gb_reason(uint32_t state_reason);
uint16_t gb_allocated_cpus(node_info_t *node);
uint64_t gb_allocated_memory(node_info_t *node);

#define SLURM_VERSION_NUMBER ...
#define SHOW_ALL ...
#define SHOW_DETAIL ...
#define SHOW_MIXED ...
#define NO_VAL ...
#define INFINITE ...
#define JOB_STATE_BASE ...
#define JOB_COMPLETING ...
#define JOB_CONFIGURING ...
#define JOB_REQUEUE ...
#define ESLURM_ALREADY_DONE ...
#define ESLURM_INVALID_JOB_ID ...

#define NODE_STATE_BASE ...
#define NODE_STATE_DRAIN ...
#define NODE_STATE_UNDRAIN ...
#define NODE_STATE_COMPLETING ...
#define NODE_STATE_NO_RESPOND ...
#define NODE_STATE_POWERED_DOWN ...
#define NODE_STATE_POWERING_DOWN ...
#define NODE_STATE_POWERING_UP ...
#define NODE_STATE_POWER_DOWN ...
#define NODE_STATE_FAIL ...
#define NODE_STATE_MAINT ...
#define NODE_STATE_RES ...
#define NODE_STATE_CLOUD ...
#define NODE_STATE_REBOOT_REQUESTED ...
#define NODE_STATE_REBOOT_ISSUED ...
#define NODE_STATE_PLANNED ...
#define NODE_STATE_INVALID_REG ...
#define NODE_STATE_DYNAMIC_NORM ...
#define GB_NODE_STATE_BLOCKED ...
#define GB_NODE_STATE_EXTERNAL ...
"""

SOURCE = r"""
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#define HAS_STEP_ID_JOBS (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0))
#define HAS_TOPOLOGY_YAML (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0))
#define HAS_EXTERNAL (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0))

/* exported by every libslurm since 23.02 although the public header leaves it out */
extern char *slurm_job_state_reason_string(int reason);

static int gb_complete_job(uint32_t job_id, uint32_t wait_status)
{
#if HAS_STEP_ID_JOBS
    slurm_step_id_t id = SLURM_STEP_ID_INITIALIZER;
    id.job_id = job_id;
    return slurm_complete_job(&id, wait_status);
#else
    return slurm_complete_job(job_id, wait_status);
#endif
}

static uint32_t gb_allocated_job_id(resource_allocation_response_msg_t *response)
{
#if HAS_STEP_ID_JOBS
    return response->step_id.job_id;
#else
    return response->job_id;
#endif
}

static char *gb_user_message(resource_allocation_response_msg_t *response)
{
    return response->job_submit_user_msg;
}

/* texts[0]: the topologies as YAML, NULL where this libslurm cannot tell; texts[1]: the default one as lines */
static int gb_load_topology(char **texts)
{
    typedef void (*print_unit_t)(FILE *, topo_info_response_msg_t *, char *, char *, int);
    typedef void (*print_t)(FILE *, topo_info_response_msg_t *, char *, int);
    topo_info_response_msg_t *info = NULL;
    size_t size = 0;
    FILE *out;
#if HAS_TOPOLOGY_YAML
    topo_config_response_msg_t *config = NULL;

    if (slurm_load_topo_config(&config))
        return -1;
    if (config && config->config)
        texts[0] = strdup(config->config);
    slurm_free_topo_config_msg(config);
    if (slurm_load_topo(&info, NULL))
        return -1;
#else
    if (slurm_load_topo(&info))
        return -1;
#endif
    out = open_memstream(&texts[1], &size);
    if (out) {
        void *print = (void *) slurm_print_topo_info_msg;
        /* it got one more argument in some release: its type tells */
        if (__builtin_types_compatible_p(__typeof__(&slurm_print_topo_info_msg), print_unit_t))
            ((print_unit_t) print)(out, info, NULL, NULL, 1);
        else
            ((print_t) print)(out, info, NULL, 1);
        fclose(out);
    }
    slurm_free_topo_info_msg(info);
    return out ? 0 : -1;
}

/* 0 when this libslurm knows no external jobs */
static int gb_request_external(job_desc_msg_t *request)
{
#if HAS_EXTERNAL
    request->bitflags |= EXTERNAL_JOB;
    return 1;
#else
    return 0;
#endif
}

static const char *gb_reason(uint32_t state_reason)
{
    return slurm_job_state_reason_string((int) state_reason);
}

/* before, both were hidden in the select plugin's part of the record (GB_SELECT_NODEINFO: see the build) */
static uint16_t gb_allocated_cpus(node_info_t *node)
{
#ifdef GB_SELECT_NODEINFO
    uint16_t cpus = 0;
    slurm_get_select_nodeinfo(node->select_nodeinfo, SELECT_NODEDATA_SUBCNT, NODE_STATE_ALLOCATED, &cpus);
    return cpus;
#else
    return node->alloc_cpus;
#endif
}

static uint64_t gb_allocated_memory(node_info_t *node)
{
#ifdef GB_SELECT_NODEINFO
    uint64_t memory = 0;
    slurm_get_select_nodeinfo(node->select_nodeinfo, SELECT_NODEDATA_MEM_ALLOC, NODE_STATE_ALLOCATED, &memory);
    return memory;
#else
    return node->alloc_memory;
#endif
}

#ifdef NODE_STATE_BLOCKED
#define GB_NODE_STATE_BLOCKED NODE_STATE_BLOCKED
#else
#define GB_NODE_STATE_BLOCKED 0
#endif
#ifdef NODE_STATE_EXTERNAL
#define GB_NODE_STATE_EXTERNAL NODE_STATE_EXTERNAL
#else
#define GB_NODE_STATE_EXTERNAL 0
#endif
"""


def build(folder: Path) -> Path:
    """Compile the module into ``folder`` unless it is there already; return the shared object."""
    import cffi  # noqa: PLC0415 (a build tool: the operator has no use for it)

    library = folder / f"{MODULE}{sysconfig.get_config_var('EXT_SUFFIX')}"
    stamp = folder / f"{MODULE}.stamp"
    fingerprint = _fingerprint()
    if library.exists() and stamp.exists() and stamp.read_text() == fingerprint:
        return library
    builder = cffi.FFI()
    builder.cdef(DECLARATIONS)
    options: dict[str, Any] = {"include_dirs": [str(_include_dir())], "extra_compile_args": ["-O1", "-g0"]}
    if "slurm_get_select_nodeinfo" in (_include_dir() / "slurm" / "slurm.h").read_text(errors="replace"):
        options["define_macros"] = [("GB_SELECT_NODEINFO", "1")]
    builder.set_source(MODULE, SOURCE, **options, **_linking())
    folder.mkdir(parents=True, exist_ok=True)
    built = Path(builder.compile(tmpdir=str(folder)))
    for leftover in (folder / f"{MODULE}.c", built.with_suffix("").with_suffix(".o"), folder / f"{MODULE}.o"):
        leftover.unlink(missing_ok=True)
    stamp.write_text(fingerprint)
    return built


def _include_dir() -> Path:
    return Path(os.environ.get("SLURM_INCLUDE_DIR", "/usr/include"))


def _linking() -> dict[str, list[str]]:
    """Return what links against pyslurm's library: two copies of libslurm in one process do not get along."""
    places = [Path(os.environ["SLURM_LIB_DIR"])] if "SLURM_LIB_DIR" in os.environ else []
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    for base in (f"/usr/lib/{multiarch}", "/usr/lib64", "/usr/lib", "/usr/local/lib"):
        places += [Path(base) / "slurm-wlm", Path(base) / "slurm"]
    for place in places:
        if (place / "libslurmfull.so").exists():
            return {"libraries": ["slurmfull"], "library_dirs": [str(place)], "runtime_library_dirs": [str(place)]}
    return {"libraries": ["slurm"]}


def _fingerprint() -> str:
    """Digest of this source and of the header's version, which together decide what is compiled."""
    digest = hashlib.sha256(f"{DECLARATIONS}{SOURCE}{sys.version}{_linking()}".encode())
    digest.update((_include_dir() / "slurm" / "slurm_version.h").read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(sysconfig.get_path("platlib"))
    sys.stdout.write(f"{build(target)}\n")
