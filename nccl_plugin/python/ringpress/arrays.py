"""What a buffer is: a numpy array or a CPU tensor of torch, as an address, a count and an ncclDataType_t."""
import ctypes
from typing import Any, NamedTuple

from . import errors

# ncclDataType_t by the name that numpy and torch give a type. bool is summed as numbers, so it is left out.
TYPES = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7,
         "float64": 8, "bfloat16": 9}
OPERATIONS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}


class Buffer(NamedTuple):
    """Memory that a call reads or writes."""
    address: ctypes.c_void_p
    count: int  # Elements.
    type: int  # ncclDataType_t.


def _type_of(array: Any, name: str) -> int:
    type_name = str(array.dtype).replace("torch.", "")
    if type_name not in TYPES:
        raise errors.InvalidArgumentError(f"{name} has the type {type_name}. Allowed are {', '.join(TYPES)}.")
    return TYPES[type_name]


def _of_tensor(tensor: Any, name: str) -> Buffer:
    if tensor.device.type != "cpu":
        raise errors.InvalidArgumentError(f"{name} is on {tensor.device}. The package takes tensors on the CPU; for GPUs "
                                          "use the back end nccl with libringpress-preload.so.")
    if not tensor.is_contiguous():
        raise errors.InvalidArgumentError(f"{name} is not contiguous. Pass {name}.contiguous().")
    return Buffer(ctypes.c_void_p(tensor.data_ptr()), tensor.numel(), _type_of(tensor, name))


def buffer_of(array: Any, name: str, written: bool = False) -> Buffer:
    """Raises InvalidArgumentError for what is no such array, and for one that is to be written and cannot be."""
    if hasattr(array, "data_ptr") and hasattr(array, "device"):
        return _of_tensor(array, name)
    if not hasattr(array, "ctypes") or not hasattr(array, "flags"):
        raise errors.InvalidArgumentError(f"{name} is a {type(array).__name__}, but must be a numpy array or a torch "
                                          "tensor on the CPU.")
    if not array.flags.c_contiguous:
        raise errors.InvalidArgumentError(f"{name} is not contiguous. Pass numpy.ascontiguousarray({name}).")
    if written and not array.flags.writeable:
        raise errors.InvalidArgumentError(f"{name} is read-only, but the call writes to it.")
    return Buffer(ctypes.c_void_p(array.ctypes.data), array.size, _type_of(array, name))


def operation_of(operation: str) -> int:
    """The ncclRedOp_t of a name."""
    if operation not in OPERATIONS:
        raise errors.InvalidArgumentError(f"the operation {operation!r} is not known. Allowed are "
                                          f"{', '.join(OPERATIONS)}.")
    return OPERATIONS[operation]
