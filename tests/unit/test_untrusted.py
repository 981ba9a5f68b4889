"""JSON of strangers: which texts are checked after parsing, and how fast the others are passed over."""

import json
import random
import re
import time

import pytest

from registry.untrusted import decode

CHECKED = re.compile("[0-9]{19}|\\\\u(?:0000|[dD][89a-fA-F])|[\x00\ud800-\udfff]")
"""Texts that may have a number beyond 64 bits or a character that no database stores."""
PARTS = ("1", "9" * 18, "9" * 19, "a", "\\u0000", "\\ud800", "\\uDF00", "\\u9009", "é", "\ud800", ".", " ")


def test_every_number_and_character_that_no_database_stores_is_found() -> None:
    draw = random.Random(1)
    for _ in range(2_000):
        text = "".join(draw.choice(PARTS) for _ in range(draw.randrange(6)))
        if CHECKED.search(text) is None:
            assert decode(json.dumps(text)) == text


@pytest.mark.parametrize("text", ['["\\u0000"]', '["\\ud800"]', "[99999999999999999999]"])
def test_a_value_that_no_database_stores_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"NUL|surrogate|64|digits|character"):
        decode(text)


def test_escapes_of_another_script_are_passed_over_at_once() -> None:
    document = json.dumps("选" * 1_000_000)
    began = time.process_time()
    assert len(decode(document)) == 1_000_000
    assert time.process_time() - began < 0.6
