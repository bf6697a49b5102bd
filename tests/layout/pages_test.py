#!/usr/bin/env python3
"""Fails on a folder without a page, a page of more than 60 lines (the README: 200), and a link that leads nowhere.

Each folder has a page: README.md says what is in it, what it promises and what it may include. In
tests that holds for the upper level alone, as its folders mirror those that they test.
"""
import re
import sys

import tree

LIMIT = 60
LIMIT_OF_README = 200
NESTED = ("include/ringpress", "compress_kernels", "ring", "tuner", "nccl_plugin", "perf")
WITHOUT = {"include"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]*)(#[^)\s]*)?\)")


def is_written(folder):
    """By programs that were run here: no part of the tree."""
    return folder.name == "__pycache__" or tree.WRITTEN in (folder, *folder.parents)


def folders(root):
    """Relative paths of the folders that have pages."""
    found = [name for name in tree.FOLDERS if name not in WITHOUT]
    for upper in NESTED:
        found += [str(path.relative_to(root)) for path in sorted((root / upper).rglob("*"))
                  if path.is_dir() and any(path.rglob("*.*")) and not is_written(path.relative_to(root))]
    return [*found, "include/ringpress"]


def anchors(text):
    """What links may name after #, as GitHub makes it of headings: of equal ones, -1 and so on."""
    found, seen = set(), {}
    for head in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        name = re.sub(r"[^a-z0-9 _-]", "", head.lower()).replace(" ", "-")
        count = seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def broken_links(page):
    text = page.read_text()
    for target, anchor in LINK.findall(text):
        if "://" in target:
            continue
        path = page.parent / target if target else page
        if not path.exists():
            yield f"{target} is not there"
        elif anchor and path.suffix == ".md" and anchor[1:] not in anchors(path.read_text()):
            yield f"{target or page.name} has no {anchor}"


def main():
    findings = []
    for folder in folders(tree.ROOT):
        page = tree.ROOT / folder / "README.md"
        if not page.is_file():
            findings.append(f"{folder}: has no README.md")
        elif (lines := len(page.read_text().splitlines())) > LIMIT:
            findings.append(f"{folder}/README.md: {lines} lines, the limit is {LIMIT}")
    lines = len((tree.ROOT / "README.md").read_text().splitlines())
    if lines > LIMIT_OF_README:
        findings.append(f"README.md: {lines} lines, the limit is {LIMIT_OF_README}")
    pages = [tree.ROOT / "README.md", *(tree.ROOT / path for path in tree.files(tree.ROOT, (".md",)))]
    for page in pages:
        findings += [f"{page.relative_to(tree.ROOT)}: {link}" for link in broken_links(page)]
    for line in findings:
        print(line)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
