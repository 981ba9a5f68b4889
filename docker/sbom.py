"""Writes the contents of each image in CycloneDX: `python docker/sbom.py --out FOLDER [--licences ENVIRONMENT]`.

`make sbom` runs it. Packages and digests come from docker/locks, third-party files from docs/third-party.toml;
licences are read from an environment that has the packages installed in the same versions. Debian's packages are not
included. The same inputs give the same bytes. Each document is validated before it is written.
"""

# ruff: noqa: INP001 - a script next to the Dockerfile, no package

import argparse
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT: Final = Path(__file__).resolve().parents[1]
IMAGES: Final = {"web": ("web",), "worker-cpu": ("web", "worker-cpu"), "worker-cuda": ("web", "worker-cuda")}
SHIPPED: Final = ("registry/", "web/", "shuffleboard/")
"""Folders in the wheel; documentation and tests are left out."""


def main() -> int:
    """Write a document for each image, named after it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder")
    parser.add_argument("--licences", type=Path, help="environment to read licences from")
    arguments = parser.parse_args()
    licences = dict(_licences(arguments.licences)) if arguments.licences else {}
    arguments.out.mkdir(parents=True, exist_ok=True)
    for image, locks in IMAGES.items():
        packages = [
            package for lock in locks for package in _list_locked(ROOT / "docker" / "locks" / f"{lock}.txt", licences)
        ]
        text = json.dumps(document(image, [*packages, *_list_others()]), indent=2, sort_keys=True) + "\n"
        problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
        if problem is not None:
            sys.stderr.write(f"{image}: not valid, and not written: {problem}\n")
            return 1
        (arguments.out / f"{image}.cdx.json").write_text(text, encoding="utf-8")
        licensed = sum("licenses" in package for package in packages)
        sys.stdout.write(f"{arguments.out / image}.cdx.json: {len(packages)} packages, licences of {licensed}\n")
    return 0


def document(image: str, components: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the document of one image. Its serial number is derived from its contents, and it contains no time."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = {
        "type": "application",
        "bom-ref": "shuffleboard",
        "name": f"shuffleboard-{image}",
        "version": project["version"],
        "licenses": [{"license": {"id": project["license"]}}],
    }
    content = json.dumps([ours, components], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "metadata": {"component": ours},
        "components": components,
        "dependencies": [{"ref": "shuffleboard", "dependsOn": [component["bom-ref"] for component in components]}],
    }


def _list_locked(path: Path, licences: dict[tuple[str, str], str]) -> Iterator[dict[str, Any]]:
    """Yield the packages of a lock, with the digests of all available files; an image contains one of these files."""
    for entry in re.findall(r"^[^#\s].*(?:\n .*)*\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        name, version = re.match(r"([^=\[]+)(?:\[.*\])?==(\S+)", entry).groups()  # type: ignore[union-attr]
        component = {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{version.replace('+', '%2B')}",
            "purl": f"pkg:pypi/{name}@{version.replace('+', '%2B')}",
            "name": name,
            "version": version,
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in re.findall("sha256:([0-9a-f]{64})", entry)],
        }
        licence = licences.get((name, version))
        yield component | ({"licenses": [{"license": {"name": licence}}]} if licence else {})


def _list_others() -> Iterator[dict[str, Any]]:
    """Yield the third-party parts in the wheel's files."""
    listed = tomllib.loads((ROOT / "docs" / "third-party.toml").read_text(encoding="utf-8"))
    parts = {part["name"]: part for part in listed["part"]}
    shipped = [file for file in listed["file"] if file["path"].startswith(SHIPPED)]
    for name in dict.fromkeys(part for file in shipped for part in file["parts"]):
        part = parts[name]
        alone = [file["sha256"] for file in shipped if file["parts"] == [name]]
        npm = part["source"] == "npm"
        address = {"purl": f"pkg:npm/{name.replace('@', '%40')}@{part['version']}"} if npm else {}
        yield {
            "type": "library" if npm else "data",
            "bom-ref": f"third-party/{name}",
            "name": name,
            "version": part["version"],
            "licenses": [_licence(part["licence"])],
            **({"hashes": [{"alg": "SHA-256", "content": digest} for digest in alone]} if alone else {}),
            **address,
        }


def _licence(expression: str) -> dict[str, Any]:
    return {"expression": expression} if " " in expression else {"license": {"id": expression}}


def _licences(environment: Path) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield (name, version) and licence of each installed package, preferably as an SPDX expression."""
    places = [str(path) for path in environment.glob("lib/python*/site-packages")]
    for distribution in metadata.distributions(path=places):
        properties = distribution.metadata
        classified = [
            line.rpartition(" :: ")[2] for line in properties.get_all("Classifier", []) if "License ::" in line
        ]
        text = (
            properties.get("License-Expression")
            or " AND ".join(classified)
            or (properties.get("License") or "").strip()
        )
        if text and "\n" not in text:
            name = re.sub(r"[-_.]+", "-", properties["Name"]).lower()
            yield (name, distribution.version), text


if __name__ == "__main__":
    sys.exit(main())
