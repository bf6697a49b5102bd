#!/usr/bin/env python3
"""Fails on classes of the production code that have more members than LIMIT, and lists them, the largest first.

Counted are data members and functions, private and static ones too, and those that a macro of the same file or a
table (.inc) writes; not constructors, destructors, nested types, aliases, friends, and what is deleted or defaulted.
TABLES are listed, and do not fail.

  class_members.py             the list
  class_members.py --self-test
"""
import re
import sys

import tree

LIMIT = 25
INSTALLED = "include/ringpress/nccl"  # NCCL's structs have the members that NCCL gives them.
FOLDERS = ("include", "compress_kernels", "ring", "tuner", "nccl_plugin")
# What they are tables of. A member is a row.
TABLES = {
    "CallSettings": "settings", "Settings": "settings", "RingpressBackend": "torch's calls",
    "FactoryTable": "factory.h", "ringpressRealNccl": "NCCL's functions", "ringpressEngine": "NCCL's functions",
}
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)((?:[^\n]*\\\n)*[^\n]*)", re.M)
DEFINITION = re.compile(r"\s*(\w+)(?:\(([^)]*)\))?(.*)", re.S)
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|'
                   r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
CLASS = re.compile(r"(?:^|\s)(?:class|struct|union)\b\s*(?:alignas\s*\([^)]*\)\s*|\[\[[^]]*\]\]\s*)*([\w:]+)?"
                   r"(?:<[^{}]*>)?\s*(?:final\s*)?(?::[^:].*)?$", re.S)
INITIALISES = re.compile(r"\)[^()]*:[^:]")
NO_MEMBER = re.compile(r"(using|typedef|friend|static_assert|enum|class|struct|union|template\s*<[^;]*>\s*friend)\b")
BRACKETS = {"(": ")", "[": "]", "{": "}"}


def without_noise(text):
    """Without comments and strings. Directives stay."""
    def shorter(match):
        first = match.group().lstrip()[0]
        return match.group() if first == "#" else " " if first == "/" else '""'
    return NOISE.sub(shorter, text)


def expanded(text, folder, macros):
    """The text with what macros of the file and tables make of it, and without directives."""
    made, begin, is_left_out = [], 0, False
    for match in [*DIRECTIVE.finditer(text), None]:
        if not is_left_out:
            made.append(with_macros(text[begin:match.start() if match else len(text)], macros))
        if match is None:
            return "".join(made)
        begin = match.end()
        what, rest = match.group(1), match.group(2).replace("\\\n", "\n")
        if what == "endif":
            is_left_out = False
        elif what == "ifndef":
            is_left_out = rest.strip() in macros
        elif is_left_out:
            continue
        elif what == "define":
            name, parameters, body = DEFINITION.match(rest).groups()
            if parameters is not None:
                macros[name] = ([word.strip() for word in parameters.split(",")], body)
            elif body.strip() in macros:
                macros[name] = macros[body.strip()]
        elif what == "undef":
            macros.pop(rest.strip(), None)
        elif what == "include" and rest.strip().endswith('.inc"'):
            name = rest.strip().strip('"')
            for path in (folder / name, tree.ROOT / "include" / name, tree.ROOT / name):
                if path.is_file():  # Others are written when it is built.
                    made.append(expanded(without_noise(path.read_text()), path.parent, macros))
                    break


def with_macros(text, macros):
    if not macros:
        return text
    call = re.compile(r"\b(" + "|".join(map(re.escape, macros)) + r")\s*\(")
    at = 0
    while match := call.search(text, at):
        parameters, body = macros[match.group(1)]
        end = closing(text, match.end() - 1)
        arguments = [word.strip() for word in split_arguments(text[match.end():end])]
        if len(arguments) == len(parameters):
            named = dict(zip(parameters, arguments))
            body = re.sub(r"\w+", lambda word: named.get(word.group(), word.group()), body)
            text = text[:match.start()] + re.sub(r"\s*##\s*", "", body) + text[end + 1:]
            at = match.start()
        else:
            at = match.end()
    return text


def split_arguments(text):
    depth = begin = 0
    for i, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth == 0:
            yield text[begin:i]
            begin = i + 1
    yield text[begin:]


def closing(text, at):
    """Where the bracket that opens at `at` is closed."""
    opened = []
    for i in range(at, len(text)):
        if text[i] in BRACKETS:
            opened.append(BRACKETS[text[i]])
        elif opened and text[i] == opened[-1]:
            opened.pop()
            if not opened:
                return i
    raise ValueError(f"no end of: {text[at:at + 80]!r}")


def statements(text):
    """The statements of a block as (head, body or None, tail): up to a `;`, or up to the end of a body in braces."""
    begin = i = 0
    body = None
    while i < len(text):
        if text[i] in "([":
            i = closing(text, i)
        elif text[i] == "{":
            end = closing(text, i)
            head = text[begin:i]
            if body is None and is_followed_by_more(head, text[end + 1:]):
                body = (head, text[i + 1:end], end + 1)
            elif body is None:
                yield head, text[i + 1:end], ""
                begin = end + 1
            elif INITIALISES.search(body[0]) and not re.match(r"\s*[,{]", text[end + 1:]):
                yield body[0], body[1], ""  # A constructor, whose initializers had braces.
                begin, body = end + 1, None
            i = end
        elif text[i] == ";":
            yield (body[0], body[1], text[body[2]:i]) if body else (text[begin:i], None, "")
            begin, body = i + 1, None
        i += 1


