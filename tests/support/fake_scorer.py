"""A scorer without torch whose numbers depend only on the prompt, so that tests of the queue need no model."""

import hashlib
import math
import time
from collections.abc import Callable

from sqlalchemy import Engine

from registry.db import read_session
from registry.predictions.prompts import ShardPrompt
from registry.prompting.prompts import Prompt
from registry.queue.claims import Claim, ShardResult
from registry.queue.shards import shard_prompts
from workers.errors import InterruptedScoringError


def fake_logprobs(prompt: Prompt) -> list[float]:
    """Return each label's log-probability, from the SHA-256 of prompt and label; the probabilities add up to ½."""
    weights = [
        1 + int.from_bytes(hashlib.sha256(f"{prompt.text}{label}".encode()).digest()[:4], "big")
        for label in prompt.continuations
    ]
    return [math.log(weight / sum(weights) / 2) for weight in weights]


class FakeScorer:
    """A scorer of shards, prompt by prompt.

    before_prompt: called before each prompt is scored, to wait, to raise, or to change the database. loads: the model
    revisions that were loaded, in order.
    """

    def __init__(
        self,
        *,
        seconds_per_prompt: float = 0.0,
        before_prompt: Callable[[ShardPrompt], None] | None = None,
        after_load: Callable[[int], None] | None = None,
    ) -> None:
        self.loaded_model_revision_id: int | None = None
        self.budget_tokens = 4096
        self.loads: list[int] = []
        self.seconds_per_prompt = seconds_per_prompt
        self.before_prompt = before_prompt
        self.after_load = after_load

    def device(self) -> str:
        return "fake"

    def place(self) -> str:
        return "fake"

    def versions(self) -> dict[str, str]:
        return {"fake": "1"}

    def logprobs(self, prompt: Prompt) -> list[float]:
        """Return the log-probability of each of the prompt's labels; tests override this."""
        return fake_logprobs(prompt)

    def score(self, engine: Engine, claim: Claim, should_stop: Callable[[], bool]) -> ShardResult:
        with read_session(engine) as session:
            prompts = shard_prompts(session, claim.shard_id)
        self._load(claim.model_revision_id)
        rows = []
        for item in prompts:
            if should_stop():
                raise InterruptedScoringError
            if self.before_prompt is not None:
                self.before_prompt(item)
            time.sleep(self.seconds_per_prompt)
            rows.append(item.row(self.logprobs(item.prompt)))
        return ShardResult(
            rows=rows,
            fingerprint={"engine": "fake", "packages": self.versions()},
            tokens_naive=len(rows),
            tokens_computed=len(rows),
            elapsed_s=self.seconds_per_prompt * len(rows) + 0.001,
        )

    def _load(self, model_revision_id: int) -> None:
        if self.loaded_model_revision_id != model_revision_id:
            self.loaded_model_revision_id = model_revision_id
            self.loads.append(model_revision_id)
            if self.after_load is not None:
                self.after_load(model_revision_id)

    def unload(self) -> None:
        self.loaded_model_revision_id = None
