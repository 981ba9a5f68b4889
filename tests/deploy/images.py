"""Builds the images of docker/Dockerfile without a container engine: buildah, in a chroot, on a debootstrapped base.

Everything is under build/deploy, and a second build reuses the files of the first. This machine's settings of pip and
apt (mirrors, indexes, folders of wheels, certificates, proxies) apply in the build as well.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tests.support import services

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "build" / "deploy"
DOCKERFILE: Final = ROOT / "docker" / "Dockerfile"
BASE: Final = "debian:bookworm-slim"
RELEASE: Final = "bookworm"
MIRROR: Final = "http://deb.debian.org/debian"
# These are the options of Debian's image for containers, from which this base should differ little.
WITHOUT: Final = ("doc", "groff", "info", "linda", "lintian", "locale", "man")
APT_AS_IN_CONTAINERS: Final = """\
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Apt::AutoRemove::SuggestsImportant "false";
"""

CARRIED: Final = "/run/machine"
"""Folder in the build for the files that pip's settings name."""
PLACES: Final = ("index-url", "extra-index-url", "find-links")
"""Settings of pip that name folders of packages. Settings that name other folders or programs are left out."""
NAMES: Final = {"web": "localhost/shuffleboard-web", "worker": "localhost/shuffleboard-worker"}


class DeployError(RuntimeError):
    """A failed step; the message names it and contains the end of its output."""


def run(command: Sequence[str | Path], what: str, log: Path | None = None, **options: Any) -> str:
    """Run a command, write its output to `log` if given, and return it. Raises DeployError if the command fails."""
    done = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        **options,
    )
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(done.stdout, encoding="utf-8")
    if done.returncode != 0:
        where = f" (all of it: {log})" if log is not None else ""
        raise DeployError(f"{what}: status {done.returncode}{where}\n{done.stdout[-4000:]}")
    return done.stdout


def require_tools() -> None:
    """Check that buildah and debootstrap exist. Raises DeployError with the missing packages or the necessary user."""
    if os.geteuid() != 0:
        raise DeployError("deploy-check mounts, chroots and sets owners: run it as root, in a machine to throw away")
    missing = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if missing:
        refused = services._apt_install(*missing)
        if refused is not None:
            raise DeployError(f"{' and '.join(missing)} cannot be installed ({refused}); install them")


def buildah(*words: str | Path) -> list[str | Path]:
    """Return a command line of buildah with this check's own storage."""
    places = ["--root", FOLDER / "storage", "--runroot", FOLDER / "run", "--storage-driver", "overlay"]
    return ["buildah", *places, *words]


def leave_storage() -> None:
    """Unmount the storage, which buildah leaves mounted, so that the folder can be removed."""
    subprocess.run(["umount", str(FOLDER / "storage" / "overlay")], capture_output=True, check=False)


def inspect(name: str, kind: str = "image") -> dict[str, Any]:
    """Return the description of an image or a container."""
    document: dict[str, Any] = json.loads(run(buildah("inspect", "--type", kind, name), f"inspecting {name}"))
    return document


