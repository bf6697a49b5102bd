#!/usr/bin/env python3
"""Writes the shim's entry points from NCCL's header and a list of newer functions.

usage: generate.py NCCL_H ENGINE_H NEWER_FUNCTIONS OUTPUT_FOLDER
Makes, in OUTPUT_FOLDER:
  trampolines.S   every function, as one load and a jump through its slot
  functions.inc   RINGPRESS_FUNCTION(name, what a call returns if NCCL has no such function)
  hooks.inc       a typed function for each one that the engine takes part in, but for those that
                  shim.c has by hand
"""
import pathlib
import re
import sys

PROTOTYPE = re.compile(r"^(?:__attribute__\(\(.*?\)\) )?(ncclResult_t|void|const char\*) "
                       r"(nccl[A-Z]\w*)\(([^)]*)\);", re.M)
# What is returned in place of a function that the real library does not have.
ABSENT = {"ncclResult_t": "kNumber", "void": "kNumber", "const char*": "kText"}

X86_64 = {
    "entry": ["endbr64", "jmp *ringpress_preload_slots+{offset}(%rip)"],
    "first": ["endbr64", "pushq ${index}", "jmp resolve_and_jump"],
    # The stack holds the return address and the index; it is 16-byte aligned here.
    "resolve": ["pushq %rdi", "pushq %rsi", "pushq %rdx", "pushq %rcx", "pushq %r8", "pushq %r9",
                "pushq %rax", "pushq %r10", "subq $128, %rsp",
                *(f"movups %xmm{i}, {16 * i}(%rsp)" for i in range(8)),
                "movq 192(%rsp), %rdi", "call ringpress_preload_resolve", "movq %rax, %r11",
                *(f"movups {16 * i}(%rsp), %xmm{i}" for i in range(8)),
                "addq $128, %rsp", "popq %r10", "popq %rax", "popq %r9", "popq %r8", "popq %rcx",
                "popq %rdx", "popq %rsi", "popq %rdi", "addq $8, %rsp", "jmp *%r11"],
}
AARCH64 = {
    "entry": ["hint #34", "adrp x16, ringpress_preload_slots+{offset}",
              "ldr x16, [x16, :lo12:ringpress_preload_slots+{offset}]", "br x16"],
    "first": ["hint #34", "mov x17, #{index}", "b resolve_and_jump"],
    "resolve": ["stp x29, x30, [sp, #-224]!", "mov x29, sp",
                *(f"stp x{i}, x{i + 1}, [sp, #{16 + 8 * i}]" for i in range(0, 8, 2)),
                "str x8, [sp, #80]",
                *(f"stp q{i}, q{i + 1}, [sp, #{96 + 16 * i}]" for i in range(0, 8, 2)),
                "mov x0, x17", "bl ringpress_preload_resolve", "mov x16, x0",
                *(f"ldp q{i}, q{i + 1}, [sp, #{96 + 16 * i}]" for i in range(0, 8, 2)),
                "ldr x8, [sp, #80]",
                *(f"ldp x{i}, x{i + 1}, [sp, #{16 + 8 * i}]" for i in range(0, 8, 2)),
                "ldp x29, x30, [sp], #224", "br x16"],
}


def instructions(lines, **values):
    return [f"  {line.format(**values)}" for line in lines]


def function(name, lines, labels=(), is_global=False):
    text = [f".type {name}, %function"]
    for label in (name, *labels):
        if is_global:
            text.append(f".globl {label}")
        text.append(f".type {label}, %function")
        text.append(f"{label}:")
    return text + lines + [f".size {name}, . - {name}", ""]


def machine_code(names, machine):
    text = [".text", ""]
    for index, name in enumerate(names):
        # By this text the shim knows itself, under whatever name it was loaded.
        mark = [".balign 16", '.ascii "ringpress shim 1"'] if name == "ncclGetVersion" else []
        text += mark + [".balign 16"] if not mark else mark
        text += function(name, instructions(machine["entry"], offset=8 * index),
                         ["p" + name], True)
        text += function(f"first_{name}", instructions(machine["first"], index=index))
    text += function("resolve_and_jump", instructions(machine["resolve"]))
    return text


def trampolines(names):
    slots = [f"  .8byte first_{name}" for name in names]
    return "\n".join(
        ["#if defined(__x86_64__)", *machine_code(names, X86_64),
         "#elif defined(__aarch64__)", *machine_code(names, AARCH64),
         "#else", '#error "no trampolines for this processor"', "#endif", "",
         ".hidden ringpress_preload_resolve", ".hidden ringpress_preload_slots",
         ".globl ringpress_preload_slots", ".data", ".balign 8", "ringpress_preload_slots:", *slots,
         '.section .note.GNU-stack,"",%progbits', ""])


def parameters(text):
    """The declarations of a prototype and the bare names in them."""
    declared = [" ".join(part.split()) for part in text.split(",")]
    if declared == ["void"]:
        return "void", ""
    return ", ".join(declared), ", ".join(re.search(r"(\w+)$", part).group(1) for part in declared)


# Hooks that do more than to hand over.
BY_HAND = {"ncclGroupStart", "ncclGroupEnd", "ncclGroupSimulateEnd", "ncclGetLastError"}


def hook(name, prototypes):
    kind = prototypes[name][0]
    declared, passed = parameters(prototypes[name][1])
    short = name.removeprefix("nccl")
    tell = "  tell_of_fork();\n" if name.startswith("ncclCommInit") else ""
    return (f"static {kind} hook_{short}({declared}) {{\n{tell}"
            f"  if (!enter()) return real.{short}({passed});\n"
            f"  {kind} result = engine.{short}({passed});\n"
            f"  leave();\n"
            f"  return result;\n}}\n")


def main():
    header, engine, newer, output = map(pathlib.Path, sys.argv[1:5])
    text = header.read_text(encoding="utf-8")
    prototypes = {m.group(2): (m.group(1), m.group(3)) for m in PROTOTYPE.finditer(text)}
    missed = set(re.findall(r"^[\w(].*\b(nccl[A-Z]\w*)\(", text, re.M)) - set(prototypes)
    if missed:
        sys.exit(f"{header}: not understood: {', '.join(sorted(missed))}")
    hooked = ["nccl" + short for short in
              re.findall(r"^  X\((\w+)\)", engine.read_text(encoding="utf-8"), re.M)]
    names = list(prototypes)
    for line in newer.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#") and line not in prototypes:
            names.append(line)
    absent = {name: ABSENT[prototypes[name][0]] if name in prototypes else "kNumber"
              for name in names}
    output.mkdir(parents=True, exist_ok=True)
    (output / "trampolines.S").write_text(trampolines(names), encoding="utf-8")
    (output / "functions.inc").write_text(
        "".join(f"RINGPRESS_FUNCTION({name}, {absent[name]})\n" for name in names),
        encoding="utf-8")
    (output / "hooks.inc").write_text("\n".join(hook(name, prototypes) for name in hooked
                                                if name not in BY_HAND), encoding="utf-8")


if __name__ == "__main__":
    main()
