"""Endpoints: permitted addresses, the meaning of answers, and the handling of faults."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from registry.errors import ModelError, UsageError
from registry.prompting.prompts import Prompt
from registry.prompting.thoughts import Output
from registry.revisions.endpoints import (
    Endpoint,
    canonical_url,
    choose_from_partial,
    find_endpoint,
    is_loopback,
    load_endpoints,
)
from registry.settings import Settings
from tests.support.commands import eventually
from tests.support.scripted_server import Answer, Asked, ScriptedServer, in_turn, serve_scripted_server
from workers.endpoint import EndpointEngine, EndpointPrompt, open_endpoint
from workers.endpoint import client as client_module
from workers.endpoint.answers import (
    Token,
    continuation_logprobs,
    drops_blanks,
    label_logprobs,
    read_echoed_tokens,
    top_tokens,
)
from workers.endpoint.client import EndpointClient, read_key
from workers.endpoint.pacing import retry_after, seconds_of
from workers.errors import EngineError, InterruptedScoringError

KEY = "sk-a-secret-of-the-tests-0123456789"

# Which addresses


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("https://API.Example.org/v1/", "https://api.example.org/v1"),
        ("HTTPS://api.example.org:443", "https://api.example.org"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:80/a/b", "http://[::1]/a/b"),
    ],
)
def test_an_address_has_one_form(given: str, canonical: str) -> None:
    assert canonical_url(given) == canonical
    assert canonical_url(canonical) == canonical


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://host/v1", "not an http or https URL"),
        ("file:///etc/passwd", "not an http or https URL"),
        ("host/v1", "not an http or https URL"),
        ("https://user:hunter2@host/v1", "user name or password"),
        ("https://host@evil.example/v1", "user name or password"),
        ("https://host/v1?api_key=hunter2", "query or fragment"),
        ("https://host/v1#hunter2", "query or fragment"),
        ("https:///v1", "no host"),
        ("https://host:http/v1", "not a valid URL"),
        ("https://ho st/v1", "characters"),
        ("https://hóst/v1", "characters"),
        ("https://host\\@evil.example/v1", "user name or password|characters"),
        ("https://host/v1/%2e%2e/admin", "characters"),
        ("https://host/v1/../admin", "dots in its path"),
        ("https://host//v1", "empty segments"),
    ],
)
def test_addresses_that_could_mean_another_place_or_hold_a_secret_are_refused(url: str, problem: str) -> None:
    with pytest.raises(ModelError, match=problem) as refused:
        canonical_url(url)
    assert "hunter2" not in str(refused.value)


ENDPOINTS = {
    "local": Endpoint(name="local", url_prefix="http://127.0.0.1:8000/v1"),
    "hosted": Endpoint(name="hosted", url_prefix="https://api.example.org/v1", key_env="HOSTED_KEY"),
    "team": Endpoint(name="team", url_prefix="https://api.example.org/v1/team", key_env="TEAM_KEY"),
    "lan": Endpoint(name="lan", url_prefix="http://10.0.0.5:8000", allow_http=True),
    "bare": Endpoint(name="bare", url_prefix="http://10.0.0.6:8000"),
}


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("http://127.0.0.1:8000/v1", "local"),
        ("https://api.example.org/v1", "hosted"),
        ("https://api.example.org/v1/other", "hosted"),
        ("https://api.example.org/v1/team", "team"),
        ("https://api.example.org/v1/team/a", "team"),
        ("https://api.example.org/v1/teams", "hosted"),
        ("http://10.0.0.5:8000/v1", "lan"),
    ],
)
def test_the_longest_prefix_says_whose_key_goes_to_an_address(location: str, name: str) -> None:
    assert find_endpoint(ENDPOINTS, location).name == name
    assert find_endpoint(ENDPOINTS, location, name).name == name


@pytest.mark.parametrize(
    ("location", "reference", "problem"),
    [
        ("https://api.example.org", None, "on an endpoint"),
        ("https://api.example.org/v10", None, "on an endpoint"),
        ("http://api.example.org/v1", None, "on an endpoint"),
        ("https://api.example.org:8443/v1", None, "on an endpoint"),
        ("https://api.example.org.evil.example/v1", None, "on an endpoint"),
        ("http://127.0.0.1:8001/v1", None, "on an endpoint.*known: bare, hosted, lan, local, team$"),
        ("https://api.example.org/v1/team", "hosted", "is for https://api.example.org/v1;.*belongs to endpoint team"),
        ("https://api.example.org/v1", "stolen", "'stolen' is not in the file"),
        ("http://10.0.0.6:8000/v1", None, "plain HTTP.*allow_http = true for endpoint bare"),
    ],
)
def test_an_address_that_no_endpoint_allows_is_refused_with_the_remedy(
    location: str, reference: str | None, problem: str
) -> None:
    with pytest.raises(ModelError, match=problem):
        find_endpoint(ENDPOINTS, location, reference)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:1", True),
        ("http://127.8.9.1", True),
        ("http://[::1]:5", True),
        ("http://localhost.evil.example", False),
        ("http://127.1.evil.example", False),
        ("http://10.0.0.1", False),
    ],
)
def test_which_addresses_are_this_machine(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


def endpoints_file(folder: Path, text: str) -> str:
    path = folder / "endpoints.toml"
    path.write_text(text)
    return str(path)


def test_endpoints_are_read_from_a_file(tmp_path: Path) -> None:
    path = endpoints_file(
        tmp_path,
        """
        [local]
        url_prefix = "http://127.0.0.1:8000/v1/"

        [hosted]
        url_prefix = "https://API.example.org/v1"
        key_file = "/run/secrets/hosted"
        top_logprobs = 5
        openai_parameters_only = true
        """,
    )
    assert load_endpoints(path) == {
        "local": Endpoint(name="local", url_prefix="http://127.0.0.1:8000/v1"),
        "hosted": Endpoint(
            name="hosted",
            url_prefix="https://api.example.org/v1",
            key_file=Path("/run/secrets/hosted"),
            top_logprobs=5,
            openai_parameters_only=True,
        ),
    }
    assert load_endpoints("") == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("local = 1", r"\[local\]: is not a table"),
        ("[local]", r"\[local\]: url_prefix: Field required"),
        ("[local", "not valid TOML"),
        ('[local]\nurl_prefix = "file:///x"', "url_prefix 'file': not an http"),
        ('[local]\nurl_prefix = "http://h"\nkey = "hunter2"', "a key does not belong in this file"),
        ('[local]\nurl_prefix = "http://h"\ntoken = "hunter2"', "token: Extra inputs"),
        ('[local]\nurl_prefix = "http://h"\nkey_env = "A"\nkey_file = "hunter2"', "keep one"),
        ('[local]\nurl_prefix = "http://h"\ntop_logprobs = 0', "top_logprobs: Input should be greater"),
        ('[a]\nurl_prefix = "http://h"\nprovider = "azure"\nbatch = true', "needs provider = openai or anthropic"),
        ('["a b"]\nurl_prefix = "http://h"', "endpoint name 'a b'"),
        ('[a]\nurl_prefix = "http://h/v1"\n[b]\nurl_prefix = "http://H/v1/"', "a and b have the same url_prefix"),
    ],
)
def test_a_wrong_endpoints_file_is_refused_without_showing_values(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refused:
        load_endpoints(endpoints_file(tmp_path, text))
    assert "hunter2" not in str(refused.value)


def test_a_file_of_endpoints_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"SHUFFLEBOARD_ENDPOINTS: .*missing\.toml: cannot be read"):
        load_endpoints(str(tmp_path / "missing.toml"))


# Keys


def test_a_key_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTED_KEY", KEY)
    (tmp_path / "key").write_text(f"{KEY}\n")
    of_file = Endpoint(name="filed", url_prefix="https://h", key_file=tmp_path / "key")
    assert [read_key(one) for one in (ENDPOINTS["hosted"], of_file, ENDPOINTS["local"])] == [KEY, KEY, None]


@pytest.mark.parametrize(
    ("value", "problem"),
    [(None, "is empty or missing"), ("  ", "is empty or missing"), (f"{KEY}\nX-Evil: 1", "contains spaces")],
)
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, value: str | None, problem: str
) -> None:
    monkeypatch.delenv("HOSTED_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("HOSTED_KEY", value)
    with pytest.raises(ModelError, match=f"endpoint hosted: its key_env HOSTED_KEY {problem}") as error:
        read_key(ENDPOINTS["hosted"])
    assert KEY not in str(error.value)


# Meaning of answers


def list_items(*pairs: tuple[str, float | None]) -> dict[str, Any]:
    """Return an answer in the form of llama.cpp and of OpenAI's chat."""
    entries = [{"token": text, "logprob": value, "bytes": list(text.encode())} for text, value in pairs]
    return {"choices": [{"text": "", "logprobs": {"content": [{"top_logprobs": entries}]}}]}


