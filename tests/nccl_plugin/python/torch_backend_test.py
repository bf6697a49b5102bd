#!/usr/bin/env python3
"""The process-group back end on 2 to 4 ranks: each collective against a result that is computed here.

usage: torch_backend_test.py [unittest's options]
Needs torch with its headers; without them it is skipped (exit status 77).
"""
import datetime
import os
import pathlib
import sys
import time
import unittest

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("there is no torch: nothing was tested")
    sys.exit(77)
import ranks
ranks.need_headers()
import ringpress
import ringpress.torch

SIZE = 3
FOREVER = datetime.timedelta(hours=1)  # Longer than a test may take: what waits so long fails it.
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
MOVED = INTEGERS + FLOATS + COMPLEX + [torch.bool]


def start(rank, size, folder, name="group", timeout=datetime.timedelta(seconds=200)):
    torch.set_num_threads(1)
    dist.init_process_group("ringpress", init_method=f"file://{folder}/{name}", rank=rank, world_size=size, timeout=timeout)


def values(rank, dtype, count=12):
    """Small whole numbers, so that sums are exact in every type."""
    numbers = (torch.arange(count) + 5 * rank) % 4
    if dtype in COMPLEX:
        return torch.complex(numbers.double(), (numbers + rank).double()).to(dtype)
    return numbers.to(dtype)


def expect(found, wanted, what):
    assert torch.equal(found, wanted), f"{what}: {found} is not {wanted}"


def all_reduce_types(rank, size, folder):
    start(rank, size, folder)
    for dtype in INTEGERS + FLOATS + COMPLEX:
        tensor = values(rank, dtype)
        dist.all_reduce(tensor)
        expect(tensor, sum(values(other, dtype) for other in range(size)), dtype)
    flags = values(rank, torch.bool)
    dist.all_reduce(flags)
    expect(flags, torch.stack([values(other, torch.bool) for other in range(size)]).any(0), "bool")


def tensor_factor(value):
    """Torch 1.13 and 2.0 take a list of tensors, later ones take a tensor."""
    factor = torch.tensor([value])
    try:
        dist._make_nccl_premul_sum(factor)
    except TypeError:
        return [factor]
    return factor


def all_reduce_operations(rank, size, folder):
    start(rank, size, folder)
    inputs = torch.stack([values(other, torch.int32) + 1 for other in range(size)])
    both = [inputs[0], inputs[0], inputs[0]]
    for other in range(1, size):
        both = [both[0] & inputs[other], both[1] | inputs[other], both[2] ^ inputs[other]]
    wanted = {"PRODUCT": inputs.prod(0), "MIN": inputs.min(0).values, "MAX": inputs.max(0).values, "BAND": both[0],
              "BOR": both[1], "BXOR": both[2]}
    for name, result in wanted.items():
        tensor = inputs[rank].clone()
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
        expect(tensor, result.int(), name)
    mean = inputs[rank].float()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    assert torch.allclose(mean, inputs.float().mean(0)), mean
    for factor in (2.0, tensor_factor(2.0)):
        scaled = torch.ones(4)
        dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(factor))
        expect(scaled, torch.full((4,), 2.0 * size), f"PREMUL_SUM {factor}")


def moved(rank, size, folder):
    """Broadcast, gathers, scatters and exchanges of all types."""
    start(rank, size, folder)
    for dtype in MOVED:
        every = [values(other, dtype) for other in range(size)]
        tensor = every[rank].clone()
        dist.broadcast(tensor, src=1)
        expect(tensor, every[1], f"broadcast {dtype}")
        parts = [torch.empty_like(tensor) for _ in range(size)]
        dist.all_gather(parts, every[rank])
        expect(torch.stack(parts), torch.stack(every), f"all_gather {dtype}")
        dist.gather(every[rank], parts if rank == 1 else None, dst=1)
        expect(torch.stack(parts), torch.stack(every), f"gather {dtype}")
        dist.scatter(tensor, every if rank == 2 else None, src=2)
        expect(tensor, every[rank], f"scatter {dtype}")
        dist.all_to_all(parts, [values(10 * rank + other, dtype) for other in range(size)])
        expect(torch.stack(parts), torch.stack([values(10 * other + rank, dtype) for other in range(size)]),
               f"all_to_all {dtype}")


