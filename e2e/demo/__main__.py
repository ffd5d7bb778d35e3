"""A guided run for somebody who sees gangbridge for the first time; leaves the lab and the operator running."""

from __future__ import annotations

import subprocess
import sys
import time

from e2e.demo import background
from e2e.demo.screen import console, quiet, say, show, title, wait
from e2e.operator import LOG, PID, Operator, install

NAME = "demo"
SPACE = "research"
MANIFEST = "e2e/manifests/demo.yaml"
MIRRORS = "gangbridge-mirror"
DRIVER = "gpu.gangbridge.dev"
SQUEUE = "squeue -o '%.7i %.9P %.11j %.6u %.8T %.5M %R'"
CLAIMS = "kubectl get resourceclaims -A -o custom-columns-file=e2e/demo/claims.columns"
REAL, SIMULATED = "k8s-gpu-0 k8s-gpu-1", "k8s-gpu-2 k8s-gpu-3"


def main() -> int:
    """Run the demo; a problem is told in one line."""
    try:
        prepare()
        job_id = one_job()
        one_gang()
        both_sides()
        the_end(job_id)
        farewell()
    except (subprocess.CalledProcessError, TimeoutError, RuntimeError) as problem:
        detail = (getattr(problem, "stderr", "") or "").strip()
        console.print(f"\n[bold red]The demo stopped:[/] {problem}\n{detail}\nThe operator's log is {LOG}", markup=True)
        return 1
    finally:
        quiet(f"kubectl uncordon {SIMULATED}")
    return 0


def prepare() -> None:
    title("One GPU fleet, two front doors")
    say(
        """Slurm 26.05 and Kubernetes 1.37 run on this machine, both real. Four nodes belong to both: Slurm calls them
        gpu0 to gpu3, Kubernetes calls them k8s-gpu-0 to k8s-gpu-3, and each has 8 GPUs. k8s-gpu-0 and k8s-gpu-1 run
        real containers, the other two simulate them (KWOK). The GPUs are device files, /dev/fakegpu0 to 7, which is all
        that this demo needs."""
    )
    background.stop()
    quiet(
        f"kubectl delete gj {NAME} -n {SPACE} --ignore-not-found --wait=false; LAB_USER=root scancel -n {NAME}-sbatch"
    )
    quiet(f"kubectl uncordon {REAL}")
    install()
    known = _fleet("lastSyncTime")
    Operator().start()
    wait("what an earlier demo left is gone", lambda: not _exists("gj", SPACE) and not _queued())
    wait("every node's GPUs are published", lambda: _published() and _fleet("lastSyncTime") != known)
    say(
        """gangbridge now runs beside them. It has read Slurm's nodes and published their GPUs to Kubernetes (DRA). A
        Fleet is its dashboard, a GangQueue says which namespace may use which Slurm partition, as whom:"""
    )
    show("kubectl get fleet,gangqueue")


def one_job() -> str:
    """Return the job's id."""
    title("1. Somebody uses Slurm, as ever")
    say("Alice submits a batch job that takes 2 GPUs of gpu0 for a while.")
    answer = show(f"sbatch -J {NAME}-sbatch -w gpu0 --gres=gpu:h100:2 -t 10 -o /dev/null --wrap 'sleep 600'")
    job_id = answer.split()[-1]
    wait("Kubernetes shows the job's GPUs as taken", lambda: "allocationTimestamp" in _mirror(job_id, "yaml"))
    show(SQUEUE)
    say(
        """Kubernetes knows: the job has an image, a GangJob of origin Slurm, and its exact devices are in a claim that
        is allocated. kube-scheduler, or anybody else, cannot give them away again."""
    )
    show("kubectl get gangjobs -A")
    show(CLAIMS)
    return job_id


def one_gang() -> None:
    title("2. Somebody else uses Kubernetes, on the same node")
    say("A GangJob is a set of pods that start together, on exact devices, or not at all:")
    show(f"cat {MANIFEST}")
    say("The two simulated nodes are closed first, as admins close nodes, so that all you see are real containers.")
    show(f"kubectl cordon {SIMULATED}")
    show(f"kubectl apply -f {MANIFEST}")
    wait("all 4 pods run", lambda: _phase() == "Running")
    show(f"kubectl get gangjob {NAME} -n {SPACE}")
    say(
        """gangbridge chose the nodes and submitted a Slurm job, the hold, that owns the GPUs of the gang. When Slurm
        had started it, gangbridge wrote the very GPU indices that Slurm gave into the claims of the pods:"""
    )
    show(f"kubectl get pods -n {SPACE} -l gangbridge.dev/gang={NAME} -o wide")


