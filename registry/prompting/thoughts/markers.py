"""The markers that models write around their thoughts and answers, read from files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from registry.digests import specification_digest
from registry.errors import IngestError
from registry.files.toml import parse_toml, read_definition, read_toml
from registry.settings import get_settings
from registry.untrusted import problem_of_text

KEYS: Final = ("begin", "end", "answer_begin", "answer_end", "header_end")
MAX_FAMILIES: Final = 100
MAX_MARKER: Final = 100
"""Maximum length of a marker, in characters."""

_SPECIAL: Final = re.compile(r"<\|[^|]*\|>")
_TAG: Final = re.compile(r"\s*[<＜⟨〈◁《]([^\W\d][\w:.|-]{1,40})[>＞⟩〉▷》]")

Role = Literal["begin", "end", "answer_begin", "answer_end"]


@dataclass(frozen=True)
class Family:
    """Markers that belong together. Each key has any number of equivalent texts."""

    begin: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    answer_begin: tuple[str, ...] = ()
    answer_end: tuple[str, ...] = ()
    header_end: tuple[str, ...] = ()

    @property
    def thinks(self) -> bool:
        """Return whether the family marks thoughts; otherwise it marks answers, after a thought of any family."""
        return bool(self.begin)

    def document(self) -> dict[str, list[str]]:
        """Return the keys that have texts, for digests and definitions."""
        return {key: list(texts) for key in KEYS if (texts := getattr(self, key))}


class Mark(NamedTuple):
    """A marker at [start, end) of a text, including its header. family: an index of `Markers.families`."""

    start: int
    end: int
    role: Role
    family: int


@dataclass(frozen=True)
class Markers:
    """All families of markers, the texts that end a turn, and how to recognise unlisted markers.

    families: in the order of their files. thinking_words: a text in brackets with one of these words looks like a
    marker. plain_tokens, plain_tags: special tokens, and tags at the beginning of a text, that do not look like one.
    """

    families: tuple[Family, ...]
    turn_ends: tuple[str, ...] = ()
    thinking_words: tuple[str, ...] = ()
    plain_tokens: tuple[str, ...] = ()
    plain_tags: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return a digest of the markers, since other markers may lead to another reading."""
        document = {"markers": [family.document() for family in self.families], "turn_ends": list(self.turn_ends)}
        return specification_digest(document)

    def find(self, text: str) -> Iterator[Mark]:
        """Yield the markers in a text in the order of their start, in time proportional to the text's length."""
        if not self._may_contain_markers(text):
            return
        for match in self._pattern.finditer(text):
            written = match[0]
            if match.lastgroup:
                family, role = self._channels[match[match.lastgroup]]
                yield Mark(match.end() - len(written.lstrip()), match.end(), role, family)
                continue
            if written[0].isalpha() and " " in written and not _begins_line(text, match.start()):
                continue
            for family, role, headers in self._meanings[written.lower()]:
                end = _skip_header(text, match.end(), headers) if headers else match.end()
                yield Mark(match.start(), end, role, family)

    def _may_contain_markers(self, text: str) -> bool:
        """Return whether a text contains a marker, perhaps within a word; this is faster than finding all."""
        lowered = text.lower()
        words = (*self._meanings, "assistant")
        return lowered.lstrip().startswith(tuple(self._channels)) or any(word in lowered for word in words)

    def may_end_thoughts(self, text: str) -> bool:
        """Return whether a text contains an end marker; this is faster than finding all markers."""
        lowered = text.lower()
        return any(end in lowered for end in self._ends)

    def unknown(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield (position, text) of each unlisted text that looks like a marker of a thought.

        Special tokens count only if there are several different ones and text follows the last of them. The same token
        many times in a row is yielded once.
        """
        lowered = text.lower()
        if "<|" not in lowered and not any(word in lowered for word in self.thinking_words):
            return
        tokens: list[tuple[int, str]] = []
        end = 0
        kinds: dict[str, str] = {}
        for match in self._unlisted.finditer(text):
            written = match["token"] or match[0]
            kind = kinds.get(written) or kinds.setdefault(
                written, self._kind(written, token=match["token"] is not None)
            )
            if kind == "marker":
                yield match.start(), written.strip()
            elif kind == "token":
                tokens.append((match.start(), written))
                end = match.end()
        if len({token for _, token in tokens}) > 1 and text[end:].strip():
            yield from tokens

    def unclosed(self, text: str) -> str | None:
        """Return the tag that a text begins with and never closes; None without one, and for tags of formatting."""
        match = _TAG.match(text)
        if match is None or match[1].lower() in self.plain_tags or f"/{match[1]}" in text:
            return None
        return match[0].strip()

    def _kind(self, written: str, *, token: bool) -> str:
        lower = written.lower()
        if lower in self._meanings or (token and lower in self._plain):
            return "listed"
        return "token" if token and not any(word in lower for word in self.thinking_words) else "marker"

    def strip_turn_ends(self, text: str) -> str:
        """Return the text without surrounding blanks and without the marks that end its turn."""
        end = len(text.rstrip())
        if text.endswith(self.turn_ends, 0, end):
            # Matched backwards at once, because a text may end with a hundred thousand of them.
            ended = self._turn_ends.match(text[:end][::-1])
            end -= 0 if ended is None else ended.end()
        return text[:end].lstrip()

    @cached_property
    def _turn_ends(self) -> re.Pattern[str]:
        """Return the pattern of turn ends and blanks between them, for a text in reverse."""
        return re.compile(rf"(?:{'|'.join(re.escape(mark[::-1]) for mark in self.turn_ends) or '(?!)'}|\s+)*")

    @cached_property
    def _ends(self) -> tuple[str, ...]:
        return tuple({end.lower() for family in self.families for end in family.end})

    @cached_property
    def _plain(self) -> frozenset[str]:
        return frozenset(token.lower() for token in (*self.plain_tokens, *self.turn_ends))

    @cached_property
    def _unlisted(self) -> re.Pattern[str]:
        words = "|".join(map(re.escape, self.thinking_words)) or "(?!)"
        around = r"[\w:.|/-]{0,40}"
        # Gemma's servers drop special tokens but leave the name of the channel.
        return re.compile(
            rf"[<＜⟨〈◁]{around}(?:{words}){around}(?:\s[^<>\n]{{0,60}})?[>＞⟩〉▷]|[\[【]/?[\w:.|-]{{0,40}}(?:{words})[\w:.|-]{{0,40}}[\]】]"
            rf"|\[(?-i:/?[A-Z_ ]{{0,40}}(?:{words.upper()})[A-Z_ ]{{0,40}})\]"
            r"|(?P<token><\|[^|<>\n]{1,60}\|>)(?P=token)*+|\A\s*thought\n",
            re.IGNORECASE,
        )

    @cached_property
    def _meanings(self) -> dict[str, list[tuple[int, Role, tuple[str, ...]]]]:
        """Map each marker in lower case to (family, role, texts that end its header)."""
        meanings: dict[str, list[tuple[int, Role, tuple[str, ...]]]] = {}
        roles: tuple[Role, ...] = ("end", "answer_end", "answer_begin", "begin")
        for number, family in enumerate(self.families):
            for role in roles:
                headers = family.header_end if role in ("begin", "answer_begin") else ()
                for text in getattr(family, role):
                    meanings.setdefault(text.lower(), []).append((number, role, headers))
        return meanings

    @cached_property
    def _channels(self) -> dict[str, tuple[int, Role]]:
        """Map the words that remain if special tokens are dropped from markers with headers: `analysis`, `final`."""
        roles: tuple[Role, ...] = ("begin", "answer_begin")
        return {
            word: (number, role)
            for number, family in enumerate(self.families)
            if family.header_end
            for role in roles
            for text in getattr(family, role)
            if (word := _SPECIAL.sub("", text).strip()) and word != text
        }

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        tails: dict[str, list[str]] = {}
        for text in sorted(self._meanings, key=len, reverse=True):
            tails.setdefault(text[0], []).append(re.escape(text[1:]))
        # Few positions of a text look like a marker, so all markers with the same first character share one comparison.
        written = "|".join(rf"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in tails.items()) or "(?!)"
        begin, answer_begin = (
            "|".join(re.escape(word) for word, (_, role) in self._channels.items() if role == wanted) or "(?!)"
            for wanted in ("begin", "answer_begin")
        )
        # No word begins with "analysis" and goes on; some begin with "final". In prose a blank or a full stop follows
        # either.
        continuation = r"[\"'(\[*\\{<$“‘«]"
        dropped = (
            rf"assistant(?:(?P<begin>{begin})|(?P<answer_begin>{answer_begin}))"
            rf"|\A\s*(?:(?P<first_begin>{begin})(?=[^\W_]|{continuation})"
            rf"|(?P<first_answer>{answer_begin})(?=[^\W_a-z]|{continuation}))"
        )
        return re.compile(rf"(?ia:{written})|{dropped}")


def _skip_header(text: str, end: int, headers: tuple[str, ...]) -> int:
    """Return the end of the header that begins at `end`: the end of the text if the header was cut off."""
    for header in headers:
        at = text.find(header, end, end + MAX_MARKER)
        if at >= 0:
            return at + len(header)
    return len(text) if len(text) - end < MAX_MARKER else end


def _begins_line(text: str, start: int) -> bool:
    """Return whether `start` begins its line, apart from blanks, or follows the end of a sentence."""
    before = text[max(0, start - 40) : start].rstrip(" \t*#_")
    return not before or before[-1] in "\n.!?:>])}\"'*"


def families_of(where: str, document: Any) -> tuple[Family, ...]:
    """Check a list of tables and return its families. Raises IngestError naming `where`, the value and the remedy."""
    if not isinstance(document, Sequence) or isinstance(document, str) or not 1 <= len(document) <= MAX_FAMILIES:
        raise IngestError(f"{where}: give a list of 1 to {MAX_FAMILIES} tables with begin and end")
    return tuple(_parse_family(f"{where}[{number}]", entry) for number, entry in enumerate(document))


def _parse_family(where: str, entry: Any) -> Family:
    if not isinstance(entry, Mapping):
        raise IngestError(f"{where}: {entry!r} is not a table; give begin and end")
    for key in entry:
        if key not in KEYS:
            raise IngestError(f"{where}: {key!r} is not a key of markers; those are {', '.join(KEYS)}")
    family = Family(**{key: _parse_texts(f"{where}.{key}", entry[key]) for key in KEYS if key in entry})
    if not (family.begin and (family.end or family.answer_begin)) and not (family.answer_begin and not family.end):
        raise IngestError(f"{where}: give begin and end, or answer_begin alone for what marks answers after a thought")
    return family


def _parse_texts(where: str, value: Any) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) for text in texts):
        raise IngestError(f"{where}: {value!r} is neither a text nor a list of texts; give what the model writes")
    for text in texts:
        if not 2 <= len(text.strip()) <= len(text) <= MAX_MARKER or problem_of_text(text):
            raise IngestError(f"{where}: {text!r}: give 2 to {MAX_MARKER} characters, none of them NUL")
    return tuple(texts)


@lru_cache(maxsize=8)
def _read_markers(extra: str) -> Markers:
    shipped = parse_toml(read_definition(files(__package__) / "markers.toml"), "markers.toml")
    families = families_of("markers.toml", shipped["markers"])
    ends = tuple(shipped["turn_ends"])
    if extra:
        path = Path(extra)
        document = read_toml(path)
        for key in document:
            if key not in ("markers", "turn_ends"):
                raise IngestError(f"{path.name}: {key!r} is not a key of it; those are markers and turn_ends")
        families += families_of(f"{path.name}: markers", document["markers"]) if "markers" in document else ()
        ends += _parse_texts(f"{path.name}: turn_ends", document["turn_ends"]) if "turn_ends" in document else ()
    return Markers(
        families,
        tuple(sorted(dict.fromkeys(ends), key=len, reverse=True)),
        tuple(shipped["thinking_words"]),
        tuple(shipped["plain_tokens"]),
        tuple(shipped["plain_tags"]),
    )


def load_markers() -> Markers:
    """Return the markers that ship, with those in the file SHUFFLEBOARD_MARKERS.

    Raises IngestError if it is invalid.
    """
    return _read_markers(get_settings().markers)


def markers_of(definition: Mapping[str, Any]) -> Markers:
    """Return the markers of a protocol: its own families if it defines any, otherwise the result of `load_markers`."""
    markers = load_markers()
    if "markers" not in definition:
        return markers
    return _with_families(specification_digest({"markers": definition["markers"]}), markers, definition["markers"])


_MARKERS_OF_PROTOCOLS: Final[dict[tuple[str, Markers], Markers]] = {}


def _with_families(digest: str, markers: Markers, document: Any) -> Markers:
    if (digest, markers) not in _MARKERS_OF_PROTOCOLS:
        if len(_MARKERS_OF_PROTOCOLS) > MAX_FAMILIES:
            _MARKERS_OF_PROTOCOLS.clear()
        _MARKERS_OF_PROTOCOLS[digest, markers] = replace(markers, families=families_of("markers", document))
    return _MARKERS_OF_PROTOCOLS[digest, markers]