def into_tensors(rank, size, folder):
    start(rank, size, folder)
    gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
    scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
    for dtype in INTEGERS + FLOATS + COMPLEX:
        every = torch.cat([values(other, dtype) for other in range(size)])
        output = torch.empty_like(every)
        gather(output, values(rank, dtype))
        expect(output, every, f"all_gather_into_tensor {dtype}")
        part = torch.empty_like(values(0, dtype))
        scatter(part, every.clone())
        expect(part, size * values(rank, dtype), f"reduce_scatter_tensor {dtype}")
        dist.reduce_scatter(part, [values(other, dtype) for other in range(size)])
        expect(part, size * values(rank, dtype), f"reduce_scatter {dtype}")
    flags = torch.empty(4, dtype=torch.int64)
    scatter(flags, torch.full((4 * size,), 1 << rank), op=dist.ReduceOp.BOR)
    expect(flags, torch.full((4,), (1 << size) - 1), "reduce_scatter_tensor BOR")
    tensor = values(rank, torch.float32)
    dist.reduce(tensor, dst=1)
    wanted = sum(values(other, torch.float32) for other in range(size)) if rank == 1 else values(rank, torch.float32)
    expect(tensor, wanted, "reduce")


def uneven_exchange(rank, size, folder):
    """Rank r sends r + 1 rows to rank 0, none to rank 1 and one to rank 2."""
    start(rank, size, folder)
    sent = [rank + 1, 0, 1]
    received = [[other + 1, 0, 1][rank] for other in range(size)]
    tensor = torch.full((sum(sent), 2), float(rank))
    output = torch.empty(sum(received), 2)
    dist.all_to_all_single(output, tensor, received, sent)
    expect(output[:, 0], torch.cat([torch.full((rows,), float(other)) for other, rows in enumerate(received)]),
           "all_to_all_single")


def point_to_point(rank, size, folder):
    """Each rank sends to all others before it receives; tags come in another order than they were sent."""
    start(rank, size, folder)
    big = 1 << 18
    others = [other for other in range(size) if other != rank]
    sends = [dist.isend(torch.full((big,), float(10 * rank + tag)), other, tag=tag) for other in others for tag in (1, 2)]
    for other in others:
        for tag in (2, 1):
            tensor = torch.empty(big)
            dist.recv(tensor, other, tag=tag)
            expect(tensor, torch.full((big,), float(10 * other + tag)), "recv")
    for work in sends:
        work.wait()
    receives = [dist.irecv(torch.empty(3), other) for other in others]
    dist.barrier()
    for other in others:
        dist.send(torch.ones(3), other)
    for work in receives:
        work.wait()


def receives_first(rank, size, folder):
    """Each rank waits for messages of all others before it sends one, with a store that has one connection for all calls."""
    port = pathlib.Path(folder, "port")
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, size, True, wait_for_workers=False)
        pathlib.Path(folder, "making").write_text(str(store.port), encoding="utf-8")
        pathlib.Path(folder, "making").rename(port)
    else:
        while not port.is_file():
            time.sleep(0.01)
        store = dist.TCPStore("127.0.0.1", int(port.read_text(encoding="utf-8")), size, False)
    torch.set_num_threads(1)
    dist.init_process_group("ringpress", store=store, rank=rank, world_size=size, timeout=FOREVER)
    others = [other for other in range(size) if other != rank]
    tensors = [torch.empty(3) for _ in others]
    receives = [dist.irecv(tensor, other) for tensor, other in zip(tensors, others)]
    group = dist.new_group(list(range(size)))
    dist.barrier(group)
    sends = [dist.isend(torch.full((3,), float(rank)), other) for other in others]
    for work in receives + sends:
        work.wait()
    for tensor, other in zip(tensors, others):
        expect(tensor, torch.full((3,), float(other)), "irecv before isend")
    operations = [dist.P2POp(dist.irecv, torch.empty(2), other) for other in others]
    operations += [dist.P2POp(dist.isend, torch.ones(2), other) for other in others]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    dist.destroy_process_group()
    port.with_name(f"ended{rank}").touch()
    while rank == 0 and not all(port.with_name(f"ended{other}").is_file() for other in others):
        time.sleep(0.01)