def legacy(*pairs: tuple[str, float | None]) -> dict[str, Any]:
    """Return an answer in the form of vLLM and of OpenAI's completions."""
    return {"choices": [{"text": "", "logprobs": {"top_logprobs": [dict(pairs)]}}]}


LETTERS = (" A", " B", " C", " D")


@pytest.mark.parametrize("form", [list_items, legacy])
@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param(
            [(" B", -0.5), (" A", -1.5), (" D", -2.5), (" C", -3.5)], [-1.5, -0.5, -3.5, -2.5], id="all are listed"
        ),
        pytest.param([(" B", -0.5), (" The", -1.0), (" A", -4.0)], [-4.0, -0.5, None, None], id="two are not listed"),
        pytest.param([("A", -0.1), (" B", -0.5)], [None, -0.5, None, None], id="A is not the label after a blank"),
        pytest.param([(" a", -0.1), (" AB", -0.5), (" ", -1.0)], [None] * 4, id="neither is anything else like it"),
        pytest.param([("ĠA", -0.5), ("▁B", -1.5)], [-0.5, -1.5, None, None], id="blanks as vocabularies write them"),
        pytest.param([(" A", -0.5), (" B", None), (" C", 3.0)], [-0.5, None, None, None], id="what is no number"),
        pytest.param([(" A", 1e-7), (" B", -17.5)], [0.0, -17.5, None, None], id="rounding above zero"),
    ],
)
def test_a_label_has_the_log_probability_of_its_token(
    form: Callable[..., dict[str, Any]], pairs: list[tuple[str, float | None]], expected: list[float | None]
) -> None:
    assert label_logprobs(top_tokens(form(*pairs)), LETTERS) == expected


