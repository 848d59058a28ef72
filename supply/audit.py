"""Known vulnerabilities of the locked packages: `python supply/audit.py LOCK ...`, with pip-audit.

Ends with 1 where one is known. Where the database cannot be reached nothing was asked, and that is what is said: the
exit code is 0 then, since a machine without a network can still run the tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence


def asked(lock: str) -> list[str] | None:
    """A line for each vulnerability of a lock's packages; None where the database did not answer. Raises ValueError
    where pip-audit does not take the lock."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--format=json", "-r", lock]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        if "Connection" in done.stderr or "ServiceError" in done.stderr or "HTTP" in done.stderr:
            return None
        raise ValueError(f"{lock}: {done.stderr.strip()[-500:]}") from None
    return [
        f"{lock}: {package['name']} {package['version']}: {known['id']}, corrected in {', '.join(known['fix_versions'])}"
        for package in packages
        for known in package.get("vulns", ())
    ]


def main(locks: Sequence[str]) -> int:
    """Ask for every lock and print what is known; the exit code."""
    found = {lock: asked(lock) for lock in locks}
    for lock, lines in found.items():
        if lines is None:
            print(f"audit: {lock}: NOT ASKED, the database of vulnerabilities cannot be reached")
        else:
            print("\n".join(lines) or f"audit: {lock}: nothing is known against its packages")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
