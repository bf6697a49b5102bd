#!/usr/bin/env python3
"""The table of settings in nccl_plugin/session/settings/settings.md, made from include/ringpress/internal/settings.inc.

usage: settings_table.py --check PAGE    fails if the table there is not the current one
       settings_table.py --write PAGE    puts the current one there
       settings_table.py --self-test
The table stands between <!-- settings --> and <!-- /settings -->.
"""
import pathlib
import re
import sys

import tree

BEGIN = "<!-- settings -->"
END = "<!-- /settings -->"
LIST = tree.ROOT / "include" / "ringpress" / "internal" / "settings.inc"
STRING = r'"((?:[^"\\]|\\.)*)"'
ENTRY = re.compile(
    r"RINGPRESS_(?:CALL_)?SETTING\(\s*\w+\s*,\s*[\w:<>]+\s*,\s*" + STRING + r"\s*,\s*" + STRING +
    r"\s*,\s*(true|false)\s*,\s*((?:" + STRING + r"\s*)+)\)", re.S)


def unquote(text):
    """The value of adjacent C string literals."""
    return "".join(re.sub(r"\\(.)", r"\1", part) for part in re.findall(STRING, text))


def settings(text):
    """(name, default, same on all ranks?, meaning) of each entry of the list."""
    text = re.sub(r"^\s*//.*$", "", text, flags=re.M)
    found = [(m.group(1), m.group(2), m.group(3) == "true", unquote(m.group(4)))
             for m in ENTRY.finditer(text)]
    if len(found) != text.count("SETTING("):
        raise ValueError("settings.inc has an entry that this script cannot read")
    return found


def table(entries):
    lines = ["| variable | default | same on all ranks | meaning |", "|---|---|---|---|"]
    for name, default, agree, meaning in entries:
        shown = f"`{default}`" if default else "(empty)"
        lines.append(f"| `{name}` | {shown} | {'yes' if agree else 'no'} | "
                     f"{meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def replaced(readme, new_table):
    """The text with its table replaced."""
    begin, end = readme.find(BEGIN), readme.find(END)
    if begin < 0 or end < begin:
        raise ValueError(f"no {BEGIN} ... {END} in the text")
    return readme[:begin] + BEGIN + "\n" + new_table + readme[end:]


def self_test():
    entries = settings('// RINGPRESS_SETTING(field, ...)\n'
                       'RINGPRESS_SETTING(a, std::size_t, "A", "1", true,\n  "x | y, " "z")\n'
                       'RINGPRESS_SETTING(b, bool, "B", "", false, "say \\"no\\"")\n')
    assert entries == [("A", "1", True, "x | y, z"), ("B", "", False, 'say "no"')], entries
    text = replaced(f"top\n{BEGIN}\nold\n{END}\nbottom", table(entries))
    assert "old" not in text and text.endswith(f"{END}\nbottom") and "| `A` | `1` | yes |" in text
    assert replaced(text, table(entries)) == text


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    mode, path = sys.argv[1], pathlib.Path(sys.argv[2])
    readme = path.read_text(encoding="utf-8")
    current = replaced(readme, table(settings(LIST.read_text(encoding="utf-8"))))
    if mode == "--write":
        path.write_text(current, encoding="utf-8")
        return 0
    if current != readme:
        print(f"{path}: the table of settings is not that of settings.inc; run\n"
              f"  python3 tests/layout/settings_table.py --write {path.name}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
