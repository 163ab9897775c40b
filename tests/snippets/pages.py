"""What is in the pages of docs/: their fenced blocks, with what is said of them, and their links.

A comment above a block says what becomes of it:

    <!-- run -->                    it is run, and has to succeed
    <!-- run says "text" -->        and what it prints has this text in it
    <!-- is policy.cedar -->        it is the content of this file, which commands after it find
    <!-- settings -->               the server at https://catalog.example.com:8181 has it in its settings
    <!-- starts the server -->      in its place, the server of the tests is there
    <!-- not run: reason -->        it is for reading

`<!-- NAME -->` and `<!-- end of NAME -->` enclose a part that another test generates. They mark no block.
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
    """The fenced blocks of a page, in their order."""
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
    """The anchors of a page, as GitHub and mdBook make them of its headings."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[(.+?)\]\(.+?\)", r"\1", title)).strip().lower().replace(" ", "-") for title in titles}


def links(page):
    """Where a page's relative links lead, and which anchor they name."""
    text = re.sub(r"```.*?```", "", (DOCS / page).read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield target, (DOCS / page).parent / path if path else DOCS / page, anchor