def without_peers(rank, size, folder):
    """Messages that nobody answers do not hold up the end of a group, and fail then. What was answered stays."""
    start(rank, size, folder, timeout=FOREVER)
    after, before = (rank + 1) % size, (rank - 1) % size
    first = torch.empty(2)
    work = dist.irecv(first, before)
    dist.send(torch.full((2,), float(rank)), after)
    work.wait()
    expect(first, torch.full((2,), float(before)), "recv")
    dist.barrier()
    waiting = [dist.irecv(torch.empty(2), before)]  # From a rank that has sent.
    if rank == 0:
        waiting.append(dist.irecv(torch.empty(2), 1))  # From and to ranks that never were there.
    if rank == 2:
        waiting.append(dist.isend(torch.empty(2), 1))
    dist.destroy_process_group()
    for unanswered in waiting:
        try:
            unanswered.wait()
        except RuntimeError as error:
            assert "ringpress: " in str(error), error
        else:
            raise AssertionError("a message without a peer has ended well")
    start(rank, size, folder, "again")
    dist.barrier()


def waits_alone(rank, size, folder):
    """In words that programs look for, which are Gloo's."""
    start(rank, size, folder, timeout=datetime.timedelta(seconds=1))
    if rank > 0:
        while not pathlib.Path(folder, "done").is_file():
            time.sleep(0.01)
        return
    try:
        dist.barrier()
    except RuntimeError as error:
        assert " Timed out " in str(error) and "1000 ms" in str(error), error
    else:
        raise AssertionError("a barrier of one rank of two has ended")
    finally:
        pathlib.Path(folder, "done").touch()


def strided(rank, size, folder):
    start(rank, size, folder)
    tensor = torch.arange(12.0).view(3, 4).t() + rank
    wanted = sum(torch.arange(12.0).view(3, 4).t() + other for other in range(size))
    dist.all_reduce(tensor)
    expect(tensor, wanted, "a tensor that is not contiguous")
    sparse = torch.sparse_coo_tensor([[rank, 3]], [1.0, 2.0], (4,))
    dist.all_reduce(sparse)
    expect(sparse.to_dense(), torch.tensor([1.0, 1.0, 1.0, 2.0 * size]), "a sparse tensor")


def asynchronous(rank, size, folder):
    """Works and futures: calls are made in order, and their results come through both."""
    start(rank, size, folder)
    tensors = [torch.full((1000,), float(rank + step)) for step in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    doubled = works[-1].get_future().then(lambda future: future.value()[0] * 2)
    for step, work in enumerate(works):
        assert work.wait() and work.is_completed() and work.is_success()
        expect(tensors[step], torch.full((1000,), float(sum(range(size)) + size * step)), "async")
    expect(doubled.wait(), 2 * tensors[-1], "future")


def new_groups(rank, size, folder):
    start(rank, size, folder)
    groups = [dist.new_group([other, (other + 1) % size]) for other in range(size)]
    for other, group in enumerate(groups):
        members = (other, (other + 1) % size)
        if rank in members:
            tensor = torch.tensor([float(rank)])
            dist.all_reduce(tensor, group=group)
            expect(tensor, torch.tensor([float(sum(members))]), "new_group")
    dist.destroy_process_group(groups[rank])
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": other} for other in range(size)], found
    dist.barrier()
    dist.destroy_process_group()
    start(rank, size, folder, "again")
    dist.barrier()


def refusals(rank, size, folder):
    """Bad input: the exception says what to use, and the group goes on."""
    start(rank, size, folder)

    def expect_refusal(parts, call):
        try:
            call()
        except (ValueError, RuntimeError) as error:
            assert all(part in str(error) for part in parts), error
            return
        raise AssertionError(f"no refusal that says {parts}")
    expect_refusal(["on meta", "nccl"], lambda: gather_past_dispatch(torch.empty(2, device="meta")))
    expect_refusal(["BAND", "float"], lambda: dist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND))
    expect_refusal(["not support", "src=RANK"], lambda: dist.recv(torch.ones(3)))
    expect_refusal(["elements", f"{size} times"],
                   lambda: dist._all_gather_base(torch.ones(size), torch.ones(2)))
    expect_refusal(["AVG", "Sums take"], lambda: dist.all_reduce(torch.ones(4, dtype=torch.bool), op=dist.ReduceOp.AVG))
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    expect(tensor, torch.full((3,), float(size)), "after refusals")


