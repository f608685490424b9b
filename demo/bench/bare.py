# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""The model alone, in a process of its own: float32, large batches, sorted by length as sentence-transformers does it.

As a program it answers each line of texts (a JSON list) with a line: the seconds that encoding them took.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from demo.bench.beside import beside


@contextmanager
def bare_model(batch: int) -> Iterator[Callable[[Sequence[str]], float]]:
    """Gives what encodes texts and says how many seconds it took. The model is loaded and warm."""
    with beside("demo.bench.bare", str(batch)) as (sending, answers):

        def encode(texts: Sequence[str]) -> float:
            sending.write(json.dumps(list(texts)) + "\n")
            sending.flush()
            return float(answers.readline())

        encode(["warm up"])
        yield encode
        sending.close()


def _main() -> None:
    import torch  # noqa: PLC0415  in this process alone
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    from ex_app.embed import files  # noqa: PLC0415
    from ex_app.settings import Settings  # noqa: PLC0415

    settings = Settings(app_secret="unused")
    model = SentenceTransformer(
        str(files.model_path(settings)), device="cpu", prompts=files.prompts(settings), local_files_only=True
    )
    model.eval()
    print(f"bare model: float32, {torch.get_num_threads()} threads, batches of {sys.argv[1]}", file=sys.stderr)
    for line in sys.stdin:
        texts = json.loads(line)
        started = time.perf_counter()
        model.encode_document(texts, batch_size=int(sys.argv[1]), show_progress_bar=False)
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    _main()