def test_the_bytes_of_a_token_count_more_than_how_it_is_shown() -> None:
    entries = [{"token": "?", "bytes": [32, 65], "logprob": -0.5}, {"token": " B", "bytes": [], "logprob": -1.0}]
    document = {"choices": [{"logprobs": {"content": [{"top_logprobs": entries}]}}]}
    assert label_logprobs(top_tokens(document), LETTERS) == [-0.5, -1.0, None, None]


def test_labels_are_compared_without_blanks_if_a_server_drops_them() -> None:
    tokens = top_tokens(list_items(("A", -3.0), ("A", -0.5), ("B", -1.5)))
    assert drops_blanks(tokens)
    assert not drops_blanks(top_tokens(list_items(("A", -3.0), (" the", -4.0))))
    assert label_logprobs(tokens, LETTERS) == [None] * 4
    assert label_logprobs(tokens, LETTERS, without_blanks=True) == [-0.5, -1.5, None, None]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "no choices"),
        ({"choices": []}, "no choices"),
        ({"choices": [{"text": "x", "logprobs": None}]}, "gives no log-probabilities"),
        ({"choices": [{"text": "x"}]}, "gives no log-probabilities"),
        ({"choices": [{"logprobs": {"content": []}}]}, "gives no log-probabilities"),
        ({"choices": [{"logprobs": {"top_logprobs": [None]}}]}, "gives no log-probabilities"),
        (legacy(("token_id:330", -0.5)), "names tokens by number"),
    ],
)
def test_an_answer_without_usable_log_probabilities_is_refused(document: dict[str, Any], problem: str) -> None:
    with pytest.raises(EngineError, match=problem):
        top_tokens(document)


def echo(tokens: Sequence[str], values: Sequence[float | None], written: int = 0) -> dict[str, Any]:
    return {
        "choices": [{"text": "".join(tokens), "logprobs": {"tokens": tokens, "token_logprobs": values}}],
        "usage": {"prompt_tokens": len(tokens) - written, "completion_tokens": written},
    }


def test_a_prompts_tokens_are_read_without_the_written_ones() -> None:
    expected = [Token("An", None), Token("swer", -2.0), Token(":", -0.5)]
    assert read_echoed_tokens(echo(["An", "swer", ":"], [None, -2.0, -0.5])) == expected
    assert read_echoed_tokens(echo(["An", "swer", ":", " B"], [None, -2.0, -0.5, -1.0], written=1)) == expected
    counted = {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}  # vLLM: written and counted, and not listed
    assert read_echoed_tokens(echo(["An", "swer", ":"], [None, -2.0, -0.5]) | counted) == expected


@pytest.mark.parametrize(
    "document",
    [
        list_items((" A", -0.5)),
        legacy((" A", -0.5)),
        pytest.param(echo([" A"], [-0.5]), id="what it wrote, and not the prompt"),
        pytest.param(echo(["a", "b"], [None]), id="not as many values as tokens"),
        pytest.param(echo(["a", "b"], [None, -0.5]) | {"usage": {"prompt_tokens": 7}}, id="the end of the prompt only"),
        pytest.param(echo(["a", "b"], [None, -0.5]) | {"usage": None}, id="nobody knows how many are the prompt's"),
        pytest.param({"choices": [{"text": "x", "logprobs": None}]}, id="nothing"),
    ],
)
def test_a_server_that_does_not_repeat_the_prompt_is_noticed(document: dict[str, Any]) -> None:
    assert read_echoed_tokens(document) is None


