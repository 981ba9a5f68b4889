"""Reads docker/kubernetes as plain values: each file by itself, before Kustomize combines them."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy.images import ROOT

KUBERNETES: Final = ROOT / "docker" / "kubernetes"
OVERLAYS: Final = ("cluster", "try")
VERSION: Final = "1.32"
"""Version of Kubernetes whose schemas the manifests follow. The features in use are stable since 1.27."""

Manifest = Mapping[str, Any]


@lru_cache(maxsize=1)
def write() -> Mapping[str, Manifest]:
    """Return every resource as it is written, by `FOLDER/KIND/NAME`."""
    return {
        f"{path.parent.name}/{manifest['kind']}/{manifest['metadata']['name']}": manifest
        for path in sorted(KUBERNETES.glob("*/*.yaml"))
        if path.name != "kustomization.yaml"
        for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    }


def kustomization(folder: str) -> Manifest:
    """Return the contents of a folder's kustomization.yaml."""
    content: Manifest = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text(encoding="utf-8"))
    return content


def pods(manifests: Mapping[str, Manifest]) -> dict[str, Manifest]:
    """Return the pods of Deployments, StatefulSets and Jobs, by the names of these."""
    return {
        str(manifest["metadata"]["name"]): manifest["spec"]["template"]["spec"]
        for manifest in manifests.values()
        if manifest["kind"] in ("Deployment", "StatefulSet", "Job")
    }


def containers(pod: Manifest) -> Sequence[Manifest]:
    """Return all containers of a pod, init containers first."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


def settings() -> dict[str, str]:
    """Return the settings that all our pods share."""
    lines = (KUBERNETES / "base" / "settings.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def environment(container: Manifest) -> dict[str, str]:
    """Return the environment of a container: its own over the shared settings, if it uses these."""
    shared = settings() if container.get("envFrom") else {}
    return shared | {variable["name"]: variable["value"] for variable in container.get("env", ())}


def list_mounted_secrets(pod: Manifest) -> Iterator[str]:
    """Yield the names of the secrets in a pod."""
    for volume in pod.get("volumes", ()):
        if "secret" in volume:
            yield volume["secret"]["secretName"]
        for source in volume.get("projected", {}).get("sources", ()):
            yield source["secret"]["name"]


def secret_files(overlay: str) -> dict[str, set[str]]:
    """Return the files of each secret that an overlay makes."""
    return {
        generator["name"]: {Path(file).name for file in generator["files"]}
        for generator in kustomization(overlay)["secretGenerator"]
    }


def render(kubectl: str | Path, folder: Path) -> dict[str, Manifest]:
    """Return the resources that Kustomize makes of a folder, by `KIND/NAME`."""
    done = subprocess.run([str(kubectl), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rendered = list(yaml.safe_load_all(done.stdout))
    named = {f"{manifest['kind']}/{manifest['metadata']['name']}": manifest for manifest in rendered}
    assert len(named) == len(rendered)
    return named
