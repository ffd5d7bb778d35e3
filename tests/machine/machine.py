"""Random lives of the whole system, one rule after the other; see the package's parts for who plays what.

Every rule ends with all invariants checked; at the end of a life the faults stop, and everything has to come to a good
end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from bridge import wellknown
from bridge.errors import SlurmRejected
from bridge.model.slurm import JobState
from operators.kube.errors import Expired, unavailable
from tests.machine.invariants import Auditor, require
from tests.machine.invariants import key_of as _key
from tests.machine.kubernetes import delete
from tests.machine.network import Call, Network
from tests.machine.plans import checked_plans
from tests.machine.process import Process, borrowed_time
from tests.machine.truth import Container, Kubelet, end_grace, labels_of
from tests.machine.world import EXTERNAL, GPUS, NAMESPACE, NODES, World

SMALL = st.integers(0, 7)
ANY = st.integers(0, 255)
CALLS = st.integers(0, 24)
QUEUES = st.sampled_from(("gpu", "gpu", "ext"))
WATCHED = ("pods", "resourceclaims", "nodes", "services", "resourceslices", "gangjobs")
TIMES = (0.1, 1.0, 1.0, 2.0, 5.0, 16.0, 31.0, 61.0, 301.0)
KNOWN_BY = 4
"""Rounds after which an admin knows that what looks lost is lost indeed, and releases the brake."""
MOST_GANGS = 5
FULL = 3
"""Gangs that run at least where the loss of all is too much to be believed."""
MOST_JOBS = 3
LONGEST = 8
"""Seconds for which a process may take to come to the call that is disturbed."""
SOON = 60
"""Calls within which an operator that is to change something in Slurm does so."""
PAUSES = (2.0, 2.0, 16.0, *[2.0] * 6, 31.0, *[2.0] * 6)
"""Seconds between the rounds of a calm: a Lease runs out, and what was held back is tried again."""
LIMIT = 80
"""Rounds within which everything has come to its end once the faults have stopped."""

COUNTS: Counter[str] = Counter()
"""What all lives of this process were made of."""


def _chosen(network: Network, how: int) -> Call:
    """Return a pending call; every other time one that changes slurmctld, if there is any."""
    writes = [call for call in network.pending if _changes_slurm(call)] if how % 2 else []
    among = writes or network.pending
    return among[how // 2 % len(among)]


def _changes_slurm(call: Call) -> bool:
    return call.is_write and "/" not in call.name


# When rules are possible


def _is_awake(life: Machine) -> bool:
    return any(not process.is_frozen for process in life.world.processes)


def _is_frozen(life: Machine) -> bool:
    return any(process.is_frozen for process in life.world.processes)


def _is_jammed(life: Machine) -> bool:
    return any(process.network.jammed for process in life.world.processes)


def _is_alone(life: Machine) -> bool:
    return len(life.world.processes) < 2


def _is_adrift(life: Machine) -> bool:
    return bool(life.world.afloat())


def _runs(life: Machine) -> bool:
    return bool(life.auditor.containers())


def _has_gangs(life: Machine) -> bool:
    return bool(life.gangs())


def _has_room(life: Machine) -> bool:
    return len(life.gangs()) < MOST_GANGS and not life.world.store.closing


def _is_deleting(life: Machine) -> bool:
    return any("deletionTimestamp" in gang["metadata"] for gang in life.gangs())


def _has_pods(life: Machine) -> bool:
    return any(labels_of(pod) for pod in life.world.api.of("pods", NAMESPACE))


def _has_claims(life: Machine) -> bool:
    return bool(life.world.api.of("resourceclaims", NAMESPACE))


def _has_holds(life: Machine) -> bool:
    return any(job.end_time is None for job in life.auditor.holds())


def _has_jobs(life: Machine) -> bool:
    return bool(life.auditor.users())


def _is_closing(life: Machine) -> bool:
    return bool(life.world.store.closing)


def _is_open(life: Machine) -> bool:
    return not life.world.store.closing and _has_gangs(life)


def _is_quiet(life: Machine) -> bool:
    return len(life.world.processes) == 1 and not life.world.adrift


def _is_lagging(life: Machine) -> bool:
    return any(process.lagging for process in life.world.processes)


def _has_room_for_jobs(life: Machine) -> bool:
    return (
        sum(job.end_time is None for job in life.world.slurm.jobs.values() if not life.auditor.is_hold(job)) < MOST_JOBS
    )


def _is_stirred(life: Machine) -> bool:
    return life.steps_since_calm > 3


def step(
    when: Callable[[Machine], object] | None = None, **choices: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Any]:
    """Make a rule of a method, possible ``when`` that holds: it is counted, and everything is checked after it."""

    def is_possible(life: Machine, name: str) -> bool:
        return (not life.among or name in life.among) and (when is None or bool(when(life)))

    def made(method: Callable[..., None]) -> Any:
        @wraps(method)
        def taken(self: Machine, **chosen: Any) -> None:
            COUNTS["steps"] += 1
            COUNTS["steps while containers run"] += bool(self.auditor.containers())
            self.steps_since_calm += 1
            COUNTS[f"rule {method.__name__}"] += 1
            method(self, **chosen)
            self.auditor.check()
            leaders = [process.name for process in self.world.processes if process.leadership.leads]
            require(len(leaders) < 2, "leadership", f"{leaders} act at once")

        return precondition(lambda life: is_possible(life, method.__name__))(rule(**choices)(taken))

    return made


class Machine(RuleBasedStateMachine):
    """One life. ``among`` are the only rules in it, if any are named: what is rare otherwise happens often."""

    among: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.stack = ExitStack()
        self.stack.enter_context(borrowed_time(self.world.hands))
        self.stack.enter_context(self.world.own_clock())
        self.stack.enter_context(checked_plans())
        world = self.world
        self.auditor = Auditor(world.store.objects, world.slurm, world.cluster.kubelets)
        world.auditor = self.auditor
        world.store.watcher = lambda change: self.auditor.changed(change, world.writer)
        world.slurm.auditor, world.slurm.writer = self.auditor, lambda: world.writer
        self.names = 0
        self.steps_since_calm = 0

    @initialize(shape=ANY, queue=QUEUES)
    def furnish(self, shape: int, queue: str) -> None:
        self.world.furnish()
        process = self.world.start_process()
        self.world.flow(process)
        # Nobody leads before he has seen for a Lease's duration that nobody else does.
        self.world.pass_time(16.0)
        self.world.flow(process)
        self._create(shape, queue, shape % 2)

    # The operators and their network

    @step(_is_awake, which=SMALL)
    def flow(self, which: int) -> None:
        """Let one operator work undisturbed until it waits."""
        if process := self._process(which):
            self.world.flow(process)

    @step()
    def go_on(self) -> None:
        """A second in which everybody does his part."""
        for process in list(self.world.processes):
            if not process.is_frozen:
                self.world.flow(process)
        self.world.cluster.settle()
        self.world.pass_time(1.0)

    @step(_is_awake, which=SMALL, calls=CALLS, fate=st.integers(0, 6), how=SMALL)
    def disturb(self, which: int, calls: int, fate: int, how: int) -> None:
        """Let one operator work for some calls; then something happens to its next one."""
        process = self._process(which)
        if process is None or not self._work(process, calls):
            return
        self._disturb(process, _chosen(process.network, how), fate, how)

    @step(_is_awake, which=SMALL, fate=st.integers(0, 5), how=SMALL)
    def disturb_slurm(self, which: int, fate: int, how: int) -> None:
        """Let one operator work until it is about to change something in Slurm; then something happens to that call."""
        process = self._process(which)
        for calls in (0, *[1] * SOON):
            if process is None or not self._work(process, calls):
                return
            if changes := [call for call in process.network.pending if _changes_slurm(call)]:
                self._disturb(process, changes[how % len(changes)], fate, how)
                return

    def _disturb(self, process: Process, call: Call, fate: int, how: int) -> None:
        network = process.network
        match fate:
            case 0:
                self._count("refused")
                is_kube = "/" in call.name or call.name.startswith("list")
                network.refuse(call, self.world.error(how) if is_kube else SlurmRejected("fault on demand", 2018))
            case 1:
                self._count("answer lost")
                network.lose_answer(call)
            case 2:
                self._count("request lost")
                network.drop(call)
            case 3:
                self._count("request delayed")
                network.delay(call)
                self.world.gather_adrift(process)
            case 4:
                self._count("answer slow")
                call.commit()
            case 5:
                # One kind of call fails again and again, and everything else goes on.
                self._count("jammed")
                network.drop(call)
                network.jammed = call.name.split()[0]
            case _:
                self._count("out of order")
                network.answer(network.pending[-1])

    @step(_is_awake, which=SMALL, calls=CALLS, fate=st.integers(0, 2), how=SMALL)
    def strike(self, which: int, calls: int, fate: int, how: int) -> None:
        """Let one operator work for some calls; then it is killed or stopped right there."""
        process = self._process(which)
        if process is None or not self._work(process, calls):
            return
        if fate == 0:
            self._count("frozen")
            process.is_frozen = True
            return
        if fate == 1:
            _chosen(process.network, how).commit()
        self._count("killed after a call" if fate == 1 else "killed before a call")
        self._kill(process)

    @step(_is_frozen, which=SMALL)
    def thaw(self, which: int) -> None:
        """SIGCONT."""
        frozen = [process for process in self.world.processes if process.is_frozen]
        frozen[which % len(frozen)].is_frozen = False

    @step(_is_jammed)
    def unjam(self) -> None:
        for process in self.world.processes:
            process.network.jammed = ""

    @step(_is_alone, is_deaf=st.booleans())
    def take_over(self, is_deaf: bool) -> None:
        """Start another operator beside what there is; a deaf one knows what it lists and no more."""
        process = self.world.start_process()
        self.world.flow(process)
        if is_deaf:
            process.lagging.update(WATCHED)

    @step(_is_awake, fate=st.integers(0, 2))
    def leader_falls(self, fate: int) -> None:
        """Whoever leads dies, stops, or hears no more of the API server than answers to other calls, past its Lease."""
        leader = next((each for each in self.world.processes if each.leadership.leads and not each.is_frozen), None)
        if leader is None:
            return
        self._count("leader fell")
        if fate == 0:
            self._kill(leader)
        elif fate == 1:
            leader.is_frozen = True
        else:
            leader.network.jammed = "get leases"
            leader.lagging.update(WATCHED)
            if _is_alone(self):
                self.world.flow(self.world.start_process())
        self.world.pass_time(16.0)

    @step(_is_adrift, which=SMALL, is_lost=st.booleans())
    def drift(self, which: int, is_lost: bool) -> None:
        """A request that nobody waits for, or nobody who is awake, arrives, or is lost for good."""
        calls = self.world.afloat()
        call = calls[which % len(calls)]
        if not is_lost:
            self._count("arrived late")
            self.world.land(call)
        if call in self.world.adrift:
            self.world.adrift.remove(call)

    @step(which=SMALL, plural=st.sampled_from(("pods", "pods", *WATCHED)), is_lagging=st.booleans())
    def lag(self, which: int, plural: str, is_lagging: bool) -> None:
        """A watch falls behind, or catches up."""
        if process := self._process(which):
            (process.lagging.add if is_lagging else process.lagging.discard)(plural)

    @step(_is_lagging, which=SMALL, plural=st.sampled_from(WATCHED), most=st.integers(1, 4))
    def trickle(self, which: int, plural: str, most: int) -> None:
        """A watch tells a little."""
        if process := self._process(which):
            process.deliver(plural, most)

    @step(which=SMALL)
    def break_watches(self, which: int) -> None:
        """Watches break, and go on where they were."""
        if process := self._process(which):
            process.break_watches(unavailable("broken"))

    @step()
    def forget_history(self) -> None:
        """History is compacted: the lists of whoever is behind merge deletes and creates."""
        self.world.api.compact()
        for process in self.world.processes:
            process.break_watches(Expired(410, "Expired", "compacted"))

    @step(which=SMALL, seconds=st.sampled_from((-3600, -30, -2, 2, 30, 3600)))
    def step_clock(self, which: int, seconds: int) -> None:
        """Somebody sets the wall clock of an operator's machine."""
        if process := self._process(which):
            self._count("clock stepped")
            process.wall_off += seconds

    @step(seconds=st.sampled_from(TIMES))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    # Kubernetes

    @step(number=ANY, times=st.integers(1, 3))
    def kubernetes(self, number: int, times: int) -> None:
        """Some components take their steps."""
        for turn in range(times):
            self.world.cluster.step((number + turn * 5) % self.world.cluster.steps)
            self.auditor.check()

    @step()
    def kubernetes_settles(self) -> None:
        self.world.cluster.settle()

    @step(_runs, which=ANY, phase=st.sampled_from(("Succeeded", "Succeeded", "Failed")), all_=st.booleans())
    def containers_exit(self, which: int, phase: str, all_: bool) -> None:
        """Containers of one gang end by themselves."""
        running = self.auditor.containers()
        chosen = running[which % len(running)]
        for each in running if all_ else [chosen]:
            if each.gang == chosen.gang:
                self.world.exit(each, phase)

    @step(which=SMALL, what=st.integers(0, 3))
    def kubelet_fares(self, which: int, what: int) -> None:
        """A kubelet is lost and found, a machine loses power and boots, its Node object is deleted meanwhile."""
        kubelet = self._kubelet(which)
        if kubelet.is_well and what < 2:
            self._count("kubelet lost")
            kubelet.is_reachable = False
        elif kubelet.is_well:
            self._count("machine crashed")
            kubelet.crash()
        elif what == 0:
            self._count("node object deleted")
            self.world.drop_node_object(kubelet.node)
        elif not self.world.is_fenced(kubelet.node):
            self.world.boot(kubelet.node)

    @step(which=SMALL, by_taint=st.booleans())
    def admin_fences(self, which: int, by_taint: bool) -> None:
        """An admin switches a lost machine off, makes sure of it, and says so; or takes his word back."""
        kubelet = self._kubelet(which)
        if self.world.is_fenced(kubelet.node):
            self.world.unfence(kubelet.node)
        elif not kubelet.is_well:
            self._count("fenced by an admin")
            kubelet.crash()
            self.world.fence(kubelet.node, by_taint=by_taint)

    @step(_is_quiet, which=SMALL, count=st.integers(1, GPUS))
    def stray_pod(self, which: int, count: int) -> None:
        """An editor unprotects a node, and the stock kube-scheduler gives free devices there to somebody else's pod."""
        kubelet = self._kubelet(which)
        self.world.untaint(kubelet.node)
        if self.world.start_stray(kubelet, count):
            self._count("stray pod")

    # Users of Kubernetes

    @step(_has_room, shape=ANY, queue=QUEUES, restarts=st.integers(0, 1))
    def create_gang(self, shape: int, queue: str, restarts: int) -> None:
        self._create(shape, queue, restarts)

    def _create(self, shape: int, queue: str, restarts: int) -> None:
        self.names += 1
        replicas, gpus = ((1, 1), (1, 1), (2, 1), (1, 2), (2, 2))[shape % 5]
        minutes = (60, 60, 60, 5, 1)[shape // 5 % 5]
        self.world.write_gang(
            f"g{self.names}", replicas=replicas, gpus=gpus, queue=queue, restarts=restarts, minutes=minutes
        )

    @step(_has_gangs, which=SMALL)
    def delete_gang(self, which: int) -> None:
        gangs = self.gangs()
        delete(self.world.api, "gangjobs", gangs[which % len(gangs)])

    @step(_is_deleting, which=SMALL)
    def strip_gang(self, which: int) -> None:
        """An editor takes the finalizer off a GangJob that is being deleted."""
        gangs = [gang for gang in self.gangs() if "deletionTimestamp" in gang["metadata"]]
        self.world.strip("gangjobs", gangs[which % len(gangs)], wellknown.FINALIZER)

    @step(_has_pods, which=SMALL, what=st.integers(0, 4))
    def meddle_with_pod(self, which: int, what: int) -> None:
        """A user deletes a pod, by force, or takes its finalizer or a label off."""
        pods = [pod for pod in self.world.api.of("pods", NAMESPACE) if labels_of(pod)]
        pod = pods[which % len(pods)]
        self.auditor.meddled.add(labels_of(pod).get(wellknown.GANG_UID, ""))
        match what:
            case 0:
                self._count("pod deleted")
                delete(self.world.api, "pods", pod)
            case 1:
                self._count("pod deleted by force")
                end_grace(self.world.api, pod)
            case _ if not self.world.has_claim(pod):
                # Who takes away both leaves nothing to tell by.
                pass
            case 2:
                self._count("pod stripped of its finalizer")
                self.world.strip("pods", pod, wellknown.FINALIZER)
            case 3:
                self._count("pod stripped and gone")
                self.world.strip("pods", pod, wellknown.FINALIZER)
                self.world.vanish("pods", pod)
            case _:
                self.world.strip("pods", pod, wellknown.FINALIZER)
                self.world.vanish("pods", pod)
                if self.world.squat(NAMESPACE, pod["metadata"]["name"]):
                    self._count("pod's name taken by a user")

    @step(_has_claims, which=SMALL, what=st.integers(0, 1))
    def meddle_with_claim(self, which: int, what: int) -> None:
        """A user deletes a claim; an admin takes its protection off too while its pod is there to tell."""
        claims = self.world.api.of("resourceclaims", NAMESPACE)
        claim = claims[which % len(claims)]
        self.auditor.meddled.add(labels_of(claim).get(wellknown.GANG_UID, ""))
        delete(self.world.api, "resourceclaims", claim)
        if what and self.world.has_evidence(claim):
            self.world.strip("resourceclaims", claim, wellknown.DELETE_PROTECTION)

    @step(_is_open, sure=SMALL)
    def namespace_deleted(self, sure: int) -> None:
        """Its controller deletes what is in it; nothing can be created until it is made anew."""
        if sure:
            return
        self._count("namespace really deleted")
        self.world.store.closing.add(NAMESPACE)
        for plural in ("gangjobs", "pods", "resourceclaims", "services"):
            for obj in self.world.api.of(plural, NAMESPACE):
                self.auditor.meddled.add(labels_of(obj).get(wellknown.GANG_UID, ""))
                delete(self.world.api, plural, obj)

    @step(_is_closing)
    def namespace_back(self) -> None:
        if not self.world.api.of("gangjobs", NAMESPACE):
            self.world.store.closing.clear()

    # Slurm

    @step(_has_room_for_jobs, gpus=st.integers(1, GPUS), nodes=st.integers(1, 2))
    def sbatch(self, gpus: int, nodes: int) -> None:
        self.world.slurm.sbatch(gpus=gpus, nodes=nodes, gpu_type="h100")

    @step(_has_room_for_jobs, which=SMALL, gpus=st.integers(1, GPUS))
    def other_service(self, which: int, gpus: int) -> None:
        """Another service's external job, or another cluster's hold."""
        name = EXTERNAL[which % 2]
        if name in self.world.slurm.nodes:
            self._count("external job")
            (self.world.slurm.external_job if which < 4 else self.world.other_hold)(name, gpus)

    @step(_has_jobs, which=SMALL)
    def job_ends(self, which: int) -> None:
        jobs = [job for job, _ in self.auditor.users()]
        self.world.slurm.end(jobs[which % len(jobs)].job_id)

    @step(_has_holds, which=SMALL, what=st.integers(0, 8))
    def meddle_with_hold(self, which: int, what: int) -> None:
        """A user, an admin or slurmctld ends or changes a hold."""
        holds = [job for job in self.auditor.holds() if job.end_time is None]
        job = holds[which % len(holds)]
        match what:
            case 0 | 1:
                self.world.slurm._end(job, JobState.CANCELLED, job.exit_status)
            case 2:
                self.world.slurm.preempt(job.job_id)
            case 3:
                self.world.slurm.requeue(job.job_id)
            case 4:
                self.world.slurm.update(job.job_id, minutes=1)
            case 5:
                self.world.slurm.update(job.job_id, priority=0)
            case 6:
                self.world.slurm.update(job.job_id, priority=5000)
            case 7:
                self.world.slurm.update(job.job_id, pin=(NODES[which % 2],))
            case _:
                self.world.slurm.update(job.job_id, minutes=120)

    @step(which=SMALL, what=st.integers(0, 4))
    def node_fares(self, which: int, what: int) -> None:
        """A node fails in Slurm, comes back, is drained or resumed by an admin, or is used for a note of his."""
        self.world.change_slurm_node((*NODES, *EXTERNAL)[which % 4], what)

    @step(what=st.integers(0, 9))
    def controller_fares(self, what: int) -> None:
        """slurmctld goes down and comes back, or starts without its state."""
        slurm = self.world.slurm
        if slurm.down:
            slurm.down = False
        elif what:
            self._count("slurmctld down")
            slurm.down = True
        else:
            self._count("slurmctld lost its state")
            self.world.lose_slurm_state()

    @step(_has_room, seconds=st.integers(1, 3))
    def controller_dreams(self, seconds: int) -> None:
        """slurmctld starts without its state by mistake, and then with it: what looked lost was not."""
        for _ in range(FULL):
            self._create(0, ("gpu", "ext")[self.names % 2], 0)
        self._rest()
        before = self._working()
        if len({container.gang for container in before}) < FULL:
            # So few may be lost indeed: the brake leaves them alone.
            return
        self._count("slurmctld without state for a moment")
        self.world.withdraw_release()
        restore = self.world.saved_slurm_state()
        self.world.slurm.lose_state()
        for _ in range(seconds):
            self._round(1.0)
        restore()
        self._rest()
        lost = sorted(str(container) for container in before.difference(self.auditor.containers()))
        require(not lost, "brake", f"{lost} were ended because slurmctld was without its state")

    @step(_runs, seconds=st.integers(1, 3))
    def controller_sleeps(self, seconds: int) -> None:
        """slurmctld is silent for a moment: what runs goes on."""
        self._rest()
        before = self._working()
        self._count("slurmctld silent for a moment")
        self.world.slurm.down = True
        for _ in range(seconds):
            self._round(1.0)
        self._rest()
        lost = sorted(str(container) for container in before.difference(self.auditor.containers()))
        require(not lost, "silence", f"{lost} were ended because slurmctld was silent")

    @step(is_slow=st.booleans())
    def epilogs(self, is_slow: bool) -> None:
        """The site's own epilogs take long, or are done."""
        self.world.slurm.epilog = is_slow
        self.world.slurm._end_epilogs()

    # Rules are chosen evenly: what matters most is there more than once

    flow_2 = flow
    go_on_2 = go_on_3 = go_on_4 = go_on_5 = go_on
    disturb_2 = disturb_3 = disturb_4 = disturb
    strike_2 = strike
    create_gang_2 = create_gang
    containers_exit_2 = containers_exit
    meddle_with_pod_2 = meddle_with_pod
    meddle_with_hold_2 = meddle_with_hold_3 = meddle_with_hold

    # What must hold

    @step(_is_stirred)
    def calm(self) -> None:
        """Nobody disturbs anything for a while."""
        self._rest()
        self.auditor.check_calm()
        self.auditor.exposed.clear()
        self.steps_since_calm = 0

    def teardown(self) -> None:
        try:
            self._end()
        finally:
            for process in list(self.world.processes):
                self.world.kill(process)
            self.stack.close()

    def _end(self) -> None:
        """Faults off, machines healed: everything has to come to its end, and nothing may be left."""
        COUNTS["lives"] += 1
        COUNTS.update(self.world.counts)
        COUNTS["containers started"] += self.world.started()
        COUNTS["holds submitted"] += sum(name == "allocate" for name, _ in self.world.slurm.calls)
        self._rest()
        self.auditor.check_calm()
        self.world.heal()
        for _ in range(LIMIT):
            self.world.release_brake()
            self._round(5.0)
            self.auditor.check()
            # A pod that was stripped of its finalizer before may go unseen only now.
            self.world.vouch()
            for container in self.auditor.containers():
                self.world.exit(container, "Succeeded")
            if self.world.is_at_rest():
                break
        left = self.world.leftovers()
        require(not left, "liveness", "; ".join(left))

    def _rest(self) -> None:
        """Leave one operator alone with both servers until it has seen and done everything."""
        world = self.world
        world.slurm.down = False
        survivor = next((process for process in world.processes if not process.is_frozen), None)
        for process in [each for each in world.processes if each is not survivor]:
            self._kill(process)
        if survivor is None:
            survivor = world.start_process()
        survivor.lagging.clear()
        survivor.network.jammed = ""
        survivor.wall_off = 0.0
        while world.adrift:
            world.land(world.adrift.pop(0))
        for turn, seconds in enumerate(PAUSES):
            if turn == KNOWN_BY:
                world.release_brake()
            self._round(seconds)
            self.auditor.check()
        # What time has just brought about is seen too.
        self._round(0.0)
        self._round(0.0)

    def _round(self, seconds: float) -> None:
        if not self.world.processes:
            # Its supervisor starts again what was deposed.
            self.world.start_process()
        for process in list(self.world.processes):
            calls = self.world.flow(process)
            require(calls < 3000, "liveness", "an operator never comes to rest")
        self.world.cluster.settle()
        self.world.pass_time(seconds)

    def _work(self, process: Process, calls: int) -> bool:
        """Let a process and all around it go on for some calls; return whether it has another one pending."""
        for _ in range(LONGEST):
            calls -= self.world.flow(process, calls)
            if process not in self.world.processes:
                return False
            if calls <= 0 and self.world.advance_to_call(process):
                return True
            self.world.cluster.settle()
            self.world.pass_time(1.0)
        return False

    def _working(self) -> set[Container]:
        """Return the gang pods that run, each where its hold runs too, and whose gang is not to end soon."""
        running = {_key(job): job for job in self.auditor.holds() if job.is_running and job.time_limit_min >= 60}
        found = set()
        for container in self.auditor.containers():
            job = running.get((container.gang, container.attempt))
            is_well = self.world.cluster.kubelets[container.node].is_well
            if (
                job is not None
                and is_well
                and self.auditor.is_wanted(_key(job))
                and self.world.slurm.now < job.limit_at - 600
            ):
                found.add(container)
        return found

    # Choices

    def _process(self, which: int) -> Process | None:
        """Return an operator that is not frozen."""
        awake = [process for process in self.world.processes if not process.is_frozen]
        return awake[which % len(awake)] if awake else None

    def _kill(self, process: Process) -> None:
        COUNTS["crashes"] += 1
        self.world.kill(process)

    def _kubelet(self, which: int) -> Kubelet:
        """Return a machine, rather one with work on it."""
        all_ = list(self.world.cluster.kubelets.values())
        busy = [kubelet for kubelet in all_ if kubelet.running] if which % 2 else []
        return (busy or all_)[which // 2 % len(busy or all_)]

    def gangs(self) -> list[dict[str, Any]]:
        return self.world.api.of("gangjobs", NAMESPACE)

    def _count(self, what: str) -> None:
        COUNTS[what] += 1
