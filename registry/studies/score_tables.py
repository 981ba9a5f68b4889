"""Rank models from a table of scores alone, with the functions that rank boards.

A long table has a row for each score, with a column of models, one of questions (or tasks) and one of scores. A wide
table has a row for each model and a column for each question, or the other way round, as the heading of its first
column shows.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from registry.errors import IngestError
from registry.statistics.bootstrap import MINIMUM_QUESTIONS, RANK_RESAMPLES, SEED, percentile_intervals, resample_means
from registry.statistics.competition_ranks import ranks
from registry.statistics.paired import paired
from registry.statistics.simultaneous import compare_all

if TYPE_CHECKING:
    import pandas as pd

MODELS: Final = ("model", "model_name", "model name", "system", "submission", "method")
QUESTIONS: Final = (
    *("question", "question_id", "task", "task_name", "dataset", "benchmark", "item", "instance", "instance_id"),
    *("doc_id", "sample_id", "id"),
)
SCORES: Final = ("score", "value", "accuracy", "acc", "correct", "main_score", "result", "metric_value")
"""Accepted headings of a table's columns, in any case; the first that the table has is used."""
DERIVED: Final = ("average", "avg", "mean", "overall", "rank", "total")
"""Headings of columns in a wide table that are computed from other columns."""
MISSING: Final = ("", "NA", "N/A", "NaN", "nan", "null", "-")
"""Cells in place of a score that was not measured."""
TRUTHS: Final = {"true": 1.0, "false": 0.0}
DELIMITERS: Final = ",;\t|"
AS_MANY: Final = "give each row as many cells as there are headings"
MAX_LINE: Final = 50_000_000
MAX_MODELS: Final = 2_000
MAX_SCORES: Final = 40_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """Scores of models on questions, and the parts of the table that were left out.

    scores: shape (questions, models), without a missing score. incomplete: number of left-out questions, which lack a
    model's score. fewest: the model with the fewest scores; None if none is missing. derived: headings of left-out
    columns, which are computed from others.
    """

    models: tuple[str, ...]
    questions: tuple[str, ...]
    scores: Floats
    incomplete: int = 0
    fewest: str | None = None
    derived: tuple[str, ...] = ()


def read_scores(path: Path) -> Scores:
    """Read a table of scores. Raises IngestError naming the file, the place, the value and the remedy."""
    headings, delimiter = _read_headings(path)
    folded = [heading.strip().casefold() for heading in headings]
    derived: tuple[str, ...] = ()
    model, question, score = (_find_heading(folded, names) for names in (MODELS, QUESTIONS, SCORES))
    if model is not None and question is not None and score is not None:
        table = _read_long(path, delimiter, headings[model], headings[question], headings[score])
    elif folded[0] in MODELS or folded[0] in QUESTIONS:
        table, derived = _read_wide(path, delimiter, headings)
        if folded[0] in MODELS:
            table = table.T
    else:
        _reject(
            path,
            f"its columns are {_join_headings(headings)}; name three of them model, question and score, or the "
            "first of a wide table model (or question)",
        )
    return _keep_complete(path, table, derived)


def _find_heading(folded: Sequence[str], names: Iterable[str]) -> int | None:
    return next((folded.index(name) for name in names if name in folded), None)


