"""One rank of the checks of nccl4py (nccl4py.py): NVIDIA's Python package over the library on host
memory, called as its documentation says. Writes a line "NAME ok" or "NAME: what was wrong" for
each check.

usage: ranks.py RANK SIZE ID_FILE
"""
import pathlib
import sys
import time

import numpy
import nccl.core
from nccl.core import Communicator, NCCLCollConfig, NCCLConfig, VendorOption, WaitSignalDesc

VENDOR, CODEC, TENSOR = 0x9C4E17, 1, 2  # include/ringpress/ringpress.h
COUNT = 1200


class HostMemory:
    """Where numpy's arrays are, as nccl4py numbers devices."""

    device_id = -1


# It asks CUDA for the device of a communicator, to compare it with that of each array.
Communicator.device = property(lambda self: HostMemory)

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def values(rank, count=COUNT):
    return numpy.random.default_rng(rank).standard_normal(count).astype(numpy.float32)


def total(size, count=COUNT):
    return sum(values(rank, count) for rank in range(size))


def expect(found, wanted, within=1e-4):
    if not numpy.allclose(found, wanted, atol=within):
        raise AssertionError(f"off by {numpy.abs(found - wanted).max():.3g}")


def expect_raises(part, call):
    try:
        call()
    except Exception as error:  # Any that nccl4py makes of NCCL's answer.
        if part not in str(error):
            raise AssertionError(f"says \"{error}\"") from error
        return
    raise AssertionError("is not refused")


# Each may have a configuration of the call.
def collectives(comm, config):
    size, rank = comm.nranks, comm.rank
    result = numpy.zeros(COUNT, numpy.float32)
    comm.allreduce(values(rank), result, nccl.core.SUM, config=config)
    expect(result, total(size))
    comm.reduce(values(rank), result, nccl.core.MAX, root=0, config=config)
    if rank == 0:
        expect(result, numpy.max([values(one) for one in range(size)], axis=0))
    result[:] = values(rank)
    comm.broadcast(result, result, size - 1, config=config)
    expect(result, values(size - 1))
    parts = numpy.zeros(size * COUNT, numpy.float32)
    comm.allgather(values(rank), parts, config=config)
    expect(parts, numpy.concatenate([values(one) for one in range(size)]))
    comm.reduce_scatter(values(rank, size * COUNT), result, nccl.core.SUM, config=config)
    expect(result, total(size, size * COUNT)[rank * COUNT:(rank + 1) * COUNT])
    comm.alltoall(values(rank, size * COUNT), parts, config=config)
    expect(parts, numpy.concatenate([values(one, size * COUNT)[rank * COUNT:(rank + 1) * COUNT]
                                     for one in range(size)]))
    comm.gather(values(rank), parts, root=0, config=config)
    if rank == 0:
        expect(parts, numpy.concatenate([values(one) for one in range(size)]))
    comm.scatter(values(0, size * COUNT), result, root=0, config=config)
    expect(result, values(0, size * COUNT)[rank * COUNT:(rank + 1) * COUNT])


@check
def eight_collectives(comm):
    collectives(comm, None)


@check
def eight_collectives_with_config(comm):
    tag = NCCLCollConfig(user_profiler_tag=7, min_ctas=1, max_ctas=4,
                         vendor_options=(VendorOption(0x123456, 1, int_value=3),))
    collectives(comm, tag)


@check
def codec_of_a_call(comm):
    """Lossy where the call asks for it, exact where it asks for that."""
    count = 1 << 18
    result = numpy.zeros(count, numpy.float32)

    def error_with(codec):
        options = (VendorOption(VENDOR, CODEC, str_value=codec),
                   VendorOption(VENDOR, TENSOR, str_value="layer"))
        comm.allreduce(values(comm.rank, count), result, nccl.core.SUM,
                       config=NCCLCollConfig(vendor_options=options))
        wanted = total(comm.nranks, count)
        return numpy.linalg.norm(result - wanted) / numpy.linalg.norm(wanted)

    if error_with("exact") > 1e-5:
        raise AssertionError("an exact call is lossy")
    error = error_with("q4")
    if comm.nranks > 1 and not 1e-3 < error < 0.3:
        raise AssertionError(f"q4 has an error of {error:.3g}")


@check
def unknown_options(comm):
    def call():
        option = VendorOption(VENDOR, 99, int_value=1)
        comm.allreduce(values(0), values(0), nccl.core.SUM,
                       config=NCCLCollConfig(vendor_options=(option,)))
    expect_raises("nvalid", call)
    if "99" not in comm.get_last_error():
        raise AssertionError(f"the last error is \"{comm.get_last_error()}\"")


@check
def send_and_receive(comm):
    size, rank = comm.nranks, comm.rank
    result, own = numpy.zeros(COUNT, numpy.float32), values(rank)  # Alive until the group ends.
    with nccl.core.group():
        comm.send(own, (rank + 1) % size)
        comm.recv(result, (rank - 1) % size)
    expect(result, values((rank - 1) % size))


