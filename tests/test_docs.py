"""The documentation is true: what it names exists, and what exists is in the reference."""

import importlib
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "deploy/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
PROGRAMS = {"tessera": "tessera.cli", "workspace": "pipelines.workspace", "learner": "pipelines.learner"}


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def code(page: Path) -> Iterator[str]:
    """Each line of code of a page: of its `sh` blocks, without comments, and its inline spans."""
    text = page.read_text("utf-8")
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            yield from re.split(r"\s*&&\s*|\s{2,}#.*", line)
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def section(title: str) -> list[str]:
    """The first cells of the reference's table under `title`, without their backticks."""
    _, _, rest = REFERENCE.read_text("utf-8").partition(f"\n## {title}\n")
    assert rest, f"docs/reference.md has no section {title}"
    return re.findall(r"^\| `([^`]+)`", rest.partition("\n## ")[0], re.MULTILINE)


def targets() -> set[str]:
    """The Makefile's phony targets."""
    found = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return set(found[1].split())


@cache
def commands() -> dict[str, Any]:
    """Every command of the three programs by its full name, such as `tessera keys create`."""
    found: dict[str, Any] = {}

    def visit(name: str, command: Any) -> None:
        if hasattr(command, "commands"):
            for word, below in command.commands.items():
                visit(f"{name} {word}", below)
        else:
            found[name] = command

    for program, module in PROGRAMS.items():
        visit(program, typer.main.get_command(importlib.import_module(module).app))
    return found


def named_command(line: str) -> tuple[str, list[str]] | None:
    """The program's command that a line of code calls, and the options it is called with."""
    words = line.strip().removeprefix(".venv/bin/").split()
    if len(words) < 2 or words[0] not in PROGRAMS or not words[1].replace("-", "").isalpha():
        return None
    size = next((size for size in (3, 2) if " ".join(words[:size]) in commands()), 2)
    return " ".join(words[:size]), re.findall(r"--[a-z][a-z-]*", line)


def settings() -> set[str]:
    """The environment variables that the settings read."""
    source = (ROOT / "tessera" / "settings.py").read_text("utf-8")
    return set(re.findall(r'"(TESSERA_[A-Z_]+|DAGSTER_HOME)"', source))


def assets() -> set[str]:
    """The names of the workspace's assets."""
    definitions = importlib.import_module("pipelines.definitions").defs
    return {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    named = {word for line in code(page) for word in re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)", line)}

    assert named <= targets()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_and_option_that_a_page_names_exists(page: Path) -> None:
    for line in code(page):
        called = named_command(line)
        if called is None:
            continue
        name, options = called
        assert name in commands(), line
        known = {option for parameter in commands()[name].params for option in parameter.opts}
        assert set(options) <= known | {"--help"}, line


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_setting_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"\b(?:TESSERA_[A-Z_]+|DAGSTER_[A-Z_]+)\b", page.read_text("utf-8")))

    assert named <= settings()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=page_name)
def test_every_file_and_folder_that_a_page_names_exists(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", page.read_text("utf-8"))
    folders = [span for span in code(page) if re.fullmatch(r"[a-z]+/([a-z_]+\.py)?", span)]

    assert all((page.parent / link).exists() for link in links)
    assert all((ROOT / folder).exists() for folder in folders)


def test_every_make_target_is_in_the_reference() -> None:
    assert {row.split()[1] for row in section("Make targets")} == targets()


def test_every_make_target_explains_itself() -> None:
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert set(re.findall(r"^  make ([\w-]+) +\S", said, re.MULTILINE)) == targets()


def test_every_command_is_in_the_reference() -> None:
    rows = [named_command(row) for row in section("Commands")]

    assert {row[0] for row in rows if row} == set(commands())


def test_every_setting_is_in_the_reference() -> None:
    assert set(section("Settings")) == settings()


def test_every_asset_is_in_the_reference() -> None:
    assert set(section("Assets")) == assets()


def test_every_tool_is_in_the_reference() -> None:
    tools = importlib.import_module("tessera.server.tools").TOOLS

    assert set(section("Tools")) == {tool.name for tool in tools}


def test_every_metric_is_in_the_reference(store: Any) -> None:
    told = store.http().get("/metrics").text

    found = re.findall(r"^# TYPE (\w+) (\w+)", told, re.MULTILINE)
    assert set(section("Metrics")) == {name for name, _ in found if not name.endswith("_created")}


@pytest.fixture
def routes(store: Any) -> set[str]:
    """What the store serves, as `METHOD /path`, by its own description."""
    paths = store.http().get("/openapi.json").json()["paths"]
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


def shape(route: str) -> str:
    """A route whatever its parameters are called."""
    return re.sub(r"\{[^}]+\}", "{}", route)


def test_every_route_is_in_the_reference_with_its_parameters_named(routes: set[str]) -> None:
    assert set(section("Routes")) == routes


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_route_that_a_page_names_exists(page: Path, routes: set[str]) -> None:
    named = {line for line in code(page) if re.fullmatch(r"(GET|POST|PUT|PATCH|DELETE) /\S+", line)}

    assert {shape(route) for route in named} <= {shape(route) for route in routes}
