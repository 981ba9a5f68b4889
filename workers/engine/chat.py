"""Conversations rendered with a model's own chat template.

A template comes with the model's files and is a program in Jinja. transformers renders it in Jinja's immutable sandbox,
which blocks access to Python's internals and changes to its arguments; only the running time is not limited.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from jinja2.exceptions import SecurityError

from workers.engine.loading import LoadedModel
from workers.errors import PermanentError
from workers.tokens import beginning

# The date for templates that write today's: a prompt must not change overnight. It is the default of Llama's templates.
_DATE: Final = {
    "%A": "Friday",
    "%B": "July",
    "%H": "00",
    "%M": "00",
    "%S": "00",
    "%Y": "2024",
    "%a": "Fri",
    "%b": "Jul",
    "%d": "26",
    "%m": "07",
    "%y": "24",
}
_SAME_DAY: Final = (
    "{% macro strftime_now(format) %}{{ format"
    + "".join(f" | replace('{code}', '{written}')" for code, written in _DATE.items())
    + " }}{% endmacro %}\n"
)


def render_chat(
    loaded: LoadedModel,
    messages: Sequence[Mapping[str, str]],
    *,
    open_with: str,
    arguments: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Return the conversation in the model's form, ending with an assistant's turn that begins with `open_with`.

    arguments: further arguments of the template, such as `enable_thinking`.

    messages: `role` (system, user or assistant) and `content` of each turn; at least one turn. If the template has no
    system role, or leaves its content out, the system's turn is put at the beginning of the first user's turn. The text
    does not depend on the day: templates that write the date get 26 July 2024. Raises EngineError for a model without a
    chat template, and for a template that fails, violates the sandbox or leaves out a turn.
    """
    tokenizer = loaded.tokenizer
    if getattr(tokenizer, "chat_template", None) is None:
        raise PermanentError("the model has no chat template; use a protocol without one, or a chat-tuned model")
    failures = []
    for turns in _ways_to_say(messages):
        try:
            text: str = tokenizer.apply_chat_template(
                [dict(turn) for turn in turns],
                chat_template=_SAME_DAY + tokenizer.get_chat_template(),
                tokenize=False,
                add_generation_prompt=True,
                **arguments,
            )
        except SecurityError as error:
            raise PermanentError(
                f"the model's chat template does something that is not allowed ({_in_short(error)}); check where the "
                "model's "
                "files come from, or use a protocol without chat template"
            ) from None
        except Exception as error:  # noqa: BLE001 - a template is a program and can fail in any way
            failures.append(_in_short(error))
            continue
        missing = [turn["role"] for turn in turns if turn["content"].strip() not in text]
        if not missing:
            return text + open_with
        failures.append(f"it leaves out the message of the {missing[0]}")
    raise PermanentError(
        f"the model's chat template cannot format the conversation ({failures[-1]}); correct the template, or use "
        "a protocol without one"
    )


def _ways_to_say(messages: Sequence[Mapping[str, str]]) -> list[Sequence[Mapping[str, str]]]:
    """Return the turns unchanged and, if a user's turn follows the system's, with the two joined."""
    roles = [message["role"] for message in messages[:2]]
    if roles != ["system", "user"]:
        return [messages]
    system, user = messages[:2]
    joined = {**user, "content": f"{system['content']}\n\n{user['content']}"}
    return [messages, [joined, *messages[2:]]]


def _in_short(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def encode_rendered(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of a rendered conversation, with the special tokens that its template wrote.

    The tokenizer's beginning-of-text token is added unless the template has written it. An end-of-text token is left
    out, since the turn is still open.
    """
    before, own = split_special(tokenizer, text)
    return own if own[: len(before)] == before else before + own


def split_special(tokenizer: Any, text: str) -> tuple[list[int], list[int]]:
    """Return the special tokens that the tokenizer puts before a text, and the tokens of the text itself."""
    own: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
    if not own:
        return beginning(tokenizer), []
    full: list[int] = tokenizer(text)["input_ids"]
    added = len(full) - len(own)
    return next((full[:start] for start in range(added + 1) if full[start : start + len(own)] == own), []), own