def tokens(*pairs: tuple[str, float | None]) -> list[Token]:
    return [Token(text, value) for text, value in pairs]


def test_a_continuation_sums_its_tokens_after_the_common_ones() -> None:
    prompt = tokens(("Answer", None), (":", -1.0))
    # ln P = −.5 −.25 = −.75 and −2.
    wholes = [
        tokens(("Answer", None), (":", -1.0), (" the", -0.5), (" cat", -0.25)),
        tokens(("Answer", None), (":", -1.0), (" dogs", -2.0)),
    ]
    assert continuation_logprobs(prompt, wholes) == [-0.75, -2.0]
    # If ": " and "the" are split differently together, the colon counts to both: −1 −.5 and −3.
    wholes = [tokens(("Answer", None), (":", -1.0), (" a", -0.5)), tokens(("Answer", None), (": b", -3.0))]
    assert continuation_logprobs(prompt, wholes) == [-1.5, -3.0]


def test_a_continuation_without_tokens_of_its_own_is_refused() -> None:
    prompt = tokens(("Answer", None), (":", -1.0))
    with pytest.raises(EngineError, match="of its own"):
        continuation_logprobs(prompt, [prompt])
    with pytest.raises(EngineError, match="of its own"):
        continuation_logprobs(prompt, [[*prompt, Token(" x", None)]])


# An answer from partial knowledge


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        ([-2.0, -1.0, -3.0], (1, True)),
        ([-2.0, None, -3.0], (0, False)),
        ([None, None, -9.0], (2, False)),
        ([None, None], (None, False)),
        ([-1.0, -1.0], (0, True)),
        ([None, -1.0, -1.0], (1, False)),
        ([0.0], (0, True)),
    ],
)
def test_the_highest_known_label_is_the_answer(logprobs: list[float | None], expected: tuple[int | None, bool]) -> None:
    assert choose_from_partial(logprobs) == expected


# Faults of servers


