"""`shuffleboard benchmarks fetch` and `shuffleboard suites fetch`."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.benchmarks.recipes import Recipe
from registry.db import MAX_INTEGER, pick, read_session, write_session
from registry.errors import IngestError, NotFoundError, ShuffleboardError, UsageError
from registry.names import plural
from registry.operations.opening import engine_of
from registry.prompting.labels import letter
from registry.proposals import propose
from registry.tables import Benchmark, BenchmarkVersion
from shuffleboard.cli.common import json_option, note, print_document, settings_of, tell
from shuffleboard.cli.groups import Where
from shuffleboard.cli.tables import common_beginning, parse_headings, print_table, read_layout, wide_option

NONSENSE: Final = "nonsenseqa"

_folder = click.Path(path_type=Path, file_okay=False)


@click.command("fetch")
@click.argument("name", metavar="NAME|FILE.toml", required=False)
@click.option("--revision", default=None, help="Branch, tag or commit of the dataset, instead of the recipe's.")
@click.option("--as", "as_name", default=None, help="Name in the registry.  [default: the recipe's]")
@click.option(
    "--to", "--out", "to_folder", cls=Where, type=_folder, default=None, help="Only download into this folder."
)
@click.option(
    "--from", "from_folder", type=_folder, default=None, help="Read files that --to has written, without the hub."
)
@click.option("--repo", default=None, metavar="OWNER/NAME", help="A dataset without a recipe; see --columns.")
@click.option("--files", default=None, metavar="PATTERN", help="Files of --repo, such as 'data/test-*.parquet'.")
@click.option("--columns", multiple=True, metavar="KEY=TEXT", help="A part of a question, such as question={Question}.")
@click.option(
    "--shuffle-options",
    type=click.IntRange(0, MAX_INTEGER),
    default=None,
    metavar="SEED",
    help="With --repo: put each question's options into a drawn order.  [default: 0 with answer.first, else none]",
)
@click.option("--language", default=None, help="With --repo: language of the questions (ISO 639).  [default: en]")
@click.option("--licence", default=None, help="With --repo: licence of the questions, such as MIT.")
@click.option("--store", is_flag=True, help="Store the benchmark of --repo; without it, you see three questions.")
@wide_option
@json_option
def fetch_command(
    name: str | None,
    revision: str | None,
    as_name: str | None,
    to_folder: Path | None,
    from_folder: Path | None,
    repo: str | None,
    files: str | None,
    columns: tuple[str, ...],
    shuffle_options: int | None,
    language: str | None,
    licence: str | None,
    store: bool,
) -> None:
    """Fetch a benchmark from the hub by its name; `benchmarks list --available` shows all names.

    \b
    HF_ENDPOINT names the hub; HF_TOKEN opens gated datasets.
      shuffleboard benchmarks list --available
      shuffleboard benchmarks fetch mmlu
      shuffleboard benchmarks fetch ./mine.toml --revision main
    \b
    On a machine without a connection:
      shuffleboard benchmarks fetch mmlu --to /media/stick      (with a connection)
      shuffleboard benchmarks fetch mmlu --from /media/stick    (without)
    \b
    A dataset that has no recipe; --store keeps it:
      shuffleboard benchmarks fetch --repo owner/exam --files 'data/test-*.parquet'
        --columns 'id=exam-{row}' --columns 'question={text}' --columns options=choices
        --columns answer.letter=key --as exam
    """  # noqa: D301
    if name == "list":
        list_available(None, language, licence)
        return
    if (name is None) == (repo is None):
        raise UsageError(
            f"give the name of a benchmark (`{propose('benchmarks list', '--available')}` shows all), or --repo"
        )
    own = {"shuffle_seed": shuffle_options, "language": language, "licence": licence}
    set_options = {key: value for key, value in own.items() if value is not None}
    if repo is None and set_options:
        option = {"shuffle_seed": "--shuffle-options"}.get(next(iter(set_options)), f"--{next(iter(set_options))}")
        raise UsageError(f"{option} is for --repo; {name} has a recipe, which says it")
    recipe = (
        _recipe_of(repo, files, columns, as_name, set_options) if repo is not None else _find_recipe(str(name), as_name)
    )
    if repo is not None and not store:
        _preview(recipe, revision)
        return
    if to_folder is not None:
        from registry.benchmarks.recipes import fetch_to

        folder = fetch_to(recipe, to_folder, revision=revision)
        tell({"benchmark": recipe.name, "folder": str(folder)}, f"{recipe.name}: downloaded into {folder}")
        return
    document = fetch_and_store(recipe, revision=revision, folder=from_folder)
    state = "fetched" if document["fetched"] else "already here"
    counts = f"{plural(document['questions'], 'question')}, {plural(document['few_shot_examples'], 'few-shot example')}"
    tell(document, f"{document['benchmark']}@{document['version']} {state}: {counts}")


def fetch_and_store(recipe: Recipe, *, revision: str | None = None, folder: Path | None = None) -> dict[str, Any]:
    """Fetch and store a benchmark; return its document. Remarks are printed on stderr."""
    from registry.benchmarks.recipes import fetch
    from registry.benchmarks.store import import_benchmark

    engine = engine_of(settings_of())
    fetched = fetch(recipe, revision=revision, folder=folder)
    for remark in fetched.remarks:
        note(f"{recipe.name}: {remark}")
    with write_session(engine) as session:
        _require_unchanged(session, fetched.source, fetched.content.content_digest, recipe)
        row, new = import_benchmark(
            session,
            fetched.content,
            name=recipe.name,
            language=recipe.language,
            licence=recipe.licence,
            source=fetched.source,
            visibility=None if _is_known(session, recipe.name) else recipe.visibility,
        )
        return {
            "benchmark": recipe.name,
            "version": row.version,
            "questions": row.questions,
            "few_shot_examples": row.few_shot_examples,
            "digest": row.content_digest,
            "source": fetched.source,
            "fetched": new,
        }


def _require_unchanged(session: Session, source: str, digest: str, recipe: Recipe) -> None:
    """Raise an error if content differs from earlier content of the same commit, since a commit never changes."""
    before = session.scalar(
        select(BenchmarkVersion.content_digest)
        .join(Benchmark)
        .where(Benchmark.name == recipe.name, BenchmarkVersion.source == source)
        .order_by(BenchmarkVersion.id.desc())
    )
    if before not in (None, digest):
        raise IngestError(
            f"{recipe.name}: {source} gave content {str(before)[:12]}… before and {digest[:12]}… now, though a commit "
            "never changes; nothing was stored: find out which one the hub has, and store the other under --as"
        )


def _is_known(session: Session, name: str) -> bool:
    return session.scalar(select(func.count()).where(Benchmark.name == name)) != 0


def _find_recipe(name: str, as_name: str | None) -> Recipe:
    from registry.benchmarks.recipes import recipe_named
    from registry.names import check_name

    recipe = recipe_named(name)
    return recipe if as_name is None else recipe.model_copy(update={"name": check_name("benchmark", as_name)})


def _recipe_of(
    repo: str, files: str | None, columns: Iterable[str], as_name: str | None, given: Mapping[str, Any]
) -> Recipe:
    """Return a recipe from options, checked like a recipe file."""
    from registry.benchmarks.recipes.recipe import parse_recipe

    if files is None:
        raise UsageError("--repo: say which files hold the questions, such as --files 'data/test-*.parquet'")
    mapping: dict[str, Any] = {}
    seed = None
    for column in columns:
        key, equals, text = column.partition("=")
        if not equals:
            raise UsageError(f"--columns {column[:80]!r}: write KEY=TEXT, such as question={{Question}}")
        if key.startswith("answer."):
            answer = mapping.setdefault("answer", {})
            answer[key.removeprefix("answer.")] = text
        elif key == "shuffle_seed":
            seed = text
        elif key == "options" and "{" in text:
            mapping.setdefault("options", []).append(text)
        else:
            mapping[key] = text
    document = {
        "name": as_name or repo.rpartition("/")[2].lower(),
        "title": repo,
        "repository": repo,
        "citation": f"https://huggingface.co/datasets/{repo}",
        "questions": {"files": files, "split": "test"},
        "columns": mapping,
        **({} if seed is None else {"shuffle_seed": seed}),
        **given,
    }
    return parse_recipe("--columns", document)


def _preview(recipe: Recipe, revision: str | None) -> None:
    from registry.benchmarks.recipes import fetch, sample_rows

    fetched = fetch(recipe, revision=revision)
    rows = sample_rows(fetched.content)
    for remark in fetched.remarks:
        note(f"{recipe.name}: {remark}")
    places = Counter(question.answer for question in fetched.content.questions)
    counts = [places[place] for place in range(max(places) + 1)]
    document: dict[str, Any] = {
        "benchmark": recipe.name,
        "stored": False,
        "questions": len(fetched.content.questions),
        "right_at": counts,
        "preview": rows,
    }
    if print_document(document):
        return
    for row in rows:
        click.echo(f"{row['id']}  {row['subject'] or ''}".rstrip())
        click.echo(f"  {row['question']}")
        for index, option in enumerate(row["options"]):
            click.echo(f"  {'*' if index == row['answer'] else ' '} {option}")
    listed = ", ".join(f"{letter(place)} {count}" for place, count in enumerate(counts))
    click.echo(f"{len(fetched.content.questions)} questions; right options by place: {listed}")
    note("All were checked, and nothing was stored. Is * the right option? Then the same with --store.")


FOLDED: Final = 4
"""Recipes of one file are listed on one line if there are at least this many."""


def list_available(word: str | None, language: str | None, licence: str | None) -> None:
    """List the benchmarks that can be fetched by name, filtered by a word in name or title, language and licence.

    Similar ones share a line of the table, unless a word or a language is given.
    """
    from registry.benchmarks.recipes import load_shipped_recipes

    fitting = [recipe for recipe in load_shipped_recipes().values() if _fits(recipe, word, language, licence)]
    if not fitting:
        filters = {"word": word, "--language": language, "--licence": licence}
        conditions = ", ".join(f"{name} {value!r}" for name, value in filters.items() if value is not None)
        raise NotFoundError(f"no benchmark that can be fetched has {conditions}; leave it out to see all")
    with read_session(engine_of(settings_of())) as session:
        stored = set(session.scalars(select(Benchmark.name)))
    if print_document({"benchmarks": [_describe(recipe, stored) for recipe in fitting]}):
        return
    families: dict[str, list[Recipe]] = {}
    for recipe in fitting:
        families.setdefault(recipe.family or recipe.name, []).append(recipe)
    rows = []
    folded = False
    for members in families.values():
        if len(members) < FOLDED or word is not None or language is not None or read_layout().wide:
            rows += [_describe(recipe, stored) | {"here": "yes" if recipe.name in stored else ""} for recipe in members]
        else:
            folded = True
            rows.append(_family(members, stored))
    headings = parse_headings("name, questions, language, licence, here, title")
    print_table(rows, headings, "", drop=("title",))
    if folded:
        note("A line with … is several: name a WORD of it, such as belebele, or a --language.")


def _fits(recipe: Recipe, word: str | None, language: str | None, licence: str | None) -> bool:
    texts = f"{recipe.name} {recipe.title} {recipe.repository} {recipe.citation}".casefold()
    return (
        (word is None or word.casefold() in texts)
        and (language is None or language.casefold() in {*_languages(recipe.language)})
        and (licence is None or licence.casefold() in (recipe.licence or "").casefold())
    )


def _languages(tag: str) -> tuple[str, ...]:
    """Return the tags by which a language can be found: its own, the part before the script, and equal codes."""
    first = tag.casefold().partition("-")[0]
    return (tag.casefold(), first, *(code for pair in _SAME if first in pair for code in pair))


_SAME: Final = re.findall(
    r"(\w+)=(\w+)",
    "am=amh ar=arb bg=bul bn=ben cs=ces da=dan de=deu el=ell en=eng es=spa et=est fa=pes fi=fin fr=fra he=heb hi=hin "
    "hr=hrv hu=hun id=ind it=ita ja=jpn ko=kor lt=lit lv=lvs nl=nld no=nob pl=pol pt=por ro=ron ru=rus sk=slk sl=slv "
    "sr=srp sv=swe sw=swh ta=tam te=tel th=tha tr=tur uk=ukr ur=urd vi=vie zh=zho",
)
"""Codes of ISO 639-1 with the codes of ISO 639-3 that datasets use for the same language."""


def _describe(recipe: Recipe, here: Collection[str]) -> dict[str, Any]:
    return {
        **pick(recipe, ("name", "title", "family", "language")),
        "questions": recipe.questions.count,
        **pick(recipe, ("licence", "gated", "repository", "revision", "citation")),
        "here": recipe.name in here,
    }


def _family(members: Sequence[Recipe], here: Collection[str]) -> dict[str, Any]:
    """Return one line for similar recipes: their common beginning, and the range of their differences."""
    counts = sorted({recipe.questions.count for recipe in members if recipe.questions.count is not None})
    languages = {recipe.language for recipe in members}
    licences = sorted({recipe.licence or "?" for recipe in members})
    stored = sum(recipe.name in here for recipe in members)
    return {
        "name": f"{common_beginning([recipe.name for recipe in members])}… ({len(members)})",
        "questions": "–".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else None,
        "language": f"{len(languages)} languages" if len(languages) > 1 else next(iter(languages)),
        "licence": ", ".join(licences) if len(licences) <= 2 else f"{len(licences)} licences",
        "here": str(stored or ""),
        "title": common_beginning([recipe.title for recipe in members]).rstrip(" ,:-"),
    }


@click.command("fetch")
@click.argument("name")
@click.option(
    "--from", "from_folder", type=_folder, default=None, help="Read files that --to has written, without the hub."
)
@click.option(
    "--to", "--out", "to_folder", cls=Where, type=_folder, default=None, help="Only download into this folder."
)
@click.option("--revision", default=None, help="Branch or tag of every dataset, such as main, instead of the recipes'.")
@json_option
def fetch_suite_command(name: str, from_folder: Path | None, to_folder: Path | None, revision: str | None) -> None:
    """Fetch the benchmarks of a suite that are not here yet, and make a board if the suite has none.

    \b
      shuffleboard suites fetch goliakova-17
      shuffleboard evaluations submit --suite goliakova-17 --model owner/model --wait
      shuffleboard leaderboard --board goliakova-17
    """  # noqa: D301
    from registry.benchmarks.recipes import fetch_to, load_shipped_recipes
    from registry.boards.store import board_of_suite, suite_definition
    from registry.lookups import find_suite

    with read_session(engine_of(settings_of())) as session:
        wanted = suite_definition(find_suite(session, name)).benchmarks
        stored = set(session.scalars(select(Benchmark.name)))
    recipes = load_shipped_recipes()
    lacking = [benchmark for benchmark in wanted if benchmark not in {*stored, *recipes, NONSENSE}]
    rows: list[dict[str, Any]] = []
    for benchmark in wanted:
        if benchmark in stored or benchmark in lacking:
            rows.append({"benchmark": benchmark, "fetched": False})
        elif to_folder is not None and benchmark in recipes:
            rows.append(
                {"benchmark": benchmark, "folder": str(fetch_to(recipes[benchmark], to_folder, revision=revision))}
            )
        elif benchmark in recipes:
            rows.append(fetch_and_store(recipes[benchmark], revision=revision, folder=from_folder))
        elif to_folder is None:
            rows.append(_generate())
        if rows[-1].get("fetched") or "folder" in rows[-1]:
            note(f"{benchmark}: {'downloaded' if 'folder' in rows[-1] else 'fetched'}")
    if lacking:
        raise NotFoundError(f"suite {name}: no recipe for {', '.join(lacking)}; import them. The others are here")
    if to_folder is not None:
        tell({"suite": name, "benchmarks": rows}, f"{name}: downloaded into {to_folder}")
        return
    board_name = None
    try:
        with write_session(engine_of(settings_of())) as session:
            board = board_of_suite(session, find_suite(session, name))
            board_name = None if board is None else board.name
    except ShuffleboardError as error:  # fetched content is kept: other revisions may lack the suite's questions
        note(f"{name}: no board was made: {error}")
    document = {"suite": name, "benchmarks": rows, "board": board_name}
    tell(
        document,
        f"{name}: all {len(wanted)} benchmarks are here" + (f"; board {board_name} made" if board_name else ""),
    )


def _generate() -> dict[str, Any]:
    """Generate NonsenseQA, which needs no hub."""
    from registry.benchmarks.nonsenseqa import generate_nonsenseqa, nonsenseqa_source
    from registry.benchmarks.store import import_benchmark

    with write_session(engine_of(settings_of())) as session:
        row, new = import_benchmark(
            session, generate_nonsenseqa(1000, 0), name=NONSENSE, licence="MIT", source=nonsenseqa_source(0)
        )
        return {"benchmark": NONSENSE, "version": row.version, "questions": row.questions, "fetched": new}
