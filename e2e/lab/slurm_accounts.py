"""Accounts, users and QOS in slurmdbd. Every command may be repeated."""

from __future__ import annotations

from e2e.lab import chroot
from e2e.lab.command import LabError
from e2e.lab.layout import Layout
from e2e.lab.progress import say

# `low` first: a QOS that preempts another can be made only after it
ADD = (
    "qos low Priority=0",
    "qos high Priority=1000 Preempt=low",
    "account physics Fairshare=100 Description=physics Organization=science",
    "account bio Fairshare=50 Description=biology Organization=science",
    "user alice Account=physics DefaultAccount=physics Fairshare=10 QOS=normal,low,high DefaultQOS=normal",
    "user bob Account=bio DefaultAccount=bio Fairshare=10 QOS=normal,low DefaultQOS=normal",
    "user root Account=root AdminLevel=Admin",
)
MODIFY = ("qos normal set Priority=100", "user root set AdminLevel=Admin")
EXPECTED = {"physics|alice", "bio|bob", "root|root"}


def apply(lab: Layout) -> None:
    if _present(lab):
        return
    for what in ADD:
        try:
            chroot.inside(lab, "sacctmgr", "-i", "add", *what.split())
        except LabError as error:  # "already exists" is status 1 too; the check below decides
            if "exist" not in str(error).lower():
                raise
    for what in MODIFY:
        try:
            chroot.inside(lab, "sacctmgr", "-i", "modify", *what.split())
        except LabError as error:
            if "nothing" not in str(error).lower():
                raise
    if not _present(lab):
        raise LabError("sacctmgr ended well but the accounts are not there:\n" + _associations(lab))
    say("Slurm accounts: physics (alice), bio (bob); QOS low, normal, high")


def _associations(lab: Layout) -> str:
    return chroot.inside(lab, "sacctmgr", "-nP", "show", "assoc", "format=account,user")


def _present(lab: Layout) -> bool:
    return set(_associations(lab).split()) >= EXPECTED
