"""The patterns of `final-answer`, read from `final_answer.toml`, and texts without their formatting."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import unescape
from importlib.resources import files
from typing import Any, Final

from registry.files.toml import parse_toml, read_definition

MAX_READ: Final = 100_000
"""Only this many characters at the end of an answer are read. No model states its answer farther from the end."""
AROUND: Final = " \t\n✅✔☑✓\"'()[]{}<>«»「」『』【】《》:;.,!。、،।۔"
_ZEROS: Final = "٠۰०০੦૦୦௦౦೦൦๐໐༠၀០"
_DIGITS: Final = {chr(ord(zero) + digit): str(digit) for zero in _ZEROS for digit in range(10)}
_SIGNS: Final = str.maketrans(dict.fromkeys("“”„‟", '"') | dict.fromkeys("‘’‚′", "'") | {"−": "-"} | _DIGITS)


@cache
def load_file() -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return the content of the file of patterns, and its parts with all names replaced by their patterns."""
    data = parse_toml(read_definition(files(__package__) / "final_answer.toml"), "final_answer.toml")
    lists = {name: texts for name, texts in data.items() if name not in ("cleaning", "parts", "patterns", "languages")}
    parts = {name: "|".join(map(re.escape, sorted(texts, key=len, reverse=True))) for name, texts in lists.items()}
    for name, text in data["parts"].items():
        parts[name] = _fill(text, parts)
    return data, parts


def _fill(text: str, parts: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)


@cache
def find_pattern(name: str) -> re.Pattern[str]:
    """Return the compiled pattern with this name in the file."""
    data, parts = load_file()
    return re.compile(_fill(data["patterns"][name], parts), re.IGNORECASE if name not in _CASED else 0)


_CASED: Final = frozenset({"part_of_word", "unknown", "goes_on", "stated_of"})


@cache
def _load_cleaning() -> list[tuple[re.Pattern[str], str]]:
    data, parts = load_file()
    return [(re.compile(_fill(find, parts), re.IGNORECASE | re.MULTILINE), put) for find, put in data["cleaning"]]


@dataclass(frozen=True)
class Language:
    """The lead-ins of one language.

    explicit: `Answer:`. said: "the answer is". header: a line that only announces the answer. right: the words after X
    in "X is the correct answer". before: words that may precede that X. unsure: words before a lead-in that take it
    back. An answer without any of the language's stems has none of these lead-ins.
    """

    explicit: re.Pattern[str]
    said: re.Pattern[str]
    header: re.Pattern[str]
    right: re.Pattern[str]
    before: re.Pattern[str]
    unsure: re.Pattern[str]


@cache
def _list_stems() -> list[tuple[str, ...]]:
    """Return the stems of each language in the file."""
    stems = [entry["stems"] for entry in load_file()[0]["languages"]]
    return [tuple(unicodedata.normalize("NFKC", stem).casefold() for stem in words) for words in stems]


def find_languages(text: str) -> tuple[Language, ...]:
    """Return the languages with a stem in the text."""
    folded = text.casefold()
    numbers = (number for number, stems in enumerate(_list_stems()) if any(stem in folded for stem in stems))
    return tuple(map(_load_language, numbers))


@cache
def _load_language(number: int) -> Language:
    """Return the lead-ins of a language, by its number in the file: compiling those of all takes a second."""
    data, parts = load_file()
    entry = data["languages"][number]
    answer, never = entry["answer"], "(?!)"
    announcement = entry.get("said", f"(?:{answer})(?:{entry.get('is', never)}) ?:?")
    pick = f"|(?:{entry['pick']})(?: is)? ?:?" if "pick" in entry else ""

    def compile_pattern(text: str) -> re.Pattern[str]:
        return re.compile(unicodedata.normalize("NFKC", _fill(text, parts)), re.IGNORECASE)

    return Language(
        compile_pattern(rf"{{{{begin}}}}[\[【]?(?:{answer})(?:{{{{colon}}}}|[\]】] ?:?)"),
        compile_pattern(rf"{{{{begin}}}}(?:{announcement}{pick})"),
        compile_pattern(rf"[^\w\"'{{]*(?:{answer})[^\w\"'=]*"),
        compile_pattern(entry.get("right", never)),
        compile_pattern(entry.get("before", "")),
        compile_pattern(entry.get("unsure", never)),
    )


def plain(text: str) -> str:
    r"""Return the text without emphasis, mark-up and LaTeX around words, with compatibility characters replaced.

    Of a long text, only the last MAX_READ characters are returned. Full-width A becomes A, and digits of other scripts
    become those from 0 to 9. Lines are kept, runs of blanks become one blank, and `\boxed` is kept.
    """
    text = re.sub(r"\r\n?|<br ?/?>", "\n", text[-MAX_READ:])
    text = unicodedata.normalize("NFKC", unescape(text))[-MAX_READ:]
    text = _one_blank(find_pattern("invisible").sub("", text).translate(_SIGNS))
    for pattern, put in _load_cleaning():
        text = pattern.sub(put, text)
    return _one_blank(text)


def _one_blank(text: str) -> str:
    text = re.sub(r"[^\S\n]+", " ", text)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" ?\n ?", "\n", text))


def normalize(text: str) -> str:
    """Return a text in the form for comparisons: blanks joined, surrounding marks removed."""
    return " ".join(text.split()).strip(AROUND)