class Waits(threading.Event):
    """An event that records the waits that are requested, and that is set after `stop_after` of them."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__()
        self.asked: list[float] = []
        self.stop_after = stop_after

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.asked.append(timeout)
        return self.stop_after is not None and len(self.asked) > self.stop_after


def client(server: ScriptedServer, key_env: str | None = None, **settings: Any) -> EndpointClient:
    return EndpointClient(Endpoint(name="tested", url_prefix=server.url, key_env=key_env), Settings(**settings))


def ask(server: ScriptedServer, waits: Waits | None = None, key_env: str | None = None, **settings: Any) -> Any:
    """Send one request and return the document of the answer."""
    client_of_server = client(server, key_env, **settings)
    try:
        return client_of_server.post(f"{server.url}/completions", {"prompt": "?"}, stop=waits or Waits()).document
    finally:
        client_of_server.close()


FINE = Answer({"fine": True})


def test_a_server_that_asks_to_wait_is_left_alone_for_so_long() -> None:
    waits = Waits()
    busy = Answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "7"})
    with serve_scripted_server(in_turn(busy, FINE)) as server:
        assert ask(server, waits) == {"fine": True}
    assert waits.asked == [0.0, 7.0, 0.0]
    assert len(server.asked) == 2


def test_a_server_that_asks_for_too_long_a_wait_has_failed() -> None:
    busy = Answer({"error": {"message": "quota"}}, 429, {"Retry-After": "3600"})
    with serve_scripted_server(lambda _: busy) as server, pytest.raises(EngineError, match=r"429 \(quota\).*3600 s"):
        ask(server)
    assert len(server.asked) == 1


def test_retry_after_is_a_number_or_a_date() -> None:
    assert retry_after({"retry-after-ms": "1500", "retry-after": "2"}) == 1.5
    assert seconds_of("12") == 12.0
    assert seconds_of("soon") is None
    assert seconds_of(formatdate(0, usegmt=True)) == 0.0
    assert seconds_of(formatdate(time.time() + 1000, usegmt=True)) == pytest.approx(1000, abs=100)


def test_errors_of_a_server_are_tried_again_with_growing_waits() -> None:
    waits = Waits()
    with serve_scripted_server(in_turn(*[Answer({"detail": "oops"}, 500)] * 3, Answer(b"", 503), FINE)) as server:
        assert ask(server, waits) == {"fine": True}
    assert len(server.asked) == 5
    pauses = waits.asked[1::2]
    assert [0 <= pause <= longest for pause, longest in zip(pauses, (0.5, 1, 2, 4), strict=True)] == [True] * 4


def test_a_server_that_stays_in_trouble_is_given_up() -> None:
    with (
        serve_scripted_server(lambda _: Answer({"error": {"message": "no GPU"}}, 500)) as server,
        pytest.raises(EngineError, match=r"^127\.0\.0\.1:\d+: answers 500 \(no GPU\); tried 3 times") as error,
    ):
        ask(server, endpoint_attempts=3)
    assert len(server.asked) == 3
    assert error.value.__cause__ is None


def test_a_server_that_keeps_silent_is_asked_again_and_then_given_up() -> None:
    release = threading.Event()

    def silent(_asked: Asked) -> Answer:
        release.wait()
        return FINE

    with serve_scripted_server(silent) as server:
        with pytest.raises(EngineError, match=r"does not answer in time.*tried 2 times"):
            ask(server, endpoint_read_seconds=0.1, endpoint_attempts=2)
        eventually(lambda: len(server.asked) == 2, "the server has read both requests")
        release.set()


def test_a_server_that_is_not_there_is_given_up() -> None:
    with serve_scripted_server(lambda _: FINE) as server:
        pass
    with pytest.raises(EngineError, match=r"cannot be reached .*ConnectError.*tried 2 times"):
        ask(server, endpoint_attempts=2)


def test_waiting_for_another_attempt_ends_when_scoring_is_to_stop() -> None:
    with serve_scripted_server(lambda _: Answer(b"", 500)) as server, pytest.raises(InterruptedScoringError):
        ask(server, Waits(stop_after=1))
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer({"error": {"message": "no such model"}}, 404), r"answers 404 \(no such model\)$"),
        (Answer({"message": "bad"}, 400), r"answers 400 \(bad\)"),
        (Answer({"detail": [{"loc": 1}]}, 422), r"answers 422 \(\{\"detail\""),
        (Answer(b"<html>not here</html>", 410), r"answers 410 \(<html>not here</html>\)"),
        (Answer(b"x" * 5000, 400), r"answers 400 \(x{300}…\)"),
        (Answer(b"", 404), r"answers 404 \(Not Found\)"),
        (Answer(b"<html>welcome</html>"), "does not answer with a JSON object.*welcome"),
        (Answer(b'{"choices": ['), "does not answer with a JSON object"),
        (Answer(b"[" * 100_000), "does not answer with a JSON object"),
        (Answer(b'{"choices": ' + b"9" * 5000 + b"}"), "does not answer with a JSON object"),
        (Answer([1, 2]), "does not answer with a JSON object"),
        (Answer(b"junk", headers={"Content-Encoding": "gzip"}), "cannot be decompressed"),
    ],
)
def test_other_errors_fail_at_once_and_say_host_status_and_reason(answer: Answer, problem: str) -> None:
    with serve_scripted_server(lambda _: answer) as server, pytest.raises(EngineError, match=problem) as error:
        ask(server)
    assert len(server.asked) == 1
    assert str(error.value).startswith("127.0.0.1:")


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_BYTES", 1 << 20)
    with (
        serve_scripted_server(lambda _: Answer(b" " * (3 << 20))) as server,
        pytest.raises(EngineError, match="more than 1 MiB"),
    ):
        ask(server)


def test_a_servers_figures_are_requested_once_and_absent_on_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "MAX_BYTES", 1 << 20)
    answers = in_turn(Answer(b"waiting 3"), Answer(b"", 503), Answer(b" " * (3 << 20)), Answer(b"", 307))
    with serve_scripted_server(answers) as server:
        client_of_server = client(server)
        assert [client_of_server.text(f"{server.url}/metrics") for _ in range(4)] == ["waiting 3", None, None, None]
        assert client_of_server.text(server.url.removesuffix("/v1") + "/metrics") is None  # outside the endpoint
        client_of_server.close()
    assert server.paths() == ["/v1/metrics"] * 4


def test_a_redirect_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTED_KEY", KEY)
    with serve_scripted_server(lambda _: FINE) as elsewhere:
        away = Answer(b"", 307, {"Location": f"{elsewhere.url}/completions"})
        with (
            serve_scripted_server(lambda _: away) as server,
            pytest.raises(
                EngineError, match=f"answers 307 and redirects to {elsewhere.url}/completions; redirects are not"
            ),
        ):
            ask(server, key_env="TESTED_KEY")
    assert elsewhere.asked == []


def test_a_key_is_sent_to_its_endpoint_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTED_KEY", KEY)
    with serve_scripted_server(lambda _: FINE) as server, serve_scripted_server(lambda _: FINE) as second_server:
        ask(server, key_env="TESTED_KEY")
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
        ask(second_server)
        assert "authorization" not in second_server.asked[0].headers
        client_of_server = client(server, "TESTED_KEY")
        with pytest.raises(AssertionError, match="outside the endpoint"):
            client_of_server.post(f"{second_server.url}/completions", {})
        client_of_server.close()


def test_a_refused_key_is_named_by_its_reference_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTED_KEY", KEY)
    refusal = Answer({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401)
    with (
        serve_scripted_server(lambda _: refusal) as server,
        pytest.raises(
            EngineError,
            match=r"401 \(Incorrect API key provided: \[key\]\); check the key of endpoint tested \(key_env TESTED_KEY\)",
        ) as error,
    ):
        ask(server, key_env="TESTED_KEY")
    assert KEY not in str(error.value)
    with (
        serve_scripted_server(lambda _: refusal) as server,
        pytest.raises(EngineError, match="it has none: give it key_env"),
    ):
        ask(server)


def test_a_key_that_an_answer_repeats_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTED_KEY", KEY)
    with serve_scripted_server(lambda asked: Answer({"text": asked.headers["authorization"]})) as server:
        assert ask(server, key_env="TESTED_KEY") == {"text": "Bearer [key]"}
    with serve_scripted_server(lambda asked: Answer(f"no {asked.headers}".encode())) as server:
        with pytest.raises(EngineError, match=r"\[key\]") as error:
            ask(server, key_env="TESTED_KEY")
        assert KEY not in str(error.value)
        server.answer = lambda _: Answer(b"", 302, {"Location": f"/{KEY}"})
        with pytest.raises(EngineError, match=r"redirects to /\[key\]; redirects"):
            ask(server, key_env="TESTED_KEY")


def test_requests_begin_no_faster_than_the_setting_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module.time, "monotonic", lambda: 100.0)
    waits = Waits()
    with serve_scripted_server(lambda _: FINE) as server:
        client_of_server = client(server, endpoint_requests_per_second=4)
        for _ in range(3):
            client_of_server.post(f"{server.url}/completions", {}, stop=waits)
        client_of_server.close()
    assert waits.asked == [0.0, 0.25, 0.5]


# The engine on a scripted server


def model_list(**more: Any) -> Answer:
    return Answer({"data": [{"id": "tiny", **more}]})


def serve_scripted(complete: Callable[[Asked], Answer], models: Answer | None = None) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        return (models or model_list()) if asked.path == "/v1/models" else complete(asked)

    return answer


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., EndpointEngine]]:
    engines: list[EndpointEngine] = []

    def open_on(server: ScriptedServer, prefix: str | None = None, entry: str = "", **settings: Any) -> EndpointEngine:
        path = endpoints_file(tmp_path, f'[tested]\nurl_prefix = "{prefix or server.url}"\n{entry}')
        engines.append(open_endpoint(server.url, "tiny", None, Settings(endpoints=path, **settings)))
        return engines[-1]

    yield open_on
    for engine in engines:
        engine.close()


def prompts(count: int) -> list[Prompt]:
    return [Prompt(f"Question {n}\nAnswer:", LETTERS) for n in range(count)]


def letters(asked: Asked) -> Answer:
    """Return log-probabilities that identify the prompt: −n − 1 for " A", and less for " B"."""
    number = int(asked.document["prompt"].split()[1]) if asked.document["prompt"].startswith("Question") else 0
    document = legacy((" A", -number - 1.0), (" B", -number - 2.0))
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}
    return Answer(
        document | {"usage": usage, "model": "tiny-0613", "system_fingerprint": "fp_1"}, headers={"Server": "s/1"}
    )


def test_prompts_are_scored_in_order_a_few_at_a_time(opened: Callable[..., EndpointEngine]) -> None:
    def several_at_once(asked: Asked) -> Answer:
        if asked.document["prompt"].startswith("Question"):
            eventually(lambda: server.most_at_once > 1, "another prompt is asked beside this one")
        return letters(asked)

    with serve_scripted_server(serve_scripted(several_at_once)) as server:
        engine = opened(server, endpoint_in_flight=3)
        scores = engine.score(prompts(12))
        assert scores.logprobs == [[-n - 1.0, -n - 2.0, None, None] for n in range(12)]
        assert (scores.tokens_naive, scores.tokens_computed) == (120, 72)
        assert 1 < server.most_at_once <= 3
        assert server.asked[-1].document.keys() == {"model", "prompt", "temperature", "max_tokens", "logprobs"}
        assert [server.asked[-1].document[key] for key in ("model", "temperature", "max_tokens", "logprobs")] == [
            "tiny",
            0,
            1,
            20,
        ]


def test_the_fingerprint_is_what_the_server_says_of_itself(
    opened: Callable[..., EndpointEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESTED_KEY", KEY)
    models = model_list(meta={"ftype": "Q4_1", "n_params": 7, "odd": [1], "key": KEY, "nan": float("nan")})

    def complete(asked: Asked) -> Answer:
        return Answer({"version": "0.9"}) if asked.path == "/version" else letters(asked)

    with serve_scripted_server(serve_scripted(complete, models)) as server:
        prefix = server.url.removesuffix("/v1")
        engine = opened(server, prefix, 'key_env = "TESTED_KEY"\ntop_logprobs = 5\nopenai_parameters_only = true')
        engine.score(prompts(1))
        assert engine.settings() == {
            "engine": "openai-endpoint",
            "host": prefix.removeprefix("http://"),
            "model": "tiny",
            "top_logprobs": 5,
            "meta": {"ftype": "Q4_1", "n_params": 7, "key": "[key]"},
            "version": "0.9",
            "server": "s/1",
            "system_fingerprint": "fp_1",
            "served_model": "tiny-0613",
            "leading_blanks": "kept",
            "openai_parameters_only": True,
        }
        assert json.dumps(engine.settings(), allow_nan=False)


def test_a_model_that_changes_within_a_shard_is_noted_for_that_shard(opened: Callable[..., EndpointEngine]) -> None:
    def complete(asked: Asked) -> Answer:
        number = int(asked.document["prompt"].split()[1]) if asked.document["prompt"].startswith("Question") else 0
        return Answer(legacy((" A", -1.0)) | {"model": f"tiny-{min(number, 1)}"})

    with serve_scripted_server(serve_scripted(complete)) as server:
        engine = opened(server)
        engine.begin()
        engine.score(prompts(3))
        assert (engine.settings()["served_model"], engine.settings()["served_model_changed"]) == (
            "tiny-0, tiny-1",
            True,
        )
        engine.begin()
        engine.score(prompts(3)[1:])
        assert engine.settings()["served_model"] == "tiny-1"
        assert "served_model_changed" not in engine.settings()


def test_the_version_beside_the_service_is_not_asked_for_outside_the_prefix(
    opened: Callable[..., EndpointEngine],
) -> None:
    with serve_scripted_server(serve_scripted(letters)) as server:
        opened(server)
        assert server.paths() == ["/v1/models"]


def test_a_server_that_drops_blanks_is_found_out_before_scoring(opened: Callable[..., EndpointEngine]) -> None:
    with serve_scripted_server(serve_scripted(lambda _: Answer(list_items(("A", -0.5), ("the", -1.0))))) as server:
        engine = opened(server)
        assert engine.score(prompts(1)).logprobs == [[-0.5, None, None, None]]
        assert engine.settings()["leading_blanks"] == "dropped"


def test_labels_that_are_never_listed_are_an_error(
    opened: Callable[..., EndpointEngine],
) -> None:
    with serve_scripted_server(serve_scripted(lambda _: Answer(list_items((" (", -0.1), (" The", -3.0))))) as server:
        engine = opened(server)
        with pytest.raises(EngineError, match=r"none of the labels \[' \(A\)', ' \(B\)'\].* 20 .*they begin ' \('"):
            engine.score([Prompt("Q\nAnswer:", (" (A)", " (B)"))])


def test_one_prompt_without_a_label_in_the_list_is_unknown(opened: Callable[..., EndpointEngine]) -> None:
    def complete(asked: Asked) -> Answer:
        odd = asked.document["prompt"].startswith("Question 1")
        return Answer(list_items((" The", -0.5))) if odd else letters(asked)

    with serve_scripted_server(serve_scripted(complete)) as server:
        assert opened(server).score(prompts(2)).logprobs == [[-1.0, -2.0, None, None], [None] * 4]


def test_scoring_stops_when_it_is_asked_to(opened: Callable[..., EndpointEngine]) -> None:
    release = threading.Event()

    def complete(asked: Asked) -> Answer:
        if asked.document["prompt"].startswith("Question"):
            release.wait()
        return letters(asked)

    with serve_scripted_server(serve_scripted(complete)) as server:
        engine = opened(server, endpoint_in_flight=2)
        with pytest.raises(InterruptedScoringError):
            engine.score(prompts(50), should_stop=lambda: len(server.asked) > 2)
        release.set()
        assert len(server.asked) <= 2 + 2 + 2  # models and the probe, requests in flight, and threads about to send one


def echoing(asked: Asked) -> Answer:
    """Return the prompt in words, where a word's log-probability is minus its length."""
    text: str = asked.document["prompt"]
    words = [text.split()[0], *(" " + word for word in text.split()[1:])]
    return Answer(echo(words, [None, *(-float(len(word)) for word in words[1:])]))


