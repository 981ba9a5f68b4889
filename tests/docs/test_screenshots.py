"""The documentation's pictures, which docs/screenshots.py makes, and which must be small."""

import re
import struct
import zlib

import numpy as np

from docs import screenshots
from tests.docs.pages import DOCS, pages, read

TAKEN = {f"{name}{ending}.png": size for name in screenshots.PICTURES for ending, size in screenshots.SIZES.items()}


def size(content):
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", content[16:24])


def test_every_picture_is_one_that_is_taken_and_none_is_large():
    pictures = {path.name: path.read_bytes() for path in (DOCS / "images").iterdir()}
    assert pictures.keys() == {*TAKEN, *screenshots.OF_OTHER_PROGRAMS}
    for name, (width, height, scale) in TAKEN.items():
        assert size(pictures[name]) == (width * scale, height * scale), name
    assert {name for name, content in pictures.items() if len(content) > screenshots.MOST_BYTES} == set()


def test_every_picture_of_a_page_has_a_description_in_words():
    shown = [match for page in pages() for match in re.findall(r"!\[([^\]]*)\]\([^)]*images/([^)]+)\)", read(page))]
    assert len(shown) > 4
    assert all(len(words) > 30 for words, _ in shown)


def test_a_picture_of_few_colours_keeps_each_of_them():
    picture = np.array([[[255, 255, 255], [217, 105, 30]], [[29, 79, 145], [255, 255, 255]]], np.uint8)
    content = screenshots.png(picture)
    assert size(content) == (2, 2)
    palette = np.frombuffer(content[content.index(b"PLTE") + 4 :][:9], np.uint8).reshape(3, 3)
    start = content.index(b"IDAT") + 4
    length = struct.unpack(">I", content[start - 8 : start - 4])[0]
    lines = np.frombuffer(zlib.decompress(content[start : start + length]), np.uint8).reshape(2, 3)
    assert (lines[:, 0] == 0).all()
    assert (palette[lines[:, 1:]] == picture).all()
