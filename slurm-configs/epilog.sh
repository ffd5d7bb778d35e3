#!/bin/sh
# Epilog: runs as root on every node of an ended job. While it runs the node is COMPLETING and takes no other job.
#
# When Slurm ends a hold first (scancel, time limit, preemption), its pods may still use its devices. The bridge lists
# every hold whose pods may run here in the node's Extra (`gangbridge:17,23`), before such a pod may start, and takes it
# out when they are proven gone. This script waits while its own job is listed. It needs slurmctld and nothing else:
# not the bridge, not Kubernetes, not the clock. No answer means not known, and not known means wait. It ends by
#
#   exit 0   the job is not listed; or WAIT has passed and the node is drained, so that nobody is given the devices
#   exit 1   WAIT and FENCE have passed, slurmctld has not confirmed a drain: slurmd's own "Epilog error" drains then
#
# SIGTERM and the end of slurmd are as if WAIT had passed: a new slurmd remembers that the epilog of this job has begun,
# does not run it again, and tells slurmctld that the node is free.
#
# Only shell builtins run for the jobs of others.
[ -n "$SLURM_JOB_GPUS" ] || exit 0

### Settings: gangbridge-epilog.conf beside slurm.conf overrides them, one NAME=VALUE a line
# Seconds to wait for the pods: longer than their terminationGracePeriodSeconds.
WAIT=300
# Seconds after that in which slurmctld has to confirm the drain. WAIT + FENCE + 60 must fit into EpilogTimeout.
FENCE=300
# Seconds for one answer of slurmctld.
ANSWER=15
# One line for every job with GPUs, and one for what became of a hold; empty for none. Times are seconds since the boot.
LOG=/var/log/slurm/epilog.log
######

conf=${SLURM_CONF:-/etc/slurm/slurm.conf}
conf=${conf%/*}/gangbridge-epilog.conf
# shellcheck disable=SC1090
[ ! -r "$conf" ] || . "$conf"

look_at_the_time() {
    read -r now _ </proc/uptime # steps of the clock do not move it
    hundredths=$((1${now#*.} - 100))
    now=${now%.*}
}

log() {
    [ -z "$LOG" ] || echo "$now epilog node=$SLURMD_NODENAME job=$SLURM_JOB_ID $1" 2>/dev/null >>"$LOG"
}

look_at_the_time
log "user=$SLURM_JOB_USER gpus=$SLURM_JOB_GPUS"

# Every hold has this working directory, and its owner cannot change it once the hold runs.
[ "${SLURM_JOB_WORK_DIR:-/}" = / ] || exit 0

PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

slurmctld() {
    timeout -k 1 "$ANSWER" scontrol "$@" 2>/dev/null
}

# Set `listed` to yes or no, and `states` to the node's; both are empty when that is not known.
ask() {
    listed='' states=''
    node=$(slurmctld -o show node "$SLURMD_NODENAME") || return 0
    case $node in
    "NodeName=$SLURMD_NODENAME "*) ;;
    *) return 0 ;;
    esac
    states=${node#* State=}
    states=${states%% *}
    ids=
    case $node in
    *" Extra=gangbridge:"*)
        ids=${node##* Extra=gangbridge:}
        ids=${ids%% *}
        ;;
    esac
    case ",$ids," in
    *",$SLURM_JOB_ID,"*) listed=yes ;;
    *) listed=no ;;
    esac
}

# From half a second to five, each time half as long again, less up to a half: a gang's nodes must not all ask at once.
pause() {
    rest=$((delay * (100 - hundredths / 2) / 100))
    while [ "$rest" -gt 0 ]; do
        sleep 0.25
        rest=$((rest - 25))
        if [ "$waited" -lt "$bound" ] && [ ! -d "/proc/$PPID" ]; then # slurmd has gone
            bound=$waited
            return
        fi
    done
    delay=$((delay * 3 / 2))
    [ "$delay" -le 500 ] || delay=500
}

began=$now
waited=0
bound=$WAIT
delay=50
trap 'bound=$waited' TERM
while :; do
    ask
    look_at_the_time
    waited=$((now - began))
    if [ "$listed" = no ]; then
        log "free after $waited s"
        exit 0
    fi
    if [ "$waited" -ge "$bound" ]; then
        case $states in
        *DRAIN* | *FAIL*) # by us, or by somebody else, whose reason stands
            log "drained after $waited s"
            exit 0
            ;;
        esac
        if [ "$waited" -ge $((WAIT + FENCE)) ]; then
            log "given up after $waited s"
            exit 1
        fi
        if [ "$listed" = yes ]; then
            slurmctld update NodeName="$SLURMD_NODENAME" State=DRAIN \
                Reason="gangbridge: pods of job $SLURM_JOB_ID were not proven gone within $bound s"
            delay=50
        fi
    fi
    pause
done
