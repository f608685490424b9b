# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
"""What keeps the house small and safe to change, where no linter looks."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ex_app.settings import Settings
from ex_app.sources import SOURCES, Source, open_sources
from ex_app.sources.file import FileSource

ROOT = Path(__file__).parents[1]
PRODUCT = sorted(path for folder in ("ex_app", "demo") for path in (ROOT / folder).rglob("*.py"))
EVERYTHING = [*PRODUCT, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "ex_app" / "ui").glob("*.*s"))]

MODULE_LINES = 400
FUNCTION_LINES = 60

# What a process of ours must not load before it needs it, and the doors never do.
HEAVY = ("torch", "transformers", "sentence_transformers", "kreuzberg", "pypdf", "qdrant_edge_py", "selenium")


def gaps(source: type) -> list[str]:
    """What a source must be able to do and cannot."""
    wanted = {
        name: inspect.signature(member)
        for name, member in vars(Source).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    return [
        name
        for name, signature in wanted.items()
        if not inspect.iscoroutinefunction(own := getattr(source, name, None))
        or own is getattr(Source, name)
        or list(inspect.signature(own).parameters) != list(signature.parameters)
    ]


def test_every_registered_source_can_do_all_that_a_source_must() -> None:
    assert {source.name: gaps(source) for source in SOURCES} == {source.name: [] for source in SOURCES}


def test_a_source_without_a_verifier_of_its_own_does_not_pass() -> None:
    class Careless(FileSource):
        verify = None  # type: ignore[assignment]

    class Heir(Source):
        """Has the protocol's empty methods."""

    assert gaps(Careless) == ["verify"]
    assert "verify" in gaps(Heir)


def test_sources_have_names_and_kinds_of_their_own() -> None:
    sources = open_sources()
    assert len(sources) == len(SOURCES)
    kinds = [kind for source in sources.values() for kind in source.kinds]
    assert len(kinds) == len(set(kinds))
    assert all(source.kinds for source in sources.values())
    assert all(":" not in name and name.islower() for name in sources)


@pytest.mark.parametrize("module", ["ex_app.app", "ex_app.__main__", "ex_app.supervisor", "ex_app.extract.sandbox"])
def test_the_doors_and_the_worker_never_load_what_only_other_processes_need(module: str) -> None:
    check = f"import sys, {module}; print(*[name for name in {HEAVY} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def test_the_words_of_the_house_need_nothing_of_ours() -> None:
    check = "import sys, ex_app.domain; print(*[name for name in sys.modules if name.startswith('ex_app.')])"
    loaded = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["ex_app.domain"]


def test_modules_and_functions_fit_on_a_screen_or_two() -> None:
    too_long = []
    for path in PRODUCT:
        text = path.read_text("utf-8")
        lines = len(text.splitlines())
        too_long += [(str(path), lines)] if lines > MODULE_LINES else []
        functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        lengths = [(f"{path}:{n.name}", (n.end_lineno or 0) - n.lineno + 1) for n in functions]
        too_long += [(where, length) for where, length in lengths if length > FUNCTION_LINES]
    assert too_long == []


def test_every_knob_that_people_are_told_of_is_one() -> None:
    """Those that AppAPI offers when it deploys the app are the first ones of the README, in its order."""
    told = re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    offered = re.findall(r"<name>([A-Z_]+)</name>", (ROOT / "appinfo" / "info.xml").read_text("utf-8"))
    known = {name.upper() for name in Settings.model_fields} | {"LOG_LEVEL"}
    assert set(told) <= known
    assert offered == told[: len(offered)]
    assert len(offered) == 9, "the README says how many"


def test_every_file_says_whose_it_is_and_under_which_licence() -> None:
    silent = []
    for path in EVERYTHING:
        head = "\n".join(path.read_text("utf-8").splitlines()[:4])
        if "SPDX-FileCopyrightText: " not in head or "SPDX-License-Identifier: AGPL-3.0-or-later" not in head:
            silent.append(str(path))
    assert silent == []