def test_whole_continuations_are_scored_where_the_prompt_is_repeated(opened: Callable[..., EndpointEngine]) -> None:
    with serve_scripted_server(serve_scripted(echoing)) as server:
        engine = opened(server)
        requested = [
            Prompt("Who Answer:", (" a cat", " elephants", " a cat")),
            Prompt("Who Answer:", (" a cat", " me")),
        ]
        scores = engine.score_continuations(requested)
        # " a" + " cat": 2 + 4 letters and blanks; " elephants": 10; " me": 3.
        assert scores.logprobs == [[-6.0, -10.0, -6.0], [-6.0, -3.0]]
        # The prompt alone, and with each of three continuations: equal texts are sent once.
        assert len(server.asked) == 1 + 4
        assert server.asked[-1].document | {"prompt": ""} == {
            "model": "tiny",
            "prompt": "",
            "temperature": 0,
            "max_tokens": 0,
            "logprobs": 1,
            "echo": True,
        }


def test_a_server_that_does_not_repeat_the_prompt_cannot_score_continuations(
    opened: Callable[..., EndpointEngine],
) -> None:
    with serve_scripted_server(serve_scripted(letters)) as server:
        engine = opened(server)
        with pytest.raises(EngineError, match=r"NPSQ .* whole continuations, which this server does not give"):
            engine.score_continuations(prompts(1))


