"""The best placement of a batch of gangs with segments, by CP-SAT. Runs alone, with an interpreter that has OR-Tools.

stdin: {"leaves": [[spine, free nodes], ...], "gangs": [[segments, size of a segment], ...], "seconds": limit}
stdout: {"status", "nodes", "bound", "spines", "leaves", "wall"}: nodes placed at most, and with so many placed the
fewest spines and leaves that gangs touch (sums over gangs); ``bound`` is a proved upper bound of the nodes.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from ortools.sat.python import cp_model

SPINE = 100
"""A touched spine costs as much as this many leaves; no batch here touches so many leaves."""


def solve(problem: dict[str, Any]) -> dict[str, Any]:
    """Two stages: most nodes, then fewest domains for so many."""
    model, placed, domains = _model(problem)
    began = time.monotonic()
    model.maximize(placed)
    first = _solver(problem["seconds"])
    status = first.solve(model)
    nodes = round(first.objective_value)
    model.add(placed == nodes)
    model.minimize(SPINE * sum(domains["spines"]) + sum(domains["leaves"]))
    for index in range(len(model.proto.variables)):
        variable = model.get_int_var_from_proto_index(index)
        model.add_hint(variable, first.value(variable))
    second = _solver(problem["seconds"])
    then = second.solve(model)
    proved = "".join("+" if found == cp_model.OPTIMAL else "?" for found in (status, then))
    return {
        "status": proved,
        "nodes": nodes,
        "bound": round(first.best_objective_bound),
        "spines": sum(second.value(variable) for variable in domains["spines"]),
        "leaves": sum(second.value(variable) for variable in domains["leaves"]),
        "wall": time.monotonic() - began,
    }


def _model(problem: dict[str, Any]) -> tuple[cp_model.CpModel, Any, dict[str, list[Any]]]:
    model = cp_model.CpModel()
    leaves, gangs = problem["leaves"], problem["gangs"]
    placed: Any = 0
    domains: dict[str, list[Any]] = {"spines": [], "leaves": []}
    used: list[Any] = [0] * len(leaves)
    for number, (segments, size) in enumerate(gangs):
        accepted = model.new_bool_var(f"accepted {number}")
        given: list[Any] = []
        by_spine: dict[str, list[Any]] = {}
        for leaf, (spine, free) in enumerate(leaves):
            most = min(segments, free // size)
            if not most:
                continue
            units = model.new_int_var(0, most, f"units {number} {leaf}")
            touches = model.new_bool_var(f"touches {number} {leaf}")
            model.add(units <= most * touches)
            used[leaf] += size * units
            given.append(units)
            domains["leaves"].append(touches)
            by_spine.setdefault(spine, []).append(touches)
        model.add(sum(given) == segments * accepted)
        for spine, touching in by_spine.items():
            enters = model.new_bool_var(f"enters {number} {spine}")
            model.add_max_equality(enters, touching)
            domains["spines"].append(enters)
        placed += segments * size * accepted
    for leaf, (_, free) in enumerate(leaves):
        model.add(used[leaf] <= free)
    return model, placed, domains


def _solver(seconds: float) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    solver.parameters.random_seed = 1
    return solver


if __name__ == "__main__":
    json.dump(solve(json.load(sys.stdin)), sys.stdout)
