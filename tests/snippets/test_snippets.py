"""Commands and snippets of the documentation work as described, and its links are valid."""

import contextlib
import io
import os
import re
import subprocess
import sys
import tomllib

import duckdb
import duckdb_extensions
import pytest
from pages import DOCS, ROOT, blocks, headings, links, pages

# Languages of runnable blocks.
RUNNABLE = {"sh", "python", "sql"}


class Reader:
    """Executes the blocks of a page in order, in one shell, one Python and one DuckDB."""

    def __init__(self, server, private, directory):
        self._server = server
        self._private = private
        self._directory = directory
        self._names = {}
        self._connection = None
        bin_directory = directory / "bin"
        bin_directory.mkdir()
        (bin_directory / "slateberg").symlink_to(os.environ["SLATEBERG_BIN"])
        self._environment = {
            **os.environ,
            "PATH": f"{bin_directory}:{os.environ['PATH']}",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def keep(self, block):
        (self._directory / block.file).write_text(block.text + "\n")

    def follow(self, block):
        text = block.text.replace("http://127.0.0.1:8181", self._server.uri).replace("sb_...", self._server.key)
        if self._private is not None:
            text = text.replace("https://catalog.example.com:8181", self._private.uri)
        match block.language:
            case "sh":
                said = self._shell(text)
            case "python":
                said = self._python(block, text)
            case "sql":
                said = self._duckdb(text)
        if block.says is not None:
            assert block.says in said, f"{block} has said:\n{said}"

    def _shell(self, text):
        # Preserve definitions for the next block.
        kept = self._directory / "kept.sh"
        kept.touch()
        script = f'source "{kept}"\n{text}\n{{ export -p; declare -f; }} >"{kept}"\n'
        words = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(
            words, cwd=self._directory, env=self._environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _python(self, block, text):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.chdir(self._directory):
            exec(compile("\n" * block.line + text, DOCS / block.page, "exec"), self._names)
        return said.getvalue()

    def _duckdb(self, text):
        if self._connection is None:
            # The extensions are installed from Python packages into the reader's directory.
            settings = {"extension_directory": str(self._directory / "duckdb")}
            self._connection = duckdb.connect(config=settings)
            for extension in ("avro", "httpfs", "iceberg"):
                duckdb_extensions.import_extension(extension, con=self._connection)
                self._connection.execute(f"LOAD {extension}")
        said = []
        for statement in filter(None, map(str.strip, text.split(";"))):
            said += self._connection.execute(statement).fetchall()
        return str(said)


RUN = [page for page in pages() if any(block.is_run for block in blocks(page))]


@pytest.mark.parametrize("page", RUN)
def test_what_a_page_says_can_be_done(page, server, serve_with, tmp_path):
    settings = [block.text for block in blocks(page) if block.mark == "settings"]
    reader = Reader(server, serve_with(settings) if settings else None, tmp_path)
    for block in blocks(page):
        if block.file is not None:
            reader.keep(block)
        elif block.is_run:
            reader.follow(block)


@pytest.mark.parametrize("page", pages())
def test_every_command_is_run_or_says_why_not(page):
    unmarked = [str(block) for block in blocks(page) if block.language in RUNNABLE and block.mark is None]
    assert not unmarked


@pytest.mark.parametrize("page", pages())
def test_settings_are_those_that_there_are(page):
    defaults = tomllib.loads((ROOT / "config/default.toml").read_text())
    by_name = {"issuers", "subjects", "credentials", "warehouses", "options", "client_defaults", "client_overrides"}

    def expect(settings, known, path):
        for key, value in settings.items():
            assert key in known, f"{page}: there is no {path}{key}"
            if isinstance(value, dict) and key not in by_name:
                expect(value, known[key], f"{path}{key}.")

    for block in blocks(page):
        if block.language == "toml":
            said = tomllib.loads(block.text)
            # The file contains test principals for `slateberg policy test`, and no settings.
            if "principals" not in said:
                expect(said, defaults, "")


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page):
    for target, path, anchor in links(page):
        assert path.exists(), f"{page}: {target}"
        if anchor and path.suffix == ".md":
            assert anchor in headings(path), f"{page}: {target}"


def test_the_api_page_is_what_the_document_says():
    done = subprocess.run([sys.executable, DOCS / "openapi/page.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_page_is_in_the_book():
    listed = set(re.findall(r"\]\(([^)]+\.md)\)", (DOCS / "SUMMARY.md").read_text()))
    written = set(pages()) - {"SUMMARY.md"}
    assert written == listed, f"missing in SUMMARY.md: {written - listed}; missing: {listed - written}"
