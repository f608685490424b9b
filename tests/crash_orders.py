# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""Somebody else's orders to the product's processes: see crash_site."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crash_steps import Step

_HERE = Path(__file__).parent
_ORDER, _CLOCK = 64, 8


@dataclass(frozen=True)
class Orders:
    """Two small files that the processes have mapped; environment: what they have to be started with."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PYTHONPATH": f"{_HERE / 'crash_site'}:{_HERE}:{_HERE.parent}",
            "TEST_ORDER": str(self.folder / "order"),
            "TEST_CLOCK": str(self.folder / "clock"),
        }

    def die(self, step: Step, when: str) -> None:
        """Whoever comes to this step dies there, once."""
        self._write("order", f"{step.name} {when}".encode().ljust(_ORDER, b"\0"))

    def withdraw(self) -> None:
        self._write("order", bytes(_ORDER))

    @property
    def order(self) -> str:
        """The step at which somebody is to die, and when; empty once he did."""
        return (self.folder / "order").read_bytes().rstrip(b"\0").decode()

    @property
    def is_done(self) -> bool:
        """Somebody died as told."""
        return (self.folder / "order").read_bytes() == bytes(_ORDER)

    def set_clock(self, offset_s: float) -> None:
        """All processes read so many seconds more than it is."""
        self._write("clock", struct.pack("d", offset_s))

    def _write(self, name: str, data: bytes) -> None:
        with (self.folder / name).open("r+b") as file:  # in place: they have it mapped
            file.write(data)


@contextmanager
def orders(folder: Path) -> Iterator[Orders]:
    """Nothing is ordered yet."""
    (folder / "order").write_bytes(bytes(_ORDER))
    (folder / "clock").write_bytes(bytes(_CLOCK))
    yield Orders(folder)
