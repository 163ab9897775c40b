"""Parses the pages of docs/: fenced blocks with their marks, and links.

A comment above a block is its mark:

    <!-- run -->                    commands to execute, which must succeed
    <!-- run says "text" -->        commands whose output must contain this text
    <!-- is policy.cedar -->        the content of this file, for later commands
    <!-- settings -->               settings of the server at https://catalog.example.com:8181
    <!-- starts the server -->      a command that the tests replace by their own server
    <!-- not run: reason -->        an example that is not executed

`<!-- NAME -->` and `<!-- end of NAME -->` enclose a part that another test generates. They are not
marks.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MARK = re.compile(r'<!-- (run|run says (?P<says>".*")|is (?P<file>[\w.-]+)|settings|starts the server|not run: .+) -->$')


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    mark: str | None
    says: str | None
    file: str | None

    @property
    def is_run(self):
        return self.mark is not None and self.mark.startswith("run")

    def __str__(self):
        return f"docs/{self.page}:{self.line}"


def pages():
    return sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def blocks(page):
    """The fenced blocks of a page in order."""
    found, open_block, mark = [], None, None
    lines_of_page = (DOCS / page).read_text().splitlines()
    generated = {name for line in lines_of_page for name in re.findall(r"^<!-- end of (.+) -->$", line)}
    borders = {f"<!-- {border} -->" for name in generated for border in (name, f"end of {name}")}
    for number, line in enumerate(lines_of_page, 1):
        fence = re.match(r"\s*```(\w*)", line)
        if open_block is None and fence:
            open_block = (number, fence[1], [])
        elif open_block is not None and fence:
            start, language, lines = open_block
            says = json.loads(mark["says"]) if mark and mark["says"] else None
            found.append(Block(page, start, language, "\n".join(lines), mark and mark[1], says, mark and mark["file"]))
            open_block, mark = None, None
        elif open_block is not None:
            open_block[2].append(line)
        elif line.startswith("<!--") and line not in borders:
            mark = MARK.match(line)
            assert mark, f"docs/{page}:{number}: {line} is no mark"
    assert open_block is None, f"docs/{page} ends within a block"
    return found


def headings(path):
    """The anchors of a page's headings, by the rules of GitHub and mdBook."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[(.+?)\]\(.+?\)", r"\1", title)).strip().lower().replace(" ", "-") for title in titles}


def links(page):
    """The targets and anchors of a page's relative links."""
    text = re.sub(r"```.*?```", "", (DOCS / page).read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield target, (DOCS / page).parent / path if path else DOCS / page, anchor