@check
def groups_of_calls(comm):
    results = [numpy.zeros(COUNT, numpy.float32) for _ in range(3)]
    own = values(comm.rank)
    with nccl.core.group():
        for result in results:
            comm.allreduce(own, result, nccl.core.SUM)
    for result in results:
        expect(result, total(comm.nranks))
    nccl.core.group_start()
    comm.allreduce(own, results[0], nccl.core.SUM)
    nccl.core.group_end(simulate=True)


@check
def operation_of_its_own(comm):
    operation = comm.create_pre_mul_sum(0.5, nccl.core.FLOAT32)
    result = numpy.zeros(COUNT, numpy.float32)
    comm.allreduce(values(comm.rank), result, operation)
    expect(result, total(comm.nranks) / 2)
    operation.close()


@check
def split(comm):
    child = comm.split(color=comm.rank % 2, key=-comm.rank)
    mine = list(range(comm.rank % 2, comm.nranks, 2))
    if child.nranks != len(mine) or child.rank != len(mine) - 1 - mine.index(comm.rank):
        raise AssertionError(repr(child))
    result = numpy.zeros(COUNT, numpy.float32)
    child.allreduce(values(comm.rank), result, nccl.core.SUM)
    expect(result, sum(values(one) for one in mine))
    child.finalize()
    child.destroy()


@check
def shrink_and_grow(comm):
    """The last rank leaves and comes back."""
    size, rank = comm.nranks, comm.rank
    if size == 1:
        return
    result = numpy.zeros(COUNT, numpy.float32)
    left = None
    if rank != size - 1:
        left = comm.shrink([size - 1])
        left.allreduce(values(rank), result, nccl.core.SUM)
        expect(result, total(size - 1))
    # The id goes to the rank that joins over the whole communicator.
    text = numpy.zeros(128, numpy.uint8)
    if rank == 0:
        text[:] = numpy.frombuffer(bytes(left.get_unique_id()), numpy.uint8)
    comm.broadcast(text, text, 0)
    identifier = nccl.core.UniqueId.from_bytes(bytes(text))
    if left is None:
        grown = Communicator().grow(size, identifier, rank=size - 1)
    else:
        grown = left.grow(size, identifier if rank == 0 else None)
    grown.allreduce(values(rank), result, nccl.core.SUM)
    expect(result, total(size))
    grown.destroy()
    if left is not None:
        left.destroy()


@check
def suspend_and_resume(comm):
    child = comm.split(color=0, key=comm.rank)
    child.suspend()
    result = numpy.zeros(COUNT, numpy.float32)
    expect_raises("nvalid", lambda: child.allreduce(values(0), result, nccl.core.SUM))
    child.resume()
    child.allreduce(values(comm.rank), result, nccl.core.SUM)
    expect(result, total(comm.nranks))
    child.destroy()


@check
def revoke_and_abort(comm):
    child = comm.split(color=0, key=comm.rank)
    child.revoke()
    result = numpy.zeros(COUNT, numpy.float32)
    expect_raises("", lambda: child.allreduce(values(0), result, nccl.core.SUM))
    child.abort()


@check
def windows_and_signals(comm):
    size, rank = comm.nranks, comm.rank
    memory = numpy.zeros(2 * COUNT, numpy.float32)
    window = comm.register_window(memory)
    memory[:COUNT] = values(rank)
    comm.put_signal(memory[:COUNT], (rank + 1) % size, window, COUNT)
    comm.wait_signal(WaitSignalDesc(peer=(rank - 1) % size))
    expect(memory[COUNT:], values((rank - 1) % size))
    comm.signal((rank + 1) % size)
    comm.wait_signal([WaitSignalDesc(peer=(rank - 1) % size)])
    window.close()
    handle = comm.register_buffer(memory)
    handle.close()


@check
def properties_and_teams(comm):
    properties = comm.properties
    if (properties.rank, properties.n_ranks) != (comm.rank, comm.nranks):
        raise AssertionError(repr(properties))
    if comm.get_async_error() != 0:
        raise AssertionError(f"async error {comm.get_async_error()}")
    team = comm.team_world
    if comm.team_rank_to_world(team, comm.rank) != comm.rank:
        raise AssertionError("team_world has another order")
    for stat in nccl.core.NcclCommMemStat:
        comm.get_mem_stat(stat)
    if len(nccl.core.params) == 0:
        raise AssertionError("there are no parameters")


@check
def device_side_is_refused(comm):
    expect_raises("nvalid", lambda: comm.create_dev_comm(nccl.core.NCCLDevCommRequirements()))
    if not comm.get_last_error():
        raise AssertionError("nothing says why")


def identifier_of(rank, path):
    """Rank 0 makes it; the others read it."""
    if rank == 0:
        made = nccl.core.get_unique_id()
        path.with_suffix(".part").write_bytes(bytes(made))
        path.with_suffix(".part").rename(path)
        return made
    while not path.exists():
        time.sleep(0.01)
    return nccl.core.UniqueId.from_bytes(path.read_bytes())


def main():
    rank, size, path = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    comm = Communicator.init(size, rank, identifier_of(rank, path), NCCLConfig(comm_name="dp"))
    for function in CHECKS:
        try:
            function(comm)
            print(f"{function.__name__} ok", flush=True)
        except Exception as error:  # The other checks go on.
            print(f"{function.__name__}: {type(error).__name__}: {error}", flush=True)
    comm.destroy()


if __name__ == "__main__":
    main()
