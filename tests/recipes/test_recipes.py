"""Benchmarks that the real client fetches by name from a fake hub with the real routes."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sqlalchemy import select

from registry.benchmarks.recipes import Recipe, fetch, fetch_to, load_shipped_recipes, recipe_named
from registry.boards.store import suite_definition
from registry.db import get_engine, read_session
from registry.errors import IngestError, NotFoundError
from registry.files import hub as hub_module
from registry.tables import Question, Suite
from tests.recipes.hub import COMMIT, Hub, Refusal, parquet
from tests.recipes.upstream import ROWS, files, make_values, sample
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.weights import whole_weights

ONE_OF_EACH = ("belebele-eng", "global-mmlu-de")
LIKE_OTHERS = re.compile(r"belebele-(?!eng$)|global-mmlu-(?!de$)")


def count(recipe: Recipe) -> Recipe:
    """Return the recipe with the number of questions on the fake hub."""
    questions, pool = sample(recipe)
    few_shot = recipe.few_shot and recipe.few_shot.model_copy(update={"count": len(pool), "limit": None})
    return recipe.model_copy(
        update={"questions": recipe.questions.model_copy(update={"count": len(questions)}), "few_shot": few_shot}
    )


def serve(hub: Hub, *names: str) -> list[Recipe]:
    recipes = [count(recipe_named(name)) for name in names]
    for recipe in recipes:
        hub.add(recipe.repository, files(recipe))
    return recipes


@pytest.mark.parametrize("name", [name for name in load_shipped_recipes() if not LIKE_OTHERS.match(name)])
def test_a_recipe_reads_its_dataset_in_the_form_that_the_hub_has(name: str, hub: Hub) -> None:
    [recipe] = serve(hub, name)
    fetched = fetch(recipe)
    questions, pool = sample(recipe)
    assert len(fetched.content.pool) == (22 if recipe.examples else len(pool) if recipe.few_shot else 0)
    assert len({record.external_id for record in fetched.content.questions}) == len(questions)
    for question, expected in zip(fetched.content.questions, questions, strict=True):
        assert question.text == expected.text
        assert question.options[question.answer] == expected.options[expected.answer]
        if recipe.shuffle_seed is None:
            assert question.options == expected.options
        else:
            assert sorted(question.options) == sorted(expected.options)
        if recipe.columns.context is not None:
            assert question.context == expected.context
    assert fetched.commit == recipe.revision or recipe.revision is None
    assert fetched.source.startswith(f"hf://datasets/{recipe.repository}@{fetched.commit}/")


def test_every_dataset_has_a_row_of_its_form() -> None:
    repositories = {
        recipe.repository.partition("-")[0] if "agieval" in recipe.repository else recipe.repository
        for recipe in load_shipped_recipes().values()
    }
    assert repositories == set(ROWS)


def test_every_benchmark_of_a_shipped_suite_has_a_recipe(sqlite_database: str) -> None:
    with read_session(get_engine(sqlite_database)) as session:
        named = {name for suite in session.scalars(select(Suite)) for name in suite_definition(suite).benchmarks}
    assert named - set(load_shipped_recipes()) == {"nonsenseqa"}


def test_a_sample_comes_back_question_by_question(hub: Hub) -> None:
    [recipe] = serve(hub, "commonsenseqa")
    questions, pool = sample(recipe)
    content = fetch(recipe).content
    for fetched, kept in ((content.questions, questions), (content.pool, pool)):
        assert [one.content() for one in fetched] == [one.content() for one in kept]


def test_a_suite_is_one_command_away(hub: Hub, sqlite_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [recipe.name for recipe in load_shipped_recipes().values() if recipe.name.startswith("agieval")]
    recipes = {
        recipe.name: recipe for recipe in serve(hub, "arc-challenge", "commonsenseqa", "winogrande", "mmlu", *tasks)
    }
    monkeypatch.setattr("registry.benchmarks.recipes.load_shipped_recipes", lambda: recipes)
    fetched = shuffleboard_json("suites", "fetch", "goliakova-17", database_url=sqlite_database)
    assert {row["benchmark"] for row in fetched["benchmarks"] if row["fetched"]} == set(recipes)
    again = shuffleboard_json("suites", "fetch", "goliakova-17", database_url=sqlite_database)
    assert [row["fetched"] for row in again["benchmarks"]] == [False] * len(recipes)


def test_a_machine_without_a_connection_reads_what_another_has_fetched(
    hub: Hub, sqlite_database: str, tmp_path: Path
) -> None:
    [recipe] = serve(hub, "arc-easy")
    folder = fetch_to(recipe, tmp_path)
    hub.faults.append(lambda *_: Refusal())
    assert fetch(recipe, folder=tmp_path).content == fetch(recipe, folder=tmp_path).content
    [file] = folder.glob("ARC-Easy/test-*")
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(IngestError, match=r"test-.*does not have the digest that fetched.json states"):
        fetch(recipe, folder=tmp_path)
    file.unlink()
    with pytest.raises(IngestError, match="is missing"):
        fetch(recipe, folder=tmp_path)
    with pytest.raises(IngestError, match=r"holds no fetched.json; fill it where .* --to"):
        fetch(recipe, folder=tmp_path / "empty")


def once(refusal: Refusal, path: str) -> Callable[[str, dict[str, str]], Refusal | None]:
    left = [refusal]
    return lambda asked, _: left.pop() if path in asked and left else None


@pytest.mark.parametrize(
    ("path", "refusal"),
    [("/api/", Refusal(429, {"Retry-After": "0"})), ("/api/", Refusal(503)), ("/resolve/", Refusal(cut=40))],
)
def test_a_hub_that_is_busy_or_breaks_off_is_asked_again(
    path: str, refusal: Refusal, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.files.hub.time.sleep", lambda _: None)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    [recipe] = serve(hub, "sciq")
    hub.faults.append(once(refusal, path))
    assert len(fetch(recipe).content.questions) == 6


def test_a_dataset_of_a_changed_form_is_refused_by_row_and_column(hub: Hub) -> None:
    [recipe] = serve(hub, "sciq")
    rows = [{"question": question.text, "right": question.options[0]} for question in make_values(6, 4)]
    hub.add(recipe.repository, {"data/test-00000-of-00001.parquet": parquet(rows)})
    with pytest.raises(IngestError, match=r"test-\S+ line 1: there is no column 'correct_answer'; there are .*right"):
        fetch(recipe)
    hub.files[recipe.repository] = {"train.csv": b""}
    with pytest.raises(IngestError, match=r"has no file 'data/test-\*\.parquet'; it has train\.csv"):
        fetch(recipe, revision="main")


def test_a_pinned_commit_has_the_recipes_number_of_questions(hub: Hub, sqlite_database: str) -> None:
    [recipe] = serve(hub, "sciq")
    short = recipe.model_copy(update={"questions": recipe.questions.model_copy(update={"count": 1000})})
    with pytest.raises(IngestError, match="has 6 questions, not 1000, which is what the recipe is of"):
        fetch(short)
    options = ("benchmarks", "fetch", "sciq", "--revision", "0" * 40)
    assert shuffleboard_json(*options, database_url=sqlite_database)["questions"] == 6
    hub.files[recipe.repository] = {
        name: parquet([ROWS[recipe.repository](question) for question in make_values(4, 4)])
        for name in hub.files[recipe.repository]
    }
    done = shuffleboard(*options, status=1, database_url=sqlite_database)
    assert "though a commit never changes; nothing was stored" in done.stderr


def test_a_full_disk_is_said_before_anything_is_downloaded(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    [recipe] = serve(hub, "sciq")
    usage = hub_module.shutil.disk_usage("/")
    monkeypatch.setattr(hub_module.shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    with pytest.raises(IngestError, match=r"do not fit on the disk of .* 1 MiB free; make room"):
        fetch(recipe)
    assert not any("/resolve/" in path for _, path in hub.asked)


def test_a_dataset_without_a_recipe_is_shown_before_it_is_stored(hub: Hub, sqlite_database: str) -> None:
    hub.add(
        "me/exam",
        {
            "data/test-0.parquet": parquet(
                [
                    {"text": question.text, "choices": list(question.options), "key": "B"}
                    for question in make_values(5, 4)
                ]
            )
        },
    )
    options = ["benchmarks", "fetch", "--repo", "me/exam", "--files", "data/test-*.parquet"]
    for column in ("id=exam-{row}", "question={text}", "options=choices", "answer.letter=key"):
        options += ["--columns", column]
    shown = shuffleboard_json(*options, database_url=sqlite_database)
    assert [row["id"] for row in shown["preview"]] == ["exam-0", "exam-1", "exam-2"]
    assert not shown["stored"]
    stored = shuffleboard_json(*options, "--store", database_url=sqlite_database)
    assert (stored["benchmark"], stored["questions"]) == ("exam", 5)


def exam(*columns: str, key: str = "answer.letter=key") -> list[str]:
    """Return a command that fetches `me/exam` by its columns."""
    options = ["benchmarks", "fetch", "--repo", "me/exam", "--files", "a.parquet"]
    for column in ("id=exam-{row}", "question={text}", "options=choices", key, *columns):
        options += ["--columns", column]
    return options


def serve_exam(hub: Hub, keys: Sequence[object], options: int = 4) -> None:
    questions = make_values(len(keys), options)
    rows = [
        {"text": one.text, "choices": list(one.options), "key": key} for one, key in zip(questions, keys, strict=True)
    ]
    hub.add("me/exam", {"a.parquet": parquet(rows)})


@pytest.mark.parametrize("seed", [(), ("--columns", "shuffle_seed=0"), ("--shuffle-options", "0")])
def test_a_right_option_that_always_comes_first_is_drawn_to_a_place(
    seed: tuple[str, ...], hub: Hub, sqlite_database: str
) -> None:
    serve_exam(hub, ["A"] * 50)
    command = [*exam(key="answer.first=true"), *seed]
    shown = shuffleboard_json(*command, database_url=sqlite_database)
    assert len(shown["right_at"]) == 4
    assert max(shown["right_at"]) < 25
    done = shuffleboard(*command, "--store", database_url=sqlite_database)
    assert "an order drawn by seed 0" in done.stderr
    with read_session(get_engine(sqlite_database)) as session:
        places = Counter(session.scalars(select(Question.answer)))
    assert [places[place] for place in range(4)] == shown["right_at"]


@pytest.mark.parametrize(("key", "keys"), [("answer.letter=key", ["B"] * 12), ("answer.index=key", [0] * 12)])
@pytest.mark.parametrize("store", [(), ("--store",)])
def test_a_place_that_gives_every_answer_away_is_refused(
    key: str, keys: list[object], store: tuple[str, ...], hub: Hub, sqlite_database: str
) -> None:
    serve_exam(hub, keys)
    done = shuffleboard(*exam(key=key), *store, status=1, database_url=sqlite_database)
    assert re.match(
        r"Error: me/exam: the right option is number \d in all 12 questions, .*--shuffle-options", done.stderr
    )
    shuffleboard(*exam(key=key), *store, "--shuffle-options", "1", database_url=sqlite_database)


@pytest.mark.parametrize(
    ("key", "keys", "options", "message"),
    [
        ("answer.letter=key", ["A"] * 20 + ["H"], 4, r"line 21: column 'key' is 'H', which is none of its options"),
        ("answer.number=key", [1, 2, 3, 1, 2, 0], 4, r"line 6: column 'key' is '0', .* use answer\.index"),
        ("answer.index=key", [1, 2, 3, 1, 2, 4], 4, r"line 6: column 'key' is '4', .* use answer\.number"),
        ("answer.letter=key", ["A"] * 5, 1, r"line 1: options .* a question needs a list of at least two options"),
    ],
)
def test_what_is_shown_was_checked_as_what_is_stored(
    key: str, keys: list[object], options: int, message: str, hub: Hub, sqlite_database: str
) -> None:
    serve_exam(hub, keys, options)
    for store in ((), ("--store",)):
        done = shuffleboard(*exam(key=key), *store, status=1, database_url=sqlite_database)
        assert re.match(rf"Error: me/exam a\.parquet {message}", done.stderr), done.stderr
        assert "Is " not in done.stderr


def test_a_way_of_saying_what_is_right_is_true_or_refused(hub: Hub, sqlite_database: str) -> None:
    serve_exam(hub, ["A"] * 5)
    done = shuffleboard(*exam(key="answer.first=perhaps"), status=1, database_url=sqlite_database)
    assert "--columns: columns.answer.first" in done.stderr


def test_fetchable_benchmarks_fit_a_screen_and_are_filtered_by_word(sqlite_database: str) -> None:
    def list_items(*options: str) -> list[str]:
        done = shuffleboard("benchmarks", "list", "--available", *options, database_url=sqlite_database)
        return done.stdout.splitlines()

    assert len(list_items()) < 25
    assert any(re.match(r"belebele-… \(122\) ", line) for line in list_items())
    assert len(list_items("belebele")) > 120
    german = list_items("--language", "de")
    assert [line.split()[0] for line in german[1:]] == ["belebele-deu", "global-mmlu-de"]
    assert [line.split()[0] for line in list_items("truthful", "--licence", "apache")[1:]] == ["truthfulqa-mc1"]
    every = shuffleboard_json("benchmarks", "fetch", "list", database_url=sqlite_database)["benchmarks"]
    assert {row["name"] for row in every} == set(load_shipped_recipes())
    done = shuffleboard("benchmarks", "list", "--available", "nowhere", status=1, database_url=sqlite_database)
    assert "no benchmark that can be fetched has word 'nowhere'" in done.stderr


def test_a_name_that_no_recipe_has_is_answered_with_similar_ones() -> None:
    with pytest.raises(NotFoundError, match="did you mean commonsenseqa"):
        recipe_named("comonsenseqa")


def test_a_recipe_file_with_an_unknown_key_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('title = "x"\nrepository = "a/b"\nrevisoin = "main"\n', encoding="utf-8")
    with pytest.raises(IngestError, match=r"^mine.toml: (citation|questions|columns|revisoin)"):
        recipe_named(str(file))


def test_a_hub_model_is_pinned_to_its_commit_and_downloaded_ahead(
    hub: Hub, sqlite_database: str, tmp_path: Path
) -> None:
    hub.add("me/tiny", {"config.json": b"{}", "model.safetensors": whole_weights(), "tokenizer.json": b"{}"})
    options = {"database_url": sqlite_database, "home": tmp_path}
    add = ("models", "add", "tiny", "--kind", "huggingface", "--location", "me/tiny", "--revision", "main")
    added = shuffleboard_json(*add, **options)
    assert (added["commit"], added["state"]) == (COMMIT, "ready")
    assert (added["developer"], added["released"]) == ("me", "2024-11-05")
    # A later commit on a branch does not change the registered benchmark; a changed commit is refused.
    hub.commits["me/tiny"] = {"main": "f" * 40, "before": COMMIT}
    assert COMMIT in shuffleboard_json("models", "prefetch", "tiny", **options)["folder"]
    shutil.rmtree(tmp_path / "hub")
    hub.add("me/tiny", {"model.safetensors": whole_weights("other")})
    done = shuffleboard("models", "prefetch", "tiny", status=1, **options)
    assert "its weights have changed since tiny revision 1 was registered" in done.stderr
