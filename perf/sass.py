"""Instructions that a warp issues for one round of a kernel's loop, from what nvdisasm prints.

Which of the branches in a loop are taken depends on what the kernel is called with. So a round is
described by the work that it is known to do, and what is counted is the cheapest way round
the loop that does exactly that work: no warp that does it issues fewer instructions. Instructions
with a predicate are issued whether or not they do anything: an access of a kind that is a part of the
work does it, one of another kind is for other alignments. A loop within the loop is counted once,
unless the work takes it to run more often. Slow paths that are calls (of divisions),
or for warps that have come apart, are never taken.
"""
import collections
import dataclasses
import heapq
import itertools
import math
import re
import subprocess

LABEL = re.compile(r"^(\.L_x?_?\d+):")
LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?);?\s*$")
TARGET = re.compile(r"`\((\.L\w+)\)")
INDIRECT = re.compile(r'BRANCH_TARGETS ([^"]*)"')
WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
ENDS = {"EXIT", "RET", "BRX", "JMP", "KILL", "BPT"}
# Never on the way: slow paths.
CALLS = {"CALL"}
# Work that a way may do without being asked for: MUFU stands for a division.
ARITHMETIC = {"MUFU"}
GOAL = -1  # In the place of a block: the loop's head, once round.


@dataclasses.dataclass
class Instruction:
    address: int
    predicate: str  # Empty where there is none.
    operation: str  # With its modifiers.
    targets: list   # Addresses, of a branch.

    @property
    def name(self):
        return self.operation.split(".")[0]

    @property
    def work(self):
        """The kind of work that it does, such as LDG.16 for a load of 16 bytes; None for the rest."""
        if self.name in ("SHFL", *ARITHMETIC):
            return self.name
        if self.name not in ("LDG", "STG"):
            return None
        words = self.operation.split(".")
        return f"{self.name}.{next((WIDTHS[word] for word in words if word in WIDTHS), 4)}"


def disassemble(cubin):
    """{mangled name of a kernel: its instructions}."""
    text = subprocess.run(["nvdisasm", "-c", str(cubin)], check=True, capture_output=True,
                          text=True).stdout
    return read(text)


def read(text):
    kernels, name, lines, labels = {}, None, [], {}
    for line in text.splitlines() + ["\t.section\t.text.,"]:
        if line.startswith("\t.section\t"):
            if name and lines:
                kernels[name] = [resolve(words, labels) for words in lines]
            match = re.match(r"\t\.section\t\.text\.(\w+),", line)
            name, lines, labels = match and match.group(1), [], {}
        elif match := LABEL.match(line):
            labels[match.group(1)] = lines[-1][0] + 16 if lines else 0
        elif match := LINE.match(line):
            lines.append((int(match.group(1), 16), (match.group(2) or "").strip(), match.group(3),
                          match.group(4)))
    return kernels


def resolve(words, labels):
    address, predicate, operation, operands = words
    names = TARGET.findall(operands)
    if match := INDIRECT.search(operands):
        names = match.group(1).split(",")
    # BRA.DIV is taken by warps that have come apart, which these kernels' never do.
    is_branch = operation.split(".")[0] in ("BRA", "BRX") and operation != "BRA.DIV"
    targets = [labels[name.strip()] for name in names] if is_branch else []
    if is_branch and re.search(r"!?U?P\d", operands.split("`")[0]):
        predicate = predicate or "@P"  # A second condition stands among the operands.
    return Instruction(address, predicate, operation, targets)


def successors(instructions, index, index_of):
    """Indices that may come after an instruction."""
    instruction = instructions[index]
    if instruction.name in CALLS and not instruction.predicate:
        return []
    after = [index_of[target] for target in instruction.targets]
    falls_through = instruction.predicate or (instruction.name not in ENDS and
                                              not instruction.targets)
    return after + ([index + 1] if falls_through and index + 1 < len(instructions) else [])


