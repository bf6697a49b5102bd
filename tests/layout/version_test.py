#!/usr/bin/env python3
"""Fails where the library's version is stated a second time.

include/ringpress/version.h states it. CMake reads it there, code takes the macros, and the README's
changelog begins with it. Nothing else holds its number, nor puts it together from its parts.

`version_test.py` checks the tree; `version_test.py --self-test` proves that each offence is found.
"""
import re
import sys

import tree

HEADER = "include/ringpress/version.h"
PART = re.compile(r"^#define RINGPRESS_VERSION_(MAJOR|MINOR|PATCH) (\d+)$", re.MULTILINE)
DEFINITION = re.compile(r"#\s*define\s+RINGPRESS_VERSION|\bproject\([^)]*VERSION\s+\d", re.IGNORECASE)
CHANGELOG_ENTRY = re.compile(r"^### (\d+\.\d+\.\d+)", re.MULTILINE)
# MAJOR alone is a part of file names.
PARTS_TOGETHER = re.compile(r"RINGPRESS_VERSION_(MINOR|PATCH)")


def stated(header):
    """The version that the text of the header states, or None."""
    parts = dict(PART.findall(header))
    if set(parts) != {"MAJOR", "MINOR", "PATCH"}:
        return None
    return "{MAJOR}.{MINOR}.{PATCH}".format(**parts)


def offences(version, texts):
    """Printable lines; `texts` maps paths to what is in the files."""
    number = re.compile(rf"(?<!\d)(?<!\d\.){re.escape(version)}(?!\.?\d)")
    for path, text in texts.items():
        if path == HEADER:
            continue
        for line_number, line in enumerate(text.splitlines(), 1):
            if path == "README.md" and CHANGELOG_ENTRY.match(line):
                continue
            if number.search(line) or DEFINITION.search(line) or PARTS_TOGETHER.search(line):
                yield f"{path}:{line_number}: a second statement of the version: {line.strip()}"
    newest = CHANGELOG_ENTRY.search(texts.get("README.md", ""))
    if newest is None or newest.group(1) != version:
        yield f"README.md: the changelog does not begin with {version}, which {HEADER} states"


def self_test():
    header = "".join(f"#define RINGPRESS_VERSION_{part} {i + 4}\n"
                     for i, part in enumerate(("MAJOR", "MINOR", "PATCH")))
    assert stated(header) == "4.5.6" and stated(header.replace("PATCH", "OTHER")) is None
    good = {HEADER: header, "README.md": "## Changelog\n### 4.5.6\n### 4.5.5\n",
            "a.cc": 'log("version " RINGPRESS_VERSION, MAJOR(RINGPRESS_VERSION_MAJOR)); // 14.5.6 4.5.6.7',
            "CMakeLists.txt": "project(ringpress VERSION ${MAJOR}.${MINOR} LANGUAGES C)"}
    assert not list(offences("4.5.6", good)), list(offences("4.5.6", good))
    for path, text in (("a.py", 'VERSION = "4.5.6"'), ("a.h", "/* 4.5.6. */"),
                       ("a.cc", 'log("%d.%d.%d", RINGPRESS_VERSION_MAJOR, RINGPRESS_VERSION_MINOR)'),
                       ("a.h", "#define RINGPRESS_VERSION_TEXT something"),
                       ("CMakeLists.txt", "project(ringpress VERSION 4.5 LANGUAGES C)"),
                       ("README.md", "### 4.5.5\n"), ("README.md", "### 4.5.6\n`libringpress.so.4.5.6`\n")):
        assert len(list(offences("4.5.6", {**good, path: text}))) == 1, (path, text)


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    version = stated((tree.ROOT / HEADER).read_text(encoding="utf-8"))
    if version is None:
        print(f"{HEADER}: states no version")
        return 1
    suffixes = tree.CODE_SUFFIXES + tree.SCRIPT_SUFFIXES + (".txt", ".md", ".in", ".json")
    paths = [path for path in tree.files(tree.ROOT, suffixes)
             if "results" not in path.parts and path.name not in ("version_test.py",)]
    paths += [tree.ROOT / "README.md", tree.ROOT / "CMakeLists.txt"]
    texts = {str((tree.ROOT / path).relative_to(tree.ROOT)):
             (tree.ROOT / path).read_text(encoding="utf-8", errors="replace") for path in paths}
    found = list(offences(version, texts))
    print("\n".join(found) or f"{version} is stated once, in {len(texts)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
