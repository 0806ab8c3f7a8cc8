"""The notebooks: `edit` opens them in a browser, `html` writes each as one file that any browser shows.

Promises that an exported page is whole or not there: all notebooks run first, and only when every one came to
its end do the pages replace those of before; a cell that fails is named with its error, and the status is 1.
A page holds no script and reaches no network. Starts the store of the home when none answers, and stops it.
"""

import argparse
import importlib.util
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines import attached, embedded
from tessera.errors import TesseraError
from tessera.settings import Settings

FOLDER = Path(__file__).parent.parent / "notebooks"
console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)

_CELL = re.compile(r"__marimo__cell_([A-Za-z]+)_")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #1f2328 }}
body {{ max-width: 70rem; margin: 2rem auto; padding: 0 1rem }}
h1, h2 {{ line-height: 1.25; overflow-wrap: anywhere }}
code {{ font-size: .9em; overflow-wrap: anywhere }}
section {{ overflow-x: auto }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


class CellError(TesseraError):
    """A notebook's cell failed: the sentence names the notebook, the cell and the error."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when done, 1 when a notebook or the store failed."""
    parser = argparse.ArgumentParser(prog="notebooks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("edit", "html"))
    parser.add_argument("files", nargs="*", type=Path, help="notebooks to export (default: all)")
    parser.add_argument("--output", type=Path, help="where the pages go (default: notebooks in the home)")
    chosen = parser.parse_args(arguments)
    attached.end_on_signals()
    try:
        settings = Settings.from_environment()
        with embedded.store(settings) as settings:
            if chosen.command == "edit":
                return edit(settings)
            pages = export(settings, chosen.files or all_notebooks(), chosen.output)
    except (TesseraError, OSError) as error:
        console.print(f"failed: {error}")
        return 1
    except attached.Stopped as stopped:
        console.print("stopped; nothing is left running")
        return 0 if chosen.command == "edit" else stopped.status
    for page in pages:
        console.print(str(page))
    return 0


def all_notebooks() -> list[Path]:
    """The project's notebooks, by name."""
    return sorted(FOLDER.glob("*.py"))


def edit(settings: Settings) -> int:
    """Serve the notebooks beside the store at `settings.url` until interrupted; marimo's status."""
    environment = {"TESSERA_URL": settings.url, "MARIMO_SKIP_UPDATE_CHECK": "1"}
    console.print(f"opening the notebooks beside the store at {settings.url}; Ctrl-C ends both")
    child = attached.start(
        "pipelines.notebooks:marimo", "edit", str(FOLDER), "--host", embedded.LOOPBACK, env=environment
    )
    with attached.stopping(child):
        return attached.wait(child)


def marimo() -> int:
    """marimo's own command line, as the child's entry point."""
    from marimo._cli.cli import main as marimo_main

    marimo_main()
    return 0


def export(settings: Settings, notebooks: Sequence[Path], output: Path | None = None) -> list[Path]:
    """Write the notebooks as pages; all of them, or none and the error of the first that failed."""
    folder = settings.home / "notebooks" if output is None else output.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TESSERA_URL"] = settings.url
    made = {folder / f"{notebook.stem}.html": page(notebook) for notebook in notebooks}
    for path, text in made.items():
        _replace(path, text)
    return list(made)


def page(notebook: Path) -> str:
    """Run a notebook from its beginning; its outputs as one HTML document. Raises CellError."""
    app = _app(notebook)
    arguments, sys.argv = sys.argv, [str(notebook)]
    try:
        outputs, _ = app.run()
    except Exception as error:
        raise CellError(_described(app, notebook, error)) from error
    finally:
        sys.argv = arguments
    body = "\n".join(f"<section>{html}</section>" for html in map(_html, outputs) if html)
    return _PAGE.format(title=escape(notebook.stem.replace("_", " ")), body=body)


def _app(notebook: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"notebook_{notebook.stem}", notebook)
    if spec is None or spec.loader is None or not notebook.is_file():
        raise CellError(f"{notebook} is no notebook")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CellError(f"{notebook} cannot be loaded: {type(error).__name__}: {error}") from error
    return module.app


def _html(output: Any) -> str:
    """What a cell shows. A control shows nothing: what it chose is said by the cells that follow."""
    from marimo import Html
    from marimo._plugins.ui._core.ui_element import UIElement

    if output is None or isinstance(output, UIElement):
        return ""
    return output.text if isinstance(output, Html) else f"<pre>{escape(str(output))}</pre>"


def _described(app: Any, notebook: Path, error: BaseException) -> str:
    """The notebook, the cell, its line and the error, on a line or two."""
    said = f"{type(error).__name__}: {error}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        found = _CELL.search(frame.filename)
        if found:
            name = app._cell_manager.cell_name(found[1])
            return f"{notebook.name}, cell {name}, at `{frame.line}`: {said}"
    return f"{notebook.name}: {said}"


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(prefix=".", suffix=".html", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


if __name__ == "__main__":
    sys.exit(main())
