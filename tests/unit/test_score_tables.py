"""Tables of scores for `shuffleboard ranks`: valid ones and refused ones."""

from pathlib import Path

import numpy as np
import pytest

from registry.errors import IngestError
from registry.studies.score_tables import Scores, rank_scores, read_scores, remarks_on
from tests.support.commands import shuffleboard, shuffleboard_json

LONG = """\
model,question,score
None,q1,1
None,q2,0.5
NA,q1,0
NA,q2,
"""
EXPECTED = Scores(("None", "NA"), ("q1",), np.array([[1.0, 0.0]]), incomplete=1, fewest="NA")


def table(folder: Path, text: str) -> Path:
    path = folder / "scores.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        LONG.replace(",", ";"),
        LONG.replace(",", "\t"),
        "\ufeff" + LONG.replace("question", "Task").replace("score", "accuracy"),
        "Model,q1,q2\nNone,true,0.5\nNA,False,NaN\n",
        "question,None,NA\nq1,1,0\nq2,0.5,-\n",
        "model,q1,Average,q2\nNone,1,0.75,0.5\nNA,0,0,\n",
        "score,other,question,model\n1,x,q1,None\n.5,x,q2,None\n0,x,q1,NA\n",
    ],
)
def test_long_and_wide_tables_hold_the_same_scores(tmp_path: Path, text: str) -> None:
    scores = read_scores(table(tmp_path, text))
    assert (scores.models, scores.questions, scores.incomplete, scores.fewest) == (
        EXPECTED.models,
        EXPECTED.questions,
        EXPECTED.incomplete,
        EXPECTED.fewest,
    )
    assert scores.scores.tolist() == EXPECTED.scores.tolist()
    assert ("Average" in text) == (scores.derived == ("Average",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "its first line has no two columns"),
        ("model\na\n", "its first line has no two columns"),
        ("a,b\n1,2\n", "its columns are a, b; name three of them model, question and score"),
        ("model,question,score\n", "has headings but no row"),
        ("model,question,score\na,q1,good\n", "line 2, column 'score': 'good' is no score; give a number"),
        ("model,question,score\na,q1,1\nb,q1,inf\n", "line 3, column 'score': 'inf' is no score"),
        ("model,question,score\na,q1,1\na,q1,0\n", "line 3: model 'a' has a second score for 'q1'"),
        ("model,question,score\na,q1,1\na,q2,0\n", "has scores of 1 model; ranks need two or more"),
        ("model,question,score\na,q1,1\nb,q2,0\n", "no question has a score of every model"),
        ("model,licence,q1\na,MIT,1\nb,MIT,0\n", "line 2, column 'licence': 'MIT' is no score"),
        ("model,q1\na,1\nb,inf\n", "'b' has an infinite score for 'q1'; give a number"),
        ("model,q1\na,1\na,0\n", "model 'a' has two rows; keep one"),
        ("model,q1,q1\na,1,1\nb,0,1\n", "two columns are called 'q1'"),
        ("model,q1\na,1,2,3\nb,1\n", "is not a table (line 2 has 4 cells)"),
        ("model,q1\na,1\nb,1,2,3\n", "is not a table"),
    ],
)
def test_a_table_without_scores_is_refused_with_place_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(IngestError) as error:
        read_scores(table(tmp_path, text))
    assert str(error.value).startswith(f"scores.csv: {message}")


def test_a_file_that_is_no_text_or_no_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(b"model,question,score\n\xff,q,1\n")
    for file in (path, tmp_path / "none.csv", tmp_path):
        assert file.name in shuffleboard("ranks", file, status=1).stderr


def test_ranks_have_intervals_ties_and_pairs_that_are_distinguished() -> None:
    draw = np.random.default_rng(0)
    values = (draw.random((400, 3)) < (0.9, 0.5, 0.5)).astype(float)
    ranking = rank_scores(Scores(("high", "low", "also low"), tuple(map(str, range(400))), values))
    assert ranking["models"][0]["model"] == "high"
    assert [row["rank_interval"] for row in ranking["models"]] == [[1, 1], [2, 3], [2, 3]]
    assert [row["tier"] for row in ranking["models"]] == [1, 2, 2]
    assert [len(row["tied_with"]) for row in ranking["models"]] == [0, 1, 1]
    assert ranking["pairs"] == {"total": 3, "distinguished": 2}
    for row in ranking["models"]:
        assert row["interval"][0] < row["mean"] < row["interval"][1]


def test_equal_means_share_a_rank_and_few_questions_are_remarked() -> None:
    scores = Scores(("b", "a"), ("q1", "q2"), np.array([[1.0, 0.0], [0.0, 1.0]]))
    ranking = rank_scores(scores)
    assert [(row["model"], row["rank"], row["interval"]) for row in ranking["models"]] == [
        ("a", 1, None),
        ("b", 1, None),
    ]
    assert [row["rank_interval"] for row in ranking["models"]] == [[1, 2], [1, 2]]
    assert remarks_on(scores) == [
        "2 questions are too few for intervals, so no pair can be distinguished; give the scores of 30 or more"
    ]


def test_the_command_prints_a_table_and_one_document(tmp_path: Path) -> None:
    rows = "".join(f"m{m},q{q},{int(q % 10 < 9 - 4 * m)}\n" for m in range(2) for q in range(100))
    path = table(tmp_path, f"model,question,score\n{rows}")
    home = tmp_path / "home"
    document = shuffleboard_json("ranks", path, home=home)
    assert [(row["model"], row["rank_interval"]) for row in document["models"]] == [("m0", [1, 1]), ("m1", [2, 2])]
    printed = shuffleboard("ranks", path, home=home).stdout
    assert "1 of 1 pairs can be distinguished, on 100 questions." in printed
    assert "1 to 1" in printed
    assert not home.exists()
