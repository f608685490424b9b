# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The dense model itself: import only inside the embed process, it costs seconds and half a gigabyte."""

from __future__ import annotations

import copy
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from ex_app.domain import EmbedderUnavailable
from ex_app.embed import files
from ex_app.embed.wire import Vectors
from ex_app.embed.yardstick import PAIRS, yardstick
from ex_app.settings import Settings

logger = logging.getLogger(__name__)

# On CPUs larger batches only cost memory.
BATCH: Final = 16

# Passages are encoded side by side on a core or a few each: no core waits for another after every step, as it does
# where all work on one batch. More lanes than these gain nothing that is worth their memory.
_LANES: Final = 4

# The self-test: one batch of passages of common length, each precision timed for at most half a second.
_TRIAL_TEXT: Final = "The travel policy limits a hotel night to one hundred and twenty euros, breakfast included. " * 6
_TRIAL_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Model:
    """Several faces of one set of weights, because a tokenizer must not be used by two threads at once."""

    name: str
    dimensions: int
    max_tokens: int
    cores: int  # that torch would use
    queries: SentenceTransformer
    documents: SimpleQueue[SentenceTransformer]  # those that nobody uses at the moment
    lanes: int  # so many threads may encode passages at the same time
    unrelated: float  # mean cosine of a question and a passage that have nothing to do with each other
    related: float  # and of those that belong together

    def encode_query(self, text: str) -> Vectors:
        """One row of unit length; call it from the query thread only."""
        torch.set_num_threads(self.cores)
        return _unit(self.queries.encode_query([text], convert_to_tensor=True, show_progress_bar=False))

    def encode_documents(self, texts: Sequence[str], *, threads: int) -> Vectors:
        """One row of unit length for each text; call it from the document threads only, no more than `lanes`."""
        torch.set_num_threads(threads)  # counts for the calling thread alone, so questions keep all cores
        face = self.documents.get()
        try:
            rows = face.encode_document(list(texts), batch_size=BATCH, convert_to_tensor=True, show_progress_bar=False)
        finally:
            self.documents.put(face)
        return _unit(rows)


def load(settings: Settings) -> Model:
    """Read the model from disk (never from a hub) and settle on the faster precision of this machine."""
    device = _device()
    loaded = SentenceTransformer(
        str(files.model_path(settings)), device=device, prompts=files.prompts(settings), local_files_only=True
    )
    loaded.eval()
    chosen = _faster(loaded)
    dimensions = chosen.get_embedding_dimension()
    if dimensions is None:
        raise EmbedderUnavailable("the embedding model does not state its dimensions")
    queries = _another_face(chosen)
    unrelated, related = yardstick(
        _unit(queries.encode_query([question for question, _ in PAIRS], convert_to_tensor=True)),
        _unit(chosen.encode_document([passage for _, passage in PAIRS], convert_to_tensor=True)),
    )
    cores = torch.get_num_threads()
    lanes = min(cores, _LANES) if device == "cpu" else 1
    documents: SimpleQueue[SentenceTransformer] = SimpleQueue()
    for face in (chosen, *(_another_face(chosen) for _ in range(lanes - 1))):
        documents.put(face)
    return Model(
        name=files.model_name(settings),
        dimensions=dimensions,
        max_tokens=chosen.max_seq_length or files.max_tokens(settings),
        cores=cores,
        queries=queries,
        documents=documents,
        lanes=lanes,
        unrelated=unrelated,
        related=related,
    )


def _device() -> str:
    if os.environ.get("COMPUTE_DEVICE", "").upper() == "CUDA" and torch.cuda.is_available():
        return "cuda"
    return "cpu"


def _another_face(model: SentenceTransformer) -> SentenceTransformer:
    """A copy with everything of its own except the weights."""
    weights: list[torch.Tensor] = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(weight): weight for weight in weights})


def _faster(model: SentenceTransformer) -> SentenceTransformer:
    """bfloat16 is three times as fast on some CPUs and five times slower on others: try."""
    half = copy.deepcopy(model).to(torch.bfloat16)
    full_seconds, half_seconds = _seconds_per_batch(model), _seconds_per_batch(half)
    chosen = half if half_seconds < full_seconds else model
    logger.info(
        "embed_precision chosen=%s float32_ms=%.0f bfloat16_ms=%.0f",
        "bfloat16" if chosen is half else "float32",
        full_seconds * 1000,
        half_seconds * 1000,
    )
    return chosen


def _seconds_per_batch(model: SentenceTransformer) -> float:
    texts = [_TRIAL_TEXT] * BATCH
    model.encode(texts[:1], show_progress_bar=False)  # the first call pays for what later ones don't
    best = float("inf")
    end = time.perf_counter() + _TRIAL_SECONDS
    while (started := time.perf_counter()) < end:
        model.encode(texts, batch_size=BATCH, show_progress_bar=False)
        best = min(best, time.perf_counter() - started)
    return best


def _unit(rows: torch.Tensor) -> Vectors:
    """Unit length again in float32: bfloat16 rounds lengths to two digits."""
    exact = torch.nn.functional.normalize(rows.to(torch.float32), dim=1)
    return np.ascontiguousarray(exact.cpu().numpy(), dtype=np.float32)
