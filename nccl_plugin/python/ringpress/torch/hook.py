"""A communication hook for DistributedDataParallel, for those whose process group stays Gloo or another one."""
import ctypes
import queue
import threading
from typing import Any, Optional

import torch
import torch.distributed as dist

from .. import errors
from ..communicator import Communicator, unique_id


class HookState:
    """A communicator of the ranks of `group` (None: the default group), and the thread that reduces buckets in the order in
    which they come. All ranks of the group make it together. end() before the program ends."""

    def __init__(self, group: Optional[Any] = None):
        made = [unique_id() if dist.get_rank(group) == 0 else None]
        root = 0 if group is None else dist.get_global_rank(group, 0)
        dist.broadcast_object_list(made, src=root, group=group)
        self.communicator = Communicator(dist.get_rank(group), dist.get_world_size(group), made[0])
        self._buckets: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="ringpress", daemon=True)
        self._thread.start()

    def reduce(self, tensor: torch.Tensor) -> "torch.futures.Future[torch.Tensor]":
        """The mean of all ranks' tensors, in place, once the future is done."""
        if tensor.device.type != "cpu":
            raise errors.InvalidArgumentError(f"the bucket is on {tensor.device}. ddp_hook() takes models on the CPU; for "
                                              "GPUs use the back end nccl with libringpress-preload.so.")
        future: "torch.futures.Future[torch.Tensor]" = torch.futures.Future()
        self._buckets.put((tensor, future))
        return future

    def end(self) -> None:
        """Reduces what it still has, and ends the communicator. A second call does nothing."""
        self._buckets.put(None)
        self._thread.join()
        self.communicator.destroy()

    def _work(self) -> None:
        while True:
            handed = self._buckets.get()
            if handed is None:
                return
            tensor, future = handed
            try:
                self.communicator.all_reduce(tensor, op="avg")
                future.set_result(tensor)
            except Exception as error:  # pylint: disable=broad-except
                future.set_exception(error)


def ddp_hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For model.register_comm_hook(ringpress.torch.HookState(), ringpress.torch.ddp_hook): gradients are reduced by
    ringpress, all else by the process group."""
    return state.reduce(bucket.buffer())