def both_sides() -> None:
    title("3. Who sees what")
    say("The pods see the 3 GPUs of their claim and no other:")
    wait("every pod has printed its line", lambda: len(quiet(_logs()).splitlines()) == 4)
    show(_logs())
    say(f"Slurm sees two jobs. On gpu0, 2 GPUs are the batch job's and 6 are the gang's ({NAME}):")
    show(SQUEUE)
    hold = quiet(f"kubectl get gj {NAME} -n {SPACE} -o jsonpath='{{.status.hold.jobId}}'")
    show(f"scontrol show job -d {hold} | grep -E 'JobId|UserId|IDX'")
    say("Kubernetes sees the same devices in claims: one for each pod, one for the batch job.")
    show(CLAIMS)
    wait("the Fleet has counted the gang", lambda: "running" in _fleet("gangs.summary"))
    show("kubectl get gj,fleet -A")


def the_end(job_id: str) -> None:
    title("4. The end")
    hold = quiet(f"kubectl get gj {NAME} -n {SPACE} -o jsonpath='{{.status.hold.jobId}}'")
    say("The pods end by themselves after 12 s. The hold then ends as they did, and accounting has it like any job.")
    wait("the gang has ended", lambda: _phase() in ("Succeeded", "Failed"))
    wait("its hold is over in Slurm", lambda: _accounted(hold) not in ("", "RUNNING", "PENDING"))
    show(f"kubectl get gj {NAME} -n {SPACE}")
    show(f"sacct -X -j {hold} --format=JobID,JobName,User,Account,State,ExitCode,Elapsed,AllocTRES%40")
    say("The batch job is cancelled, and its image and claim vanish. The simulated nodes are opened again.")
    show(f"scancel {job_id}; kubectl uncordon {SIMULATED}")
    wait("the job's claim is gone", lambda: not _mirror(job_id, "name"))
    # The Fleet's status is written every 2 s at most.
    time.sleep(2)
    show("kubectl get gj,fleet -A")


def farewell() -> None:
    title("What to try next")
    console.print(
        f"""
The lab and the operator keep running. For a shell with kubectl, squeue and sbatch (as alice):

  . <(make -s lab-env)

  kubectl explain gangjob.spec                 what a GangJob can say; more of them in examples/
  kubectl describe gj {NAME} -n {SPACE}          its conditions and events
  sbatch -N 2 --gres=gpu:h100:8 --wrap 'sleep 60'; kubectl get fleet -w
  kubectl delete gj {NAME} -n {SPACE}; kubectl apply -f {MANIFEST}; scancel -n {NAME}
  make demo                                    all of this again
  make bench-e2e                               how fast it is

The operator's log: {LOG}
To stop it:         kill $(cat {PID})
To end the lab:     make lab-down""",
        markup=False,
    )


def _logs() -> str:
    return f"kubectl logs -n {SPACE} -l gangbridge.dev/gang={NAME} --tail=1 | sort"


def _exists(kind: str, namespace: str) -> bool:
    return bool(quiet(f"kubectl get {kind} {NAME} -n {namespace} --ignore-not-found -o name"))


def _queued() -> bool:
    return bool(quiet(f"squeue -h -n {NAME},{NAME}-sbatch"))


def _phase() -> str:
    return quiet(f"kubectl get gj {NAME} -n {SPACE} -o jsonpath='{{.status.phase}}'")


def _fleet(field: str) -> str:
    return quiet(f"kubectl get fleet main --ignore-not-found -o jsonpath='{{.status.{field}}}'")


def _mirror(job_id: str, form: str) -> str:
    return quiet(f"kubectl get resourceclaims -n {MIRRORS} -l gangbridge.dev/job-id={job_id} -o {form}")


def _accounted(job_id: str) -> str:
    return quiet(f"sacct -X -n -P -j {job_id} --format=State")


def _published() -> bool:
    nodes = quiet("kubectl get nodes -l gangbridge.dev/slurm-node -o name").splitlines()
    slices = quiet(f"kubectl get resourceslices --field-selector spec.driver={DRIVER} -o name").splitlines()
    return len(slices) >= len(nodes)


if __name__ == "__main__":
    sys.exit(main())
