"""Score continuations with EleutherAI's lm-evaluation-harness: an outside witness for our own scores.

Runs in .venv-peer (`make peer`), apart from the project, whose code it does not import.

stdin, one JSON line per prompt:   {"prompt": "...", "continuations": [" A", " B"]}
stdout, one JSON line for each:    {"logprobs": [-1.25, -3.5]}      natural logarithm, summed over the tokens
"""

import argparse
import json
import logging
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

# The libraries read this when they are imported.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def harness_logprobs(model: Path, prompts: list[dict[str, object]], batch_size: int, device: str) -> list[list[float]]:
    """Return the log-probability in nats of every continuation, by prompt."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    harness = HFLM(pretrained=str(model), device=device, dtype="float32", batch_size=batch_size)
    requests = [
        Instance(
            request_type="loglikelihood",
            doc={},
            arguments=(entry["prompt"], continuation),
            idx=index,
            metadata=("", 0, 1),
        )
        for entry in prompts
        for index, continuation in enumerate(entry["continuations"])
    ]
    scores = iter(harness.loglikelihood(requests, disable_tqdm=True))
    return [[float(next(scores)[0]) for _ in entry["continuations"]] for entry in prompts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="folder with config.json, tokenizer and safetensors")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)

    prompts = [json.loads(line) for line in sys.stdin if line.strip()]
    # The harness and its libraries also print, but stdout is reserved for the scores.
    with redirect_stdout(sys.stderr):
        logprobs = harness_logprobs(arguments.model, prompts, arguments.batch_size, arguments.device)
    for values in logprobs:
        print(json.dumps({"logprobs": values}))


if __name__ == "__main__":
    main()
