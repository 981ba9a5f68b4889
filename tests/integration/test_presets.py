"""Every preset with the real model, through the queue."""

from pathlib import Path

import pytest

from registry.db import get_engine, read_session
from registry.prompting.protocols.presets import PRESETS
from registry.sealed.verification import verify_evaluation
from tests.integration.presets import BENCHMARKS, SCORED, ask_all, largest_differences, rules, seconds

pytestmark = pytest.mark.long

TOLERANCE = 1e-3
QUESTIONS, TEXTS = 2, 1


@pytest.fixture(scope="module")
def asked(smollm2_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[tuple[str, str], int]]:
    home = tmp_path_factory.mktemp("presets")
    ids = ask_all(smollm2_folder, home, QUESTIONS, texts=TEXTS)
    return f"sqlite:///{home / 'shuffleboard.db'}", ids


def test_every_preset_completes(asked: tuple[str, dict[tuple[str, str], int]]) -> None:
    url, ids = asked
    assert {preset for _, preset in ids} == set(PRESETS)
    with read_session(get_engine(url)) as session:
        for (benchmark, preset), evaluation_id in ids.items():
            assert verify_evaluation(session, evaluation_id)["problems"] == [], (benchmark, preset)


def test_npsq_is_what_lm_evaluation_harness_s_log_likelihoods_give(
    asked: tuple[str, dict[tuple[str, str], int]], smollm2_folder: Path, harness_python: Path
) -> None:
    url, ids = asked
    scored = [evaluation_id for (_, preset), evaluation_id in ids.items() if preset in SCORED]
    assert len(scored) == len(BENCHMARKS) * len(SCORED)
    assert max(largest_differences(url, scored, smollm2_folder, harness_python)) < TOLERANCE


def test_what_was_written_is_counted_by_rule_and_timed(asked: tuple[str, dict[tuple[str, str], int]]) -> None:
    url, ids = asked
    for (_, preset), evaluation_id in ids.items():
        if preset in SCORED:
            continue
        counted = rules(url, evaluation_id)
        assert sum(counted.values()) == TEXTS
        assert set(counted) <= {*PRESETS[preset]["extraction"]["rules"], "none"}
        taken = seconds(url, evaluation_id)
        assert taken["asking"] > 0
        assert (taken["matching"] is not None) == ("matching" in PRESETS[preset])