def reached(instructions, index_of, without=None):
    """Indices of what can follow the first instruction, by ways that leave one out."""
    pending, seen = [0], set()
    while pending:
        index = pending.pop()
        if index in seen or index == without:
            continue
        seen.add(index)
        pending += successors(instructions, index, index_of)
    return seen


def loop_of(instructions):
    """(index of the first instruction, indices of the branches back to it) of the longest loop. A
    branch back to what can also be reached in another way only shares code."""
    index_of = {instruction.address: i for i, instruction in enumerate(instructions)}
    everything = reached(instructions, index_of)
    backs = collections.defaultdict(list)
    for i in sorted(everything):
        for target in instructions[i].targets:
            if index_of[target] < i:
                backs[index_of[target]].append(i)
    for head, branches in sorted(backs.items(), key=lambda item: item[0] - max(item[1])):
        if reached(instructions, index_of, head).isdisjoint(branches):
            return head, branches
    raise ValueError("there is no loop")


def blocks_of(instructions, head):
    """{first index: (indices of its instructions, indices that may follow)} from the loop's head."""
    index_of = {instruction.address: i for i, instruction in enumerate(instructions)}
    leaders = {head} | {index_of[t] for instruction in instructions for t in instruction.targets}
    blocks, pending = {}, [head]
    while pending:
        first = pending.pop()
        if first in blocks:
            continue
        members = [first]
        while True:
            after = successors(instructions, members[-1], index_of)
            if after != [members[-1] + 1] or after[0] in leaders:
                break
            members.append(after[0])
        blocks[first] = (members, after)
        pending += after
    return blocks


def work_of(instructions, members, work):
    """What a block may do of each kind of work: tuples in the order of `work`; none if it does what
    is not in there. An access of 16 bytes with a predicate is done; a narrower one may be there for
    another alignment, or for one lane alone."""
    kinds = list(work)
    found = {(0,) * len(kinds)}
    for i in members:
        kind, predicate = instructions[i].work, instructions[i].predicate
        if kind not in work:
            if kind is not None and kind not in ARITHMETIC and not predicate:
                return set()
            continue
        place = kinds.index(kind)
        done = {total[:place] + (total[place] + 1,) + total[place + 1:] for total in found}
        optional = predicate and kind[:3] in ("LDG", "STG") and not kind.endswith(".16")
        found = {total for total in (done | found if optional else done)
                 if total[place] <= work[kind]}
    return found


def cheapest_round(instructions, work):
    """The instructions of the cheapest way round the kernel's longest loop that does the work, which
    is given as {kind: number of instructions}."""
    head, _ = loop_of(instructions)
    blocks = blocks_of(instructions, head)
    does = {first: work_of(instructions, members, work) for first, (members, _) in blocks.items()}
    wanted, nothing = tuple(work.values()), (0,) * len(work)
    queue, costs, before = [(0, head, nothing)], {(head, nothing): 0}, {}
    while queue:
        cost, first, total = heapq.heappop(queue)
        if first == GOAL:
            return way_back(instructions, blocks, before, (head, nothing), (GOAL, wanted))
        if cost > costs[(first, total)]:
            continue
        members, after = blocks[first]
        sums = (tuple(map(sum, zip(total, more))) for more in does[first])
        possible = [reached for reached in sums if all(a <= b for a, b in zip(reached, wanted))]
        for reached, block in itertools.product(possible, after):
            if block == head and reached != wanted:
                continue
            state = (GOAL if block == head else block, reached)
            if cost + len(members) < costs.get(state, math.inf):
                costs[state] = cost + len(members)
                before[state] = (first, total)
                heapq.heappush(queue, (costs[state], *state))
    raise ValueError(f"no way round the loop does {work}")


def way_back(instructions, blocks, before, start, end):
    """The instructions on the way that was found, in order."""
    state, way = end, []
    while state != start:
        state = before[state]
        way.append(state[0])
    return [instructions[i] for first in reversed(way) for i in blocks[first][0]]
