"""Runs a check on a kernel that refuses Landlock, and prints what is said of its confinement. Run by the tests."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from khepri.edits.checks import run_check
from khepri.egress import seccomp
from khepri.egress.libc import KernelCalls
from khepri.repo.root import Repository

LANDLOCK_CREATE_RULESET = 444


def main() -> None:
    machine = seccomp.architecture()
    assert machine is not None
    seccomp.install(KernelCalls(), replace(machine, denied=(LANDLOCK_CREATE_RULESET,)))
    outcome = run_check(Repository.open(Path(sys.argv[1])), "echo x > ../outside && echo fine", 30.0)
    print(json.dumps({"passed": outcome.passed, "confinement": outcome.confinement, "output": outcome.output}))


if __name__ == "__main__":
    main()
