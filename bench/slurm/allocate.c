/*
 * Asks slurmctld for gangs and gives them back, and says how long each call took. One command a line on stdin, one answer
 * a line on stdout:
 *
 *   take PARTITION NODES GPUS_PER_NODE SEGMENT CONSOLIDATE    ->  NANOSECONDS JOB NODELIST | NANOSECONDS 0 REASON
 *   queue PARTITION NODES GPUS_PER_NODE                       ->  NANOSECONDS JOB held
 *   give JOB                                                  ->  NANOSECONDS JOB given
 *   ping                                                      ->  NANOSECONDS 0 pong
 *
 * `take` is slurm_allocate_resources() with `immediate`: granted in this call or refused, never left pending.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void answer(long long began, uint32_t job, const char *text)
{
    printf("%lld %u %s\n", now() - began, job, text);
}

static void take(const char *partition, unsigned nodes, unsigned gpus, unsigned segment, int consolidate, int held)
{
    char gres[32];
    job_desc_msg_t request;
    resource_allocation_response_msg_t *response = NULL;

    snprintf(gres, sizeof(gres), "gres/gpu:%u", gpus);
    slurm_init_job_desc_msg(&request);
    request.name = "bench";
    request.partition = (char *) partition;
    request.work_dir = "/";
    request.min_nodes = request.max_nodes = request.num_tasks = nodes;
    request.ntasks_per_node = 1;
    request.cpus_per_task = 1;
    request.min_cpus = nodes;
    request.tres_per_node = gres;
    request.time_limit = 60;
    request.user_id = request.group_id = 0;
    request.bitflags |= EXTERNAL_JOB;
    if (held)
        request.priority = 0;
    else
        request.immediate = 1;
    if (segment)
        request.segment_size = segment;
    if (consolidate)
        request.bitflags |= CONSOLIDATE_SEGMENTS;

    long long began = now();
    if (slurm_allocate_resources(&request, &response)) {
        answer(began, 0, slurm_strerror(errno));
        return;
    }
    answer(began, response->step_id.job_id, held ? "held" : response->node_list ? response->node_list : "none");
    slurm_free_resource_allocation_response_msg(response);
}

static void give(unsigned job)
{
    slurm_step_id_t id = SLURM_STEP_ID_INITIALIZER;
    long long began = now();

    id.job_id = job;
    answer(began, job, slurm_complete_job(&id, 0) ? slurm_strerror(errno) : "given");
}

int main(void)
{
    char line[256], partition[64];
    unsigned nodes, gpus, segment, job;
    int consolidate;

    slurm_init(NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "take %63s %u %u %u %d", partition, &nodes, &gpus, &segment, &consolidate) == 5) {
            take(partition, nodes, gpus, segment, consolidate, 0);
        } else if (sscanf(line, "queue %63s %u %u", partition, &nodes, &gpus) == 3) {
            take(partition, nodes, gpus, 0, 0, 1);
        } else if (sscanf(line, "give %u", &job) == 1) {
            give(job);
        } else if (!strcmp(line, "ping\n")) {
            long long began = now();
            int failed = slurm_ping(0);
            answer(began, 0, failed ? "no answer" : "pong");
        } else {
            fprintf(stderr, "allocate: cannot read %s", line);
            return 2;
        }
    }
    return 0;
}