GENERATION = {
    "sampling": "model",
    "temperature": "0.6",
    "top_k": 20,
    "top_p": "0.95",
    "min_p": "0",
    "seed": 3,
    "max_tokens": 512,
    "stop": ["\nQuestion:"],
}


def texts(asked: Asked) -> Answer:
    written = {"finish_reason": "stop", "text": "plain", "message": {"content": "chat"}}
    if asked.path.endswith("/v1/completions"):
        del written["message"]
    return Answer({"choices": [written], "usage": {"completion_tokens": 2}})


@pytest.mark.parametrize(
    ("changes", "entry", "expected"),
    [
        ({}, "", {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.0, "stop": ["\nQuestion:"]}),
        ({}, "openai_parameters_only = true", {"temperature": 0.6, "top_p": 0.95, "stop": ["\nQuestion:"]}),
        ({"sampling": "greedy", "stop": []}, "", {"temperature": 0}),
    ],
)
def test_texts_are_asked_for_with_the_parameters_of_the_protocol(
    opened: Callable[..., EndpointEngine], changes: Mapping[str, Any], entry: str, expected: dict[str, Any]
) -> None:
    messages = [{"role": "user", "content": "Say B"}]
    with serve_scripted_server(serve_scripted(texts)) as server:
        engine = opened(server, entry=entry, endpoint_in_flight=1)
        requested = [
            EndpointPrompt("Say B", "p1"),
            EndpointPrompt("Say B", "p2", messages),
            EndpointPrompt("Say B", "p1"),
        ]
        generated = engine.generate(requested, {"generation": {**GENERATION, **changes}})
        written = [(one.output, one.tokens, one.thought_tokens) for one in generated.written]
        assert written == [(Output(text), 2, 0) for text in ("plain", "chat", "plain")]
        assert (generated.prompt_tokens, generated.computed_tokens) == (0, 0)
        completed, chatted, again = [one.document for one in server.asked[1:]]
        seeds = [document.pop("seed") for document in (completed, chatted, again)]
    common = {"model": "tiny", "max_tokens": 512, "stream": True, "stream_options": {"include_usage": True}, **expected}
    assert completed == again == {"prompt": "Say B", **common}
    assert chatted == {"messages": messages, **common}
    assert seeds[0] == seeds[2] != seeds[1]
    assert all(0 <= seed < 1 << 31 for seed in seeds)