def gather_past_dispatch(tensor):
    """torch's own dispatch knows no kernel for such devices; where it has one, as for CUDA, this is what it calls."""
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    backend._allgather_base(tensor, tensor).wait()


def wrong_world(rank, size, folder):
    """Rank 1 takes the group for one larger than rank 0 does: both are told."""
    store = dist.FileStore(f"{folder}/store", size)
    try:
        ringpress.torch.create_backend(store, rank, size + rank, datetime.timedelta(seconds=200))
    except ringpress.InvalidUsageError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def state(rank, size, folder):
    os.environ["RINGPRESS_CODEC"] = "q4"
    start(rank, size, folder)
    torch.manual_seed(rank)
    steps = [torch.randn(40000) for _ in range(6)]
    for tensor in steps[:3]:
        dist.all_reduce(tensor)
    communicator = ringpress.torch.communicator_of()
    assert communicator.statistics()["compressed_calls"] > 0, communicator.statistics()
    communicator.save_state(f"{folder}/state{rank}")
    kept = [tensor.clone() for tensor in steps[3:]]
    for tensor in steps[3:]:
        dist.all_reduce(tensor)
    dist.destroy_process_group()
    start(rank, size, folder, "resumed")
    assert ringpress.torch.communicator_of().load_state(f"{folder}/state{rank}") is None
    for tensor, wanted in zip(kept, steps[3:]):
        dist.all_reduce(tensor)
        expect(tensor, wanted, "resumed")


class Backend(unittest.TestCase):
    """Each function on SIZE ranks."""

    @classmethod
    def setUpClass(cls):
        ringpress.torch.build()

    def test_types(self):
        ranks.run(all_reduce_types, SIZE)

    def test_operations(self):
        ranks.run(all_reduce_operations, SIZE)

    def test_what_is_moved(self):
        ranks.run(moved, SIZE)

    def test_into_tensors(self):
        ranks.run(into_tensors, SIZE)

    def test_uneven_exchange(self):
        ranks.run(uneven_exchange, SIZE)

    def test_point_to_point(self):
        ranks.run(point_to_point, SIZE)

    def test_receives_before_sends(self):
        ranks.run(receives_first, 2)

    def test_messages_without_peers(self):
        ranks.run(without_peers, SIZE)

    def test_timeout(self):
        ranks.run(waits_alone, 2)

    def test_strided_and_sparse(self):
        ranks.run(strided, SIZE)

    def test_asynchronous(self):
        ranks.run(asynchronous, SIZE)

    def test_groups(self):
        ranks.run(new_groups, SIZE)

    def test_refusals(self):
        ranks.run(refusals, SIZE)

    def test_wrong_world(self):
        for rank, text in enumerate(ranks.run(wrong_world, 2)):
            self.assertIn(f"world_size {2 + rank}", text)
            self.assertIn(f"world_size {3 - rank}", text)

    def test_state(self):
        ranks.run(state, 2)


if __name__ == "__main__":
    unittest.main()
