"""The unit files of docker/systemd: valid, unprivileged, and with commands that exist."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.test_named_commands import wrong
from tests.support.commands import ROOT

UNITS = sorted((ROOT / "docker" / "systemd").glob("*.service"))


def read(unit: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit, encoding="utf-8")
    return parser


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_runs_a_command_that_exists_and_is_started_again(unit: Path) -> None:
    service = read(unit)["Service"]
    program, *words = service["ExecStart"].split()
    assert program == "/opt/shuffleboard/bin/shuffleboard"
    assert wrong(words) is None
    assert service["Restart"] == "on-failure"
    assert service["User"] == "shuffleboard"
    assert service["ProtectSystem"] == "strict"
    assert "EnvironmentFile" in service


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        return  # without systemd, the other test reads the file
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"/opt/shuffleboard/bin/shuffleboard", "/bin/true", unit.read_text(encoding="utf-8")))
    done = subprocess.run([verify, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