def _read_headings(path: Path) -> tuple[list[str], str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            line, first = stream.readline(MAX_LINE), stream.readline(MAX_LINE)
    except UnicodeDecodeError as error:
        _reject(path, f"byte {error.start + 1} is not UTF-8; save it as UTF-8")
    except OSError as error:
        _reject(path, f"cannot be read ({error.strerror}); give a CSV file")
    delimiter = max(DELIMITERS, key=line.count)
    headings = next(csv.reader([line], delimiter=delimiter), [])
    if len(headings) < 2:
        _reject(path, "its first line has no two columns; give a table with headings, such as model,question,score")
    if len(set(headings)) < len(headings):
        twice, _ = Counter(headings).most_common(1)[0]
        _reject(path, f"two columns are called {twice!r}; rename one of them")
    cells = next(csv.reader([first], delimiter=delimiter), headings)
    if len(cells) > len(headings):  # pandas would take the first of them for names of rows
        _reject(
            path, f"is not a table (line 2 has {len(cells)} cells); give each row as many cells as there are headings"
        )
    return headings, delimiter


def _read(path: Path, delimiter: str, **options: Any) -> "pd.DataFrame":
    import pandas as pd

    try:
        frame: pd.DataFrame = pd.read_csv(
            path, sep=delimiter, encoding="utf-8-sig", keep_default_na=False, skipinitialspace=True, **options
        )
    except UnicodeDecodeError as error:
        _reject(path, f"byte {error.start + 1} is not UTF-8; save it as UTF-8")
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        _reject(path, f"is not a table ({str(error).rstrip('.')}); {AS_MANY}")
    if not len(frame):
        _reject(path, "has headings but no row; add a row for each score")
    return frame


def _read_long(path: Path, delimiter: str, model: str, question: str, score: str) -> "pd.DataFrame":
    frame = _read(
        path,
        delimiter,
        dtype={model: "category", question: "category"},
        na_values={score: list(MISSING)},
        low_memory=False,
    )
    frame[score] = _parse_numbers(path, frame[score])
    codes = frame[model].cat.codes.to_numpy(np.int64) * len(frame[question].cat.categories)
    codes += frame[question].cat.codes.to_numpy(np.int64)
    _, first = np.unique(codes, return_index=True)
    if len(first) < len(frame):
        row = int(np.setdiff1d(np.arange(len(frame)), first, assume_unique=True)[0])
        _reject(
            path,
            f"line {row + 2}: model {frame[model].iloc[row]!r} has a second score for {frame[question].iloc[row]!r}; "
            "keep one row for each model and question",
        )
    for column in (model, question):  # in the order of the file
        order = frame[column].drop_duplicates().astype(str)
        frame[column] = frame[column].cat.reorder_categories(list(order))
    values = np.full((len(frame[question].cat.categories), len(frame[model].cat.categories)), np.nan)
    values[frame[question].cat.codes, frame[model].cat.codes] = frame[score]
    import pandas as pd

    return pd.DataFrame(values, index=frame[question].cat.categories, columns=frame[model].cat.categories)


def _read_wide(path: Path, delimiter: str, headings: Sequence[str]) -> tuple["pd.DataFrame", tuple[str, ...]]:
    derived = tuple(heading for heading in headings[1:] if heading.strip().casefold() in DERIVED)
    used = [heading for heading in headings if heading not in derived]
    frame = _read(
        path,
        delimiter,
        dtype={headings[0]: str},
        na_values={heading: list(MISSING) for heading in used[1:]},
        low_memory=False,
    ).set_index(headings[0])[used[1:]]
    twice = frame.index[frame.index.duplicated()]
    if len(twice):
        _reject(path, f"{headings[0]} {twice[0]!r} has two rows; keep one")
    for heading in frame.select_dtypes(exclude="number").columns:
        frame[heading] = _parse_numbers(path, frame[heading])
    return frame.astype(np.float64), derived


def _parse_numbers(path: Path, cells: "pd.Series[Any]") -> "pd.Series[float]":
    import pandas as pd

    numbers = pd.to_numeric(cells, errors="coerce").astype(np.float64)
    unread = numbers.isna() & cells.notna()
    if unread.any():
        numbers[unread] = cells[unread].astype(str).str.strip().str.casefold().map(TRUTHS)
        unread = numbers.isna() & cells.notna()
    unread |= np.isinf(numbers)
    if unread.any():
        row = int(np.flatnonzero(unread)[0])
        _reject(
            path,
            f"line {row + 2}, column {cells.name!r}: {str(cells.iloc[row])[:60]!r} is no score; give a number, leave "
            "the cell empty, or leave out the column",
        )
    return numbers


def _keep_complete(path: Path, table: "pd.DataFrame", derived: tuple[str, ...]) -> Scores:
    models, questions = tuple(map(str, table.columns)), tuple(map(str, table.index))
    if len(models) < 2:
        _reject(path, f"has scores of {len(models)} model; ranks need two or more")
    if len(models) > MAX_MODELS or table.size > MAX_SCORES:
        _reject(
            path,
            f"has {len(models):,} models and {table.size:,} scores; give at most {MAX_MODELS:,} models and "
            f"{MAX_SCORES:,} scores",
        )
    values = table.to_numpy(np.float64)
    if np.isinf(values).any():
        question, model = np.argwhere(np.isinf(values))[0].tolist()
        _reject(path, f"{models[model]!r} has an infinite score for {questions[question]!r}; give a number")
    lacking = np.isnan(values)
    has_all = ~lacking.any(axis=1)
    fewest = models[int(lacking.sum(axis=0).argmax())] if lacking.any() else None
    if not has_all.any():
        _reject(path, f"no question has a score of every model; leave out models with few scores, such as {fewest!r}")
    complete_questions = tuple(
        question for question, complete in zip(questions, has_all.tolist(), strict=True) if complete
    )
    return Scores(
        models, complete_questions, values[has_all], len(questions) - len(complete_questions), fewest, derived
    )


def _join_headings(headings: Sequence[str]) -> str:
    return ", ".join(headings[:8])[:200] + (", …" if len(headings) > 8 else "")


def _reject(path: Path, problem: str) -> NoReturn:
    raise IngestError(f"{path.name}: {problem}")


def rank_scores(scores: Scores) -> dict[str, Any]:
    """Rank the models of a table, as a board with one task ranks them; higher scores are better.

    models: from the best to the worst, each with `mean`, `interval` (95 %; None if none can be given), `rank`,
    `rank_interval` (95 % for all models at once), `tier` (models not distinguished from the best one in it) and
    `tied_with` (models that it cannot be distinguished from). pairs: `total`, and how many can be `distinguished`.
    """
    values, number = scores.scores, len(scores.questions)
    means = [float(mean) for mean in values.mean(axis=0)]
    samples = np.asfortranarray(resample_means(values, resamples=RANK_RESAMPLES, seed=SEED))
    zero_or_one = bool(((values == 0.0) | (values == 1.0)).all())
    pairs = paired([[values]], zero_or_one=zero_or_one)
    compared = compare_all(means, samples, "higher", number, pairs)
    distinguished = compared.told_apart
    rows = [
        {
            "model": model,
            "mean": mean,
            "interval": None if interval is None else [interval.low, interval.high],
            "rank": rank,
            "rank_interval": list(rank_interval),
            "tier": None if tier is None else tier.number,
            "tied_with": [scores.models[rival] for rival in np.flatnonzero(~distinguished[place]) if rival != place],
        }
        for place, (model, mean, interval, rank, rank_interval, tier) in enumerate(
            zip(
                scores.models,
                means,
                percentile_intervals(samples.T, [number] * len(means)),
                ranks(means, "higher"),
                compared.rank_intervals(),
                compared.tiers(means, "higher"),
                strict=True,
            )
        )
    ]
    models = len(scores.models)
    return {
        "questions": number,
        "models": sorted(rows, key=lambda row: (row["rank"], row["model"])),
        "pairs": {"total": models * (models - 1) // 2, "distinguished": int(distinguished.sum()) // 2},
    }


def remarks_on(scores: Scores) -> list[str]:
    """Return remarks for the user about left-out columns and questions, and about too few questions."""
    remarks = []
    if scores.derived:
        remarks.append(f"left out {', '.join(scores.derived)}: columns that follow from others")
    if scores.incomplete:
        remarks.append(
            f"left out {scores.incomplete:,} of {scores.incomplete + len(scores.questions):,} questions that lack a "
            f"score; {scores.fewest} lacks most"
        )
    if len(scores.questions) < MINIMUM_QUESTIONS:
        remarks.append(
            f"{len(scores.questions)} questions are too few for intervals, so no pair can be distinguished; give the "
            f"scores of {MINIMUM_QUESTIONS} or more"
        )
    return remarks