def test_a_model_that_the_server_does_not_list_is_refused(opened: Callable[..., EndpointEngine]) -> None:
    with (
        serve_scripted_server(lambda _: Answer({"data": [{"id": "big"}, "?", {"id": "huge"}]})) as server,
        pytest.raises(
            EngineError, match=r"does not serve the model 'tiny' \(it lists: big, huge\); correct --revision"
        ),
    ):
        opened(server)


def test_an_address_outside_the_endpoints_is_refused_by_the_worker_too(tmp_path: Path) -> None:
    path = endpoints_file(tmp_path, '[tested]\nurl_prefix = "http://127.0.0.1:1/v1"')
    with pytest.raises(ModelError, match="not on an endpoint of this deployment"):
        open_endpoint("http://127.0.0.1:2/v1", "tiny", None, Settings(endpoints=path))
    with pytest.raises(ModelError, match="key 'other' is not in the file"):
        open_endpoint("http://127.0.0.1:1/v1", "tiny", "other", Settings(endpoints=path))


def test_a_file_of_endpoints_nested_without_end_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"SHUFFLEBOARD_ENDPOINTS: .*") as refused:
        load_endpoints(endpoints_file(tmp_path, "x = " + "[" * 100_000))
    assert "\n" not in str(refused.value)
    with pytest.raises(UsageError, match="nested too deeply"):
        load_endpoints(endpoints_file(tmp_path, ".".join("a" * 100) + " = 1"))
