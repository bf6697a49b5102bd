"""What NCCL's log says about which of its parts were in use.

The patterns are the lines that NCCL prints from 2.27 to 2.30 with NCCL_DEBUG=INFO and
NCCL_DEBUG_SUBSYS=INIT,NET,TUNING. The text of a line comes after "HOST:PID:THREAD [DEVICE] NCCL INFO ";
only rank 0 prints which algorithm it took.
"""
import dataclasses
import re

SUBSYSTEMS = "INIT,NET,TUNING,COLL"
OURS = "ringpress"

TEXT = re.compile(r"NCCL (?:INFO|WARN) (.*)")
NETWORK = re.compile(r"Using network (\S+)$")
NET = re.compile(r"NET/Plugin: Loaded net plugin (\S+) \((v\d+)\)$")
COLLNET = re.compile(r"NET/Plugin: Loaded collnet plugin (\S+) \((v\d+)\)$")
TUNER = re.compile(r"TUNER/Plugin: Using (?:tuner plugin )?(\S+)(?: \((v\d+)\))?$")
PROFILER = re.compile(r"PROFILER/Plugin: [Ll]oaded (\S+)(?: \((v\d+)\))?$")
CONNECTION = re.compile(r"CollNet \d+/\d+ : (\d+) \[(send|receive)\] via COLLNET/([^/]+)/(\d+)")
CHAINS = re.compile(r"Connected Collnet Chains |rank \d+ Connected CollNet$")
ALGORITHM = re.compile(r"(\w+): (\d+) Bytes -> Algo (\S+) proto (\S+) "
                       r"channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")
DECLINED = re.compile(r"Cannot initialize CollNet, using point-to-point network instead|"
                      r"less than CollNet node threshold")
COLLNET_ALGORITHMS = ("COLLNET_CHAIN", "COLLNET_DIRECT")


@dataclasses.dataclass
class Facts:
    """Of the logs of all ranks of one job."""
    networks: list = dataclasses.field(default_factory=list)  # One per communicator and rank.
    net: set = dataclasses.field(default_factory=set)         # (name, version)
    collnet: set = dataclasses.field(default_factory=set)
    tuner: set = dataclasses.field(default_factory=set)
    profiler: set = dataclasses.field(default_factory=set)
    connections: dict = dataclasses.field(default_factory=dict)  # rank: {(direction, name)}
    chains: int = 0  # Ranks and communicators that connected CollNet for use.
    algorithms: dict = dataclasses.field(default_factory=dict)  # (function, bytes): {algorithm}
    channels: dict = dataclasses.field(default_factory=dict)    # (function, bytes): most channels
    ours: list = dataclasses.field(default_factory=list)        # What this library's plugin logged.
    warnings: list = dataclasses.field(default_factory=list)
    declined: list = dataclasses.field(default_factory=list)

    def all_reduce(self, size):
        return self.algorithms.get(("AllReduce", size), set())


def read_facts(text):
    facts = Facts()
    plugins = ((NET, facts.net), (COLLNET, facts.collnet), (TUNER, facts.tuner),
               (PROFILER, facts.profiler))
    for line in text.splitlines():
        found = TEXT.search(line)
        if not found:
            continue
        said = found.group(1).strip()
        if " NCCL WARN " in line:
            facts.warnings.append(said)
        if said.startswith(f"{OURS}: "):
            facts.ours.append(said)
        elif DECLINED.search(said):
            facts.declined.append(said)
        elif match := NETWORK.match(said):
            facts.networks.append(match.group(1))
        elif match := CONNECTION.match(said):
            facts.connections.setdefault(int(match.group(1)), set()).add(match.group(2, 3))
        elif CHAINS.match(said):
            facts.chains += 1
        elif match := ALGORITHM.match(said):
            add_algorithm(facts, match)
        else:
            for pattern, names in plugins:
                if match := pattern.match(said):
                    names.add(match.group(1, 2))
    return facts


def add_algorithm(facts, match):
    key = (match.group(1), int(match.group(2)))
    facts.algorithms.setdefault(key, set()).add(match.group(3))
    channels = int(match.group(6)) - int(match.group(5)) + 1
    facts.channels[key] = max(facts.channels.get(key, 0), channels)


def missing_plugins(facts, ranks):
    """Why NCCL has not loaded this library on all ranks, as sentences; none if it has."""
    wrong = []
    others = sorted({name for name in facts.networks if name != OURS})
    if len(facts.networks) < ranks or others:
        wrong.append(f"no \"Using network {OURS}\" from each of {ranks} ranks, but "
                     f"{len(facts.networks)} lines and the networks {others}")
    for kind, names in (("net", facts.net), ("collnet", facts.collnet), ("tuner", facts.tuner),
                        ("profiler", facts.profiler)):
        if {name for name, _ in names} != {OURS}:
            wrong.append(f"the {kind} plugins are {sorted(names)} instead of {OURS}'s")
    wrong += [f"CollNet was declined: {line}" for line in sorted(set(facts.declined))]
    for rank in range(ranks):
        both = {("send", OURS), ("receive", OURS)}
        if not both <= facts.connections.get(rank, set()):
            wrong.append(f"rank {rank} has no CollNet connection to send and receive")
    return wrong


def wrong_algorithm(facts, size, collnet):
    """Why all-reduces of `size` bytes did not all go through CollNet, or some did that must not."""
    taken = facts.all_reduce(size)
    if not taken:
        return [f"NCCL did not say which algorithm it took for {size} bytes"]
    used = {algorithm in COLLNET_ALGORITHMS for algorithm in taken}
    if used == {collnet}:
        return []
    return [f"{size} bytes went by {sorted(taken)}, {'not all' if collnet else 'some'} by CollNet"]
