"""What a model completes verbatim of texts that it is given."""

from collections.abc import Sequence

import numpy as np
import torch

from workers.engine.loading import LoadedModel
from workers.tokens import encoder


def shares_completed(loaded: LoadedModel, texts: Sequence[str], n: int) -> list[float] | None:
    """By text, the share of places from which the model completes the next n tokens verbatim, when it writes greedily.

    texts: several that begin alike; the places are those after what all have in common. None where a text is longer
    than the model's context, or has fewer than n tokens there.
    One pass over a text answers for all its places: greedy writing gives the next n tokens where each of them is the
    most probable one after all before it.
    """
    encode = encoder(loaded.tokenizer)
    encoded = [encode(text) for text in texts]
    shortest = min(map(len, encoded))
    same = next((place for place in range(shortest) if len({ids[place] for ids in encoded}) > 1), shortest)
    too_long = loaded.max_length is not None and max(map(len, encoded)) > loaded.max_length
    if too_long or same == 0 or shortest - same < n:
        return None
    shares = []
    for ids in encoded:
        with torch.no_grad():
            input_ids = torch.tensor([ids], device=loaded.device)  # (1, tokens)
            logits = loaded.model(input_ids=input_ids, use_cache=False).logits[0]  # (tokens, vocabulary)
        written = logits[same - 1 : -1].argmax(dim=-1).cpu().numpy()
        right = written == np.array(ids[same:])
        shares.append(float(np.lib.stride_tricks.sliding_window_view(right, n).all(axis=1).mean()))
    return shares