def image_bytes(name: str) -> int:
    """Return the size of an image on the disk, with all of its layers."""
    listed = json.loads(run(buildah("images", "--json"), "listing the images"))
    image = next(
        candidate for candidate in listed if any(str(tag).startswith(f"{name}:") for tag in candidate["names"] or ())
    )
    number, unit = re.fullmatch(r"([\d.]+) (B|KB|MB|GB)", image["size"]).groups()  # type: ignore[union-attr]
    return int(float(number) * {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[unit])


# The base


def make_base() -> bool:
    """Make the base image, with the name that the Dockerfile uses; return False if it exists already."""
    if (
        subprocess.run(
            [*map(str, buildah("inspect", "--type", "image", f"localhost/{BASE}"))], capture_output=True, check=False
        ).returncode
        == 0
    ):
        return False
    folder = FOLDER / "base"
    shutil.rmtree(folder, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    sources = apt_sources()
    mirror = sources[0].split()[2] if sources else MIRROR
    run(["debootstrap", "--variant=minbase", RELEASE, folder, mirror], "debootstrap", FOLDER / "debootstrap.log")
    (folder / "etc/apt/sources.list").write_text(
        "".join(f"{line}\n" for line in sources or [f"deb {MIRROR} {RELEASE} main"])
    )
    (folder / "etc/apt/apt.conf.d/90machine").write_text(run(["apt-config", "dump", "Acquire"], "apt-config"))
    (folder / "etc/apt/apt.conf.d/docker-clean").write_text(APT_AS_IN_CONTAINERS)
    excluded = "".join(f"path-exclude /usr/share/{name}/*\n" for name in WITHOUT)
    (folder / "etc/dpkg/dpkg.cfg.d/docker").write_text(excluded)
    for left in [
        *(folder / "usr/share" / name for name in WITHOUT),
        folder / "var/cache/apt",
        folder / "var/lib/apt/lists",
    ]:
        shutil.rmtree(left, ignore_errors=True)
        left.mkdir()
    archive = FOLDER / "base.tar"
    run(["tar", "--numeric-owner", "-C", folder, "-cf", archive, "."], "packing the base")
    container = run(buildah("from", "scratch"), "the base").strip()
    run(buildah("add", container, archive, "/"), "the base")
    run(buildah("config", "--cmd", "/bin/bash", container), "the base")
    run(buildah("commit", "--format", "docker", "--rm", container, f"localhost/{BASE}"), "the base")
    archive.unlink()
    shutil.rmtree(folder)
    return True


def apt_sources() -> list[str]:
    """Return this machine's sources of Debian packages, as lines of sources.list; none if its release is another."""
    release = Path("/etc/os-release").read_text(encoding="utf-8") if Path("/etc/os-release").exists() else ""
    if f"VERSION_CODENAME={RELEASE}" not in release:
        return []
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    listed = run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
            "Created-By: Packages",
        ],
        "apt-get",
    )
    sources = [line.split("|") for line in dict.fromkeys(listed.splitlines())]
    lines = [
        f"deb [signed-by={key}] {uri} {name} {part}"
        for origin, uri, name, part in sources
        if name.startswith(RELEASE) and origin == "Debian"
    ]
    return sorted(lines, key=lambda line: line.split()[3] != RELEASE)


# This machine's settings of pip


def pip_settings() -> dict[str, str]:
    """Return pip's settings here, environment variables over files."""
    listed = run([sys.executable, "-m", "pip", "config", "list"], "pip config list")
    settings: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in ("global", "install", ":env:"):
            settings[key] = str(ast.literal_eval(value))
    return settings


def pip_volumes() -> list[str]:
    """Return volumes that bring pip's settings into the build, with the files and folders that they name."""
    folder = FOLDER / "machine"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    volumes, lines = [], []
    for key, value in sorted(pip_settings().items()):
        kept = []
        for word in [value] if Path(value).is_file() else value.split():
            path = Path(unquote(urlsplit(word).path) if word.startswith("file:") else word).expanduser()
            if key in PLACES:
                kept.append(word)
                # A folder of links refers to the folders next to it.
                place = path.parent if word.startswith("file:") else path
                volumes += [f"{place}:{place}:ro"] if place.is_absolute() and place.is_dir() else []
            elif path.is_file() and not os.access(path, os.X_OK):
                copy = folder / f"{key}-{len(kept)}{path.suffix}"
                shutil.copyfile(path, copy)
                kept.append(f"{CARRIED}/{copy.name}")
                volumes.append(f"{copy}:{kept[-1]}")  # not read-only: it may be pip's log
            elif not path.is_absolute():
                kept.append(word)
        if kept:
            lines.append(f"{key} = {' '.join(kept)}")
    (folder / "pip.conf").write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
    return [*dict.fromkeys(volumes), f"{folder / 'pip.conf'}:/etc/pip.conf:ro"]


# The images


def build(target: str) -> str:
    """Build one image and return its name; unchanged layers come from the last build."""
    settings = pip_settings()
    arguments = [
        "REVISION="
        + (
            run(["git", "-C", ROOT, "describe", "--always", "--abbrev=40", "--exclude", "*", "--dirty"], "git").strip()
            if (ROOT / ".git").exists()
            else "unknown"
        )
    ]
    if settings.get("find-links") or settings.get("extra-index-url"):
        # pip's settings are different here, so the Dockerfile checks whether torch is the build for the CPU.
        arguments.append("TORCH_CPU_INDEX=")
    volumes = [word for volume in pip_volumes() for word in ("--volume", volume)]
    run(
        buildah(
            "bud", "--isolation", "chroot", "--format", "docker", "--layers", "--pull-never",
            *(word for argument in arguments for word in ("--build-arg", argument)),
            *volumes, "--file", DOCKERFILE, "--target", target, "--tag", NAMES[target], ROOT,
        ),
        f"building {target}",
        FOLDER / f"build-{target}.log",
    )  # fmt: skip
    return NAMES[target]
