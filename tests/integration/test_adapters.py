"""A model with an adapter: registered with its base, scored by a worker in both ways, compared, and refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, read_session, write_session
from registry.lookups import find_revision
from registry.operations.migrate import upgrade
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import RevisionRequest, add_revision, model_identity, request_of
from registry.sealed.verification import verify_evaluation
from registry.settings import Settings
from registry.studies.comparing import compare_evaluations
from tests.support.adapters import check_against_peft, train_adapter
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.population import MMLU
from web import create_app
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer

pytestmark = pytest.mark.one_engine

REQUEST = EvaluationRequest(model="tuned@1", benchmark="mmlu", variants="cyclic", limit=2)
Registry = tuple[Engine, dict[str, object]]
HF = ("--kind", "huggingface", "--location")


@pytest.fixture(scope="module")
def trained(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_adapter(tmp_path_factory.mktemp("trained") / "lora", tiny_folder)


@pytest.fixture
def adapter(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "lora"))


@pytest.fixture(scope="module")
def home_once(tiny_folder: Path, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a registry with a base, an adapter of it in both ways, and an evaluation of each."""
    home = tmp_path_factory.mktemp("adapters")
    url = f"sqlite:///{home / 'shuffleboard.db'}"
    upgrade(url)
    with write_session(get_engine(url)) as session:
        import_benchmark(session, read_benchmark(MMLU), name="mmlu")
    where = {"database_url": url, "home": home}
    shuffleboard("models", "add", "tiny", *HF, tiny_folder, **where)
    for way in ("--unmerged", "--merged"):
        shuffleboard("models", "add", "tuned", "--base", "tiny@1", "--adapter", trained, way, **where)
    engine = get_engine(url)
    with write_session(engine) as session:
        for model in ("tuned@1", "tuned@2", "tiny"):
            submit(session, replace(REQUEST, model=model))
    loop = WorkerLoop(engine, Settings(home=home, poll_seconds=0.1), TransformersScorer(home, "cpu"), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    return home


@pytest.fixture
def registry(home_once: Path) -> Registry:
    """Return the registry with the settings of its commands."""
    url = f"sqlite:///{home_once / 'shuffleboard.db'}"
    return get_engine(url), {"database_url": url, "home": home_once}


def test_unmerged_and_merged_are_two_revisions_of_the_same_files(registry: Registry) -> None:
    engine, _ = registry
    with read_session(engine) as session:
        base, *both = (model_identity(find_revision(session, name)) for name in ("tiny", "tuned@1", "tuned@2"))
    one, two = (identity["adapter"] for identity in both)
    assert base["adapter"] is None
    assert one == {"base": base["weights_digest"], "digest": one["digest"], "merged": False}
    assert two == one | {"merged": True}
    assert both[0]["weights_digest"] == both[1]["weights_digest"] != base["weights_digest"]
    assert [identity["tokenizer_digest"] for identity in both] == [base["tokenizer_digest"]] * 2


def test_an_adapter_of_the_hub_waits_for_a_worker(registry: Registry) -> None:
    engine, _ = registry
    request = RevisionRequest("huggingface", "owner/base", "main", adapter="owner/lora@v2", merged=True)
    with write_session(engine) as session:
        row, new = add_revision(session, "of-the-hub", request)
        assert (new, row.state, row.adapter, row.adapter_merged) == (True, "registered", "owner/lora@v2", True)
        assert request_of(row) == request.checked()
        assert add_revision(session, "of-the-hub", request) == (row, False)
        assert add_revision(session, "of-the-hub", replace(request, merged=None))[0].number == 2
        session.rollback()


def test_a_worker_scores_an_unmerged_adapter_as_peft_does(registry: Registry, trained: Path, tiny_folder: Path) -> None:
    engine, _ = registry
    assert check_against_peft(engine, 1, tiny_folder, trained, 1e-4) == 8


def test_the_page_compares_the_two_ways_and_says_how_they_differ(registry: Registry) -> None:
    engine, where = registry
    with read_session(engine) as session:
        relations = [compare_evaluations(session, 1, other)["relation"] for other in (2, 3)]
        assert all(verify_evaluation(session, number)["ok"] for number in (1, 2, 3))
    assert relations == ["another revision", "another model"]
    client = create_app(database_url=str(where["database_url"])).test_client()
    page = client.get("/compare?left=1&right=2")
    assert page.status_code == 200, page.text
    assert "Both evaluations are of one model, tuned, at different revisions (1 and 2)." in page.text
    assert "unmerged" in client.get("/evaluations/1/provenance?against=2").text
    assert "unmerged, beside the base" in client.get("/evaluations/1/provenance").text
    shown = client.get("/models/tuned").text
    assert "merged into the weights" in shown
    assert str(where["home"]) not in shown


def test_an_adapter_whose_files_changed_is_not_scored(registry: Registry, adapter: Path, tiny_folder: Path) -> None:
    _, where = registry
    shuffleboard("models", "add", "moved", *HF, tiny_folder, "--adapter", adapter, **where)
    config = adapter / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"lora_alpha": 9}))
    outcome = shuffleboard("models", "prefetch", "moved", status=1, **where)
    assert f"{adapter}: its weights have changed since moved revision 1" in outcome.stderr


