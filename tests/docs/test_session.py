"""Reports of wrong output on a page, with place and command; all processes are stopped afterwards."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.session import Session, answers, console_commands, group_lives, matches
from tests.support.commands import eventually

Follow = Callable[[Path, str], Session]


@pytest.fixture
def page(tmp_path: Path, follow: Follow) -> Callable[[str], Session]:
    """Return a function that follows a page with a heading and this text."""

    def write(text: str) -> Session:
        path = tmp_path / "page.md"
        path.write_text(f"# A page\n\n{text}\n", encoding="utf-8")
        return follow(path, "sqlite")

    return write


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```sh\ntrue\nshuffleboard modles list\ntrue\n```", r"page\.md:5 .*status 2\n\nshuffleboard modles list\n"),
        ("```sh\ntrue\nls missing | cat\n```", r"page\.md:5 .*\n[^$]*cannot access 'missing'"),
        ("```sh\necho $UNSET\n```", "unbound variable"),
        ("```console\n$ echo one\ntwo\n```", "prints something else"),
        ("```console\n$ echo one\none\n$ true\nError: no\n```", "status 0"),
        ("```sh\necho one\n```\n\n<!-- prints -->\n```text\ntwo\n```", r"page\.md:8 .*was not printed"),
        ("```sh\necho one two\n```\n\n<!-- prints -->\n```text\n… two\none …\n```", "not in this order"),
        ("```python\nimport missing\n```", "ModuleNotFoundError"),
        ("```sql\nSELECT model FROM leaderbored\n```", "no such table"),
        ("<!-- runs until stopped: http://127.0.0.1:8000/ -->\n```sh\necho gone\n```", r"has ended.*\n[^$]*gone"),
        ("<!-- setup: nothing_of_the_sort -->", "has no nothing_of_the_sort"),
    ],
)
def test_what_is_not_so_is_found(text: str, problem: str, page: Callable[[str], Session]) -> None:
    with pytest.raises((pytest.fail.Exception, AssertionError), match=problem):
        page(text)


def test_files_variables_folders_and_servers_are_there_for_the_next_block(page: Callable[[str], Session]) -> None:
    session = page(
        "<!-- file: sub/greeting.txt -->\n```text\nhello\n```\n\n```sh\nNAME=world\ncd sub\n```\n\n"
        "```console\n$ cat greeting.txt; echo $NAME\nhello\n…\n```\n\n"
        "<!-- runs until stopped: http://127.0.0.1:8000/readyz -->\n```sh\nshuffleboard serve\n```\n\n"
        "```sh\ncurl -sf http://127.0.0.1:8000/healthz\npython -m http.server 0 >/dev/null 2>&1 &\n```\n"
        '<!-- prints -->\n```json\n{"status": "alive"}\n```'
    )
    started = list(session._running)
    assert len(started) == 4
    address = f"http://127.0.0.1:{session.port_of('http://127.0.0.1:8000')}/healthz"
    assert answers(address)
    session.close()
    eventually(lambda: not any(map(group_lives, started)), "what the blocks started is gone")
    eventually(lambda: not answers(address), "the website is gone")


def test_blocks_for_another_engine_or_nobody_are_passed_by(page: Callable[[str], Session]) -> None:
    page(
        "<!-- not run: it would fail -->\n```sh\nfalse\n```\n<!-- prints -->\n```text\nnothing\n```\n\n"
        "<!-- database: postgresql -->\n```sh\nfalse\n```\n\n```sh\nmake coffee\n```"
    )


def test_the_lines_of_a_console_are_all_that_is_printed() -> None:
    assert list(console_commands("$ one \\\n  two\nshown\n\n$ three\n")) == [
        ("one \\\n  two", ["shown", ""]),
        ("three", []),
    ]
    printed = ["a  1", "b", "", "c"]
    assert matches(["a 1", "b", "c"], printed)
    assert matches(["a …", "…", "c"], printed)
    assert matches(["…", "c", "…"], printed)
    assert not matches(["a 1", "b"], printed)
    assert not matches(["…", "b"], printed)
    assert not matches(["c", "…", "a 1"], printed)
