"""Chapter 7: the views agree with the definitions on random tables.

Every value per question and over every scope is compared within 1e-9, open and sealed, and question_score with the view
that it copies. Several evaluations share a database, so that none may read another's rows.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.random_tables import SPEC, cases, sample_tables
from tests.spec.tables import Case, disagreements


@SPEC
@given(tables=st.lists(cases(), min_size=1, max_size=3))
def test_python_sqlite_and_postgresql_agree_on_any_table(engines, tables: list[list[Case]]):
    assert engines.disagreements(tables) == []


@pytest.mark.long
@settings(SPEC, max_examples=100)
@given(tables=st.lists(cases(), min_size=1, max_size=3))
def test_they_agree_on_many_more_tables(engines, tables: list[list[Case]]):
    assert engines.disagreements(tables) == []


@settings(SPEC, max_examples=5)  # sealing writes much, and checks much by itself
@given(tables=st.lists(cases(complete=True), min_size=1, max_size=2))
def test_they_agree_after_sealing_too(engines, tables: list[list[Case]]):
    assert engines.disagreements(tables) == []


def test_the_order_in_which_questions_are_stored_is_irrelevant(engines):
    tables = sample_tables(4, first_seed=1)
    for forwards, backwards in zip(engines.answers(tables), engines.answers([t[::-1] for t in tables]), strict=True):
        for one, other in zip(forwards, backwards, strict=True):
            assert disagreements(one, other) == []
