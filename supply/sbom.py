"""What tinyir consists of when it runs, as CycloneDX: `python supply/sbom.py OUT.json`.

The packages of `runtime.txt` with their hashes, and what is bundled: the layout of the page that `tiny-view` writes.
The same lock gives the same bytes.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "supply" / "runtime.txt"
LAYOUT = ROOT / "tinyir" / "view" / "assets" / "dagre.min.js"
PACKAGE = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)(.*?)(?=^[A-Za-z0-9]|\Z)", re.MULTILINE | re.DOTALL)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def packages() -> Iterator[Component]:
    """The locked packages that are needed to run."""
    for name, version, rest in PACKAGE.findall(LOCK.read_text(encoding="utf-8")):
        digests = [HashType(alg=HashAlgorithm.SHA_256, content=found) for found in HASH.findall(rest)]
        url = PackageURL("pypi", name=name, version=version)
        yield Component(name=name, version=version, purl=url, bom_ref=str(url), hashes=digests)


def layout() -> Component:
    """The bundled script that lays out graphs."""
    content = LAYOUT.read_bytes()
    version = re.findall(rb'"(\d+\.\d+\.\d+)"', content)[-1].decode()
    digest = HashType(alg=HashAlgorithm.SHA_256, content=sha256(content).hexdigest())
    url = PackageURL("npm", namespace="@dagrejs", name="dagre", version=version)
    licence = LicenseFactory().make_from_string("MIT")
    return Component(name="dagre", version=version, purl=url, bom_ref=str(url), hashes=[digest], licenses=[licence])


def bill() -> Bom:
    """The whole bill."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "tinyir" / "__init__.py").read_text(encoding="utf-8"))
    own = Component(
        name=about["name"],
        version=version[1] if version else "",
        type=ComponentType.APPLICATION,
        description=about["description"],
        licenses=[LicenseFactory().make_from_string(about["license"]["text"])],
        bom_ref=about["name"],
    )
    components = [*packages(), layout()]
    identity = sha256("".join(str(c.purl) for c in components).encode()).hexdigest()
    made = Bom(components=components, metadata=BomMetaData(component=own), serial_number=uuid5(NAMESPACE_URL, identity))
    made.metadata.timestamp = None
    made.register_dependency(own, components)
    return made


def main(out: Path) -> int:
    """Write the bill; the exit code."""
    text = JsonV1Dot6(bill()).output_as_string(indent=1)
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault is not None:
        print(f"sbom: what was made is not CycloneDX: {fault}", file=sys.stderr)
        return 1
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