def template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}!")


def test_an_adapters_chat_template_replaces_that_of_its_base(registry: Registry, adapter: Path) -> None:
    engine, where = registry
    template(adapter)
    shuffleboard("models", "add", "chatty", "--base", "tiny", "--adapter", adapter, **where)
    with read_session(engine) as session:
        revision = find_revision(session, "chatty")
        assert revision.chat_template == "{{ messages[0].content }}!"
        loaded = TransformersScorer(Path(str(where["home"])), "cpu")._local(revision)._loaded
    assert loaded.tokenizer.chat_template == revision.chat_template


def omit_weights(folder: Path) -> None:
    (folder / "adapter_model.safetensors").unlink()


def as_pickle(folder: Path) -> None:
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")


def as_one_of_several(folder: Path) -> None:
    inner = folder / "second"
    inner.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (folder / name).rename(inner / name)


def with_another_token(folder: Path) -> None:
    (folder / "tokenizer.json").write_text(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": [],
                "model": {"type": "WordLevel", "vocab": {"<|im|>": 0}, "unk_token": "<|im|>"},
            }
        )
    )


def change_kind(folder: Path) -> None:
    config = folder / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"peft_type": "PREFIX_TUNING"}))


REFUSED: dict[str, tuple[Callable[[Path], None], tuple[str, ...], int, str]] = {
    "a folder that is not there": (shutil.rmtree, ("--base", "tiny"), 1, "no such folder; check the path"),
    "no weights": (omit_weights, ("--base", "tiny"), 1, "contains no adapter_model.safetensors"),
    "a pickle": (as_pickle, ("--base", "tiny"), 1, "weights are a pickle (adapter_model.bin)"),
    "several in one folder": (
        as_one_of_several,
        ("--base", "tiny"),
        1,
        "holds several (second); name the folder of one",
    ),
    "another vocabulary": (
        with_another_token,
        ("--base", "tiny"),
        1,
        "its tokenizer has 1 tokens that the base model's lacks or numbers otherwise",
    ),
    "prefix tuning": (change_kind, ("--base", "tiny"), 1, "'PREFIX_TUNING'; only LORA can be loaded"),
    "a base that has one": (template, ("--base", "tuned"), 2, "--base tuned: has an adapter itself"),
    "a base that is not registered": (template, ("--base", "nobody"), 1, "no model 'nobody'"),
    "a base of another kind": (template, ("--kind", "external"), 2, "an adapter needs a base of kind huggingface"),
    "two": (template, ("--base", "tiny", "--adapter", "other"), 2, "2 are given and a revision has one"),
    "a base said twice": (template, ("--base", "tiny", "--location", "x"), 2, "leave them out"),
    "no base": (template, (), 2, "give --kind"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_registered_is_refused_and_nothing_is_stored(
    registry: Registry, adapter: Path, why: str
) -> None:
    _, where = registry
    change, arguments, status, message = REFUSED[why]
    change(adapter)
    outcome = shuffleboard("models", "add", "m", *arguments, "--adapter", adapter, status=status, **where)
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert "m" not in {row["name"] for row in shuffleboard_json("models", "list", **where)["models"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--merged",), "only an adapter can be merged"), (("--base", "tiny"), "give --kind")],
)
def test_a_model_without_an_adapter_is_neither_merged_nor_based(
    registry: Registry, tiny_folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    _, where = registry
    base = arguments if "--base" in arguments else (*HF, str(tiny_folder), *arguments)
    expected = "name the adapter, too" if "--base" in arguments else message
    assert expected in shuffleboard("models", "add", "m", *base, status=2, **where).stderr
