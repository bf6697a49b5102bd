"""What goes wrong, as exceptions."""


class RingpressError(RuntimeError):
    """A call failed. The message is the library's own: which function, which argument, which rank."""


class LibraryNotFoundError(RingpressError, ImportError):
    """There is no libringpress.so where it is looked for. The message lists the places."""


class TwoLibrariesWarning(RuntimeWarning):
    """The process has loaded libringpress.so from two places."""


class InvalidArgumentError(RingpressError, ValueError):
    """One argument cannot be right (ncclInvalidArgument)."""


class InvalidUsageError(RingpressError):
    """Each argument may be right, but not here, now or together (ncclInvalidUsage)."""


class RemoteError(RingpressError):
    """Another rank failed, left or never came (ncclRemoteError)."""


class SystemError(RingpressError):  # pylint: disable=redefined-builtin
    """The operating system refused something (ncclSystemError)."""


_BY_RESULT = {2: SystemError, 4: InvalidArgumentError, 5: InvalidUsageError, 6: RemoteError}


def of_result(result: int, message: str) -> RingpressError:
    """The exception for an ncclResult_t that is not ncclSuccess."""
    return _BY_RESULT.get(result, RingpressError)(message)