def is_followed_by_more(head, rest):
    """Whether a body in braces does not end its statement: a type's, an initializer's."""
    head = re.sub(r"\btemplate\s*<[^{};]*>\s*", "", head.strip())
    if re.match(r"namespace\b|inline namespace\b|extern\b", head):
        return False
    if re.match(r"(typedef\s+)?(class|struct|union|enum)\b", head) and "(" not in without_alignment(head):
        return True
    return re.match(r"\s*[;,]", rest) is not None or "=" in re.sub(r"operator\s*[^\s(]+|[=!<>]=|\([^()]*\)", "", head) \
        or (INITIALISES.search(head) is not None and re.match(r"\s*[,{]", rest) is not None)


def without_templates(text):
    """Without what stands between < and >, as far as that can be told."""
    while True:
        shorter = re.sub(r"<[^<>]*>", "", text)
        if shorter == text:
            return text
        text = shorter


def without_alignment(text):
    return re.sub(r"alignas\s*\([^)]*\)", "", text)


def members_of(name, block):
    count = 0
    for head, body, tail in statements(block):
        head = re.sub(r"\b(public|private|protected)\s*:(?!:)", "", head).strip()
        whole = head if body is None else f"{head} {{}} {tail}"
        whole = re.sub(r"^template\s*(?=\w)", "", without_templates(whole))
        whole = re.sub(r"\[\[[^]]*\]\]", "", without_alignment(whole)).strip()
        if not whole or whole == "{}" or re.search(r"=\s*(delete|default)$", whole):
            continue
        if NO_MEMBER.match(whole):
            count += len(re.findall(r"\w+", re.sub(r"=[^,]*", "", tail))) if body is not None else 0
            continue
        if "operator" in whole:
            count += 1
            continue
        function = re.match(r"[^(=]*\(", whole)
        if function:
            count += re.search(rf"(^|\s|~){name}\s*\($", function.group()) is None
            continue
        flat = re.sub(r"\([^()]*\)|\{[^{}]*\}|\[[^]]*\]", "", whole)
        count += 1 + flat.count(",")
    return count


def classes(text, outer=""):
    """(name, members) of each class of the text, nested ones included."""
    for head, body, tail in statements(text):
        if body is None:
            continue
        head = re.sub(r"\b(public|private|protected)\s*:(?!:)", "", head)
        match = CLASS.search(re.sub(r"\btemplate\s*<[^{};]*?>\s*(?=class|struct|union)", "", head).strip())
        if match and "(" not in without_alignment(head) and "enum" not in head:
            typedef = re.match(r"\s*(\w+)", tail) if re.search(r"\btypedef\b", head) else None
            name = (match.group(1) or (typedef and typedef.group(1)) or "(unnamed)").split("::")[-1]
            yield outer + name, members_of(name, body)
            yield from classes(body, outer + name + "::")
        else:
            yield from classes(body, outer)


def self_test():
    text = """namespace a { class B final : public C<int> {
     public:
      B() : x_{1}, y_(2) {}
      int g() const { return 2; }
      ~B() override { int q; }
      B& operator=(const B&) = delete;
      bool operator==(const B&) const = default;
      bool operator<(const B& o) const { return x_ < o.x_; }
      template <class T> T get(int a, int b) const;
      static constexpr int kSome = 3;  // one; two
      int f() { struct D { int z; }; return 1; }
      enum class E { k1, k2 };
      struct F { int a = 0, b = 0; char c[3] = {'a', ';', '}'}; };
      friend class G;
      using H = int;
     private:
      std::map<int, std::vector<int>> x_, y_{};
      std::function<void(int, int)> done_ = [] { return; };
    }; }"""
    found = dict(classes(NOISE.sub(lambda m: " ", text)))
    assert found == {"B": 8, "B::D": 1, "B::F": 3}, found
    text = """
#define ROWS(X) \\
  X(one)        \\
  X(two)
#define ROW(name) __typeof__(the##name)* name;
typedef struct { ROWS(ROW) int three; } Table;
struct CallSettings {
#define RINGPRESS_SETTING(field, type, name, default_text, agree, meaning)
#define RINGPRESS_CALL_SETTING(field, type, name, default_text, agree, meaning) type field{};
#include "ringpress/internal/settings.inc"
#undef RINGPRESS_SETTING
  bool last;
};"""
    rows = (tree.ROOT / "include/ringpress/internal/settings.inc").read_text().count("\nRINGPRESS_CALL_SETTING(")
    found = dict(classes(expanded(without_noise(text), tree.ROOT, {})))
    assert found == {"Table": 3, "CallSettings": rows + 1}, found


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    found, tables = [], []
    for path in tree.files(tree.ROOT, tree.CODE_SUFFIXES, FOLDERS):
        if str(path).startswith(INSTALLED):
            continue
        text = expanded(without_noise((tree.ROOT / path).read_text()), (tree.ROOT / path).parent, {})
        large = [(members, name, path) for name, members in classes(text) if members > LIMIT]
        tables += [entry for entry in large if entry[1] in TABLES]
        found += [entry for entry in large if entry[1] not in TABLES]
    for members, name, path in sorted(found + tables, key=lambda entry: (-entry[0], str(entry[2]), entry[1])):
        print(f"{members:3} {name} ({path})" + (f": a table of {TABLES[name]}" if name in TABLES else ""))
    print(f"{len(found)} classes of more than {LIMIT} members, and {len(tables)} tables")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
