"""Known vulnerabilities of the locked packages: `python supply/audit.py LOCK ...`, with pip-audit.

Ends with 1 where one is known. A database that cannot be reached, or does not know what everybody knows of an old
release, has not been asked anything: that is what is said, and the exit code is 0, since a machine without a network
can still run the tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

KNOWN = f"jinja2==2.4.1 --hash=sha256:{'0' * 64}\n"  # any database that answers knows several of its vulnerabilities
UNREACHABLE = ("Connection", "ServiceError", "HTTPError")  # among what pip-audit says then


def asked(lock: Path) -> list[str] | None:
    """A line for each vulnerability of a lock's packages; None where the database did not answer. Raises ValueError
    where pip-audit does not take the lock."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--format=json", "-r", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        if any(word in done.stderr for word in UNREACHABLE):
            return None
        raise ValueError(f"{lock}: {done.stderr.strip()[-500:]}") from None
    return [_line(lock, package, known) for package in packages for known in package.get("vulns", ())]


def _line(lock: Path, package: dict[str, Any], known: dict[str, Any]) -> str:
    corrected = ", ".join(known["fix_versions"]) or "no version"
    return f"{lock}: {package['name']} {package['version']}: {known['id']}, corrected in {corrected}"


def why_not() -> str:
    """Why an answer of the database would say nothing; empty where it would."""
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "known.txt"
        lock.write_text(KNOWN, encoding="utf-8")
        found = asked(lock)
    if found is None:
        return "the database of vulnerabilities cannot be reached"
    return "" if found else "what answers has no vulnerabilities, not even those of Jinja2 2.4.1"


def main(locks: Sequence[str]) -> int:
    """Ask for every lock and print what is known; the exit code."""
    if reason := why_not():
        print(f"audit: NOTHING WAS AUDITED: {reason}")
        return 0
    found = {lock: asked(Path(lock)) for lock in locks}
    for lock, lines in found.items():
        if lines is None:
            print(f"audit: {lock}: NOT AUDITED: the database of vulnerabilities did not answer")
        else:
            print("\n".join(lines) or f"audit: {lock}: nothing is known against its packages")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
