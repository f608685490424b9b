# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Typed settings from the environment; AppAPI sets the first block when it deploys the app."""

from __future__ import annotations

import hmac
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Every knob with its default; names are the environment variables in lower case."""

    model_config = SettingsConfigDict(env_file=None, extra="ignore", frozen=True)

    # AppAPI (deploy environment)
    app_id: str = "semantic_search"
    app_version: str = "0.1.0"
    app_secret: SecretStr = Field(min_length=1)  # an empty one would let anybody sign as anybody
    app_host: str = "127.0.0.1"
    app_port: int = 23000
    app_persistent_storage: Path = Path("var")
    nextcloud_url: str = "http://127.0.0.1:8080"

    # Stores and model
    database_url: str = ""  # empty: SQLite in the persistent storage
    qdrant_url: str = ""  # empty: a supervised qdrant binary, else embedded Qdrant Edge
    qdrant_api_key: SecretStr = SecretStr("")
    embed_model: str = "bundled"  # "bundled" or a folder that sentence-transformers can load

    # Write path
    document_chunk_size: int = Field(default=220, ge=32, le=2048)  # tokens of the model's tokenizer
    document_chunk_overlap: int = Field(default=24, ge=0, le=512)  # tokens
    max_file_mb: int = Field(default=50, ge=1)
    extract_timeout_s: float = 60.0
    extract_memory_mb: int = 1024
    lease_s: float = 300.0
    max_attempts: int = 6
    reconcile_interval_s: float = 120.0
    stalled_after_minutes: float = Field(default=15.0, gt=0)  # without progress while work is due, before a warning

    # Read path
    search_deadline_s: float = 1.5  # for verifying; then what was not granted is not shown
    reach_deadline_s: float = 4.0  # for asking what is open to a user: once a minute, slow for people with many shares
    reach_ttl_s: float = 60.0
    proxied_searches: int = Field(default=2, ge=1)
    view_only_excerpts: bool = False

    # What is indexed besides
    index_external: bool = False  # external storages; federated shares never are

    # What is left out; each a list separated by commas
    excluded_tags: str = ""  # names of Nextcloud's tags: what carries one, or lies in such a folder
    excluded_paths: str = ""  # patterns as in a .gitignore, from the top of the owner's files
    excluded_types: str = ""  # beginnings of media types: "image/, video/"

    def key_for(self, purpose: str) -> bytes:
        """A key of our own for one purpose, made of the app's secret: the same in all processes, 32 bytes."""
        return hmac.digest(self.app_secret.get_secret_value().encode(), purpose.encode(), "sha256")

    @property
    def data_dir(self) -> Path:
        """Where everything of ours lies on disk."""
        return self.app_persistent_storage.absolute()

    @property
    def embed_socket(self) -> Path:
        """The embed process's unix socket."""
        return self.data_dir / "run" / "embed.sock"
