"""libadloader from Python, in one file.

adloader finds and places the loaders of unchanged programs; a program that wants to help it says how
far it is, which makes its predictions sharper, and asks how many workers are worth starting:

    import adloader

    loader = DataLoader(dataset, num_workers=adloader.workers(4), ...)
    for batch in adloader.watch(loader, samples=64):
        train(batch)

Outside Slurm, without --adloader, without libadloader.so or in a worker process that was forked from
the one that connected, every call is a harmless no-op. Nothing here waits.
"""

import ctypes
import ctypes.util
import os
import threading
import time

__all__ = ["Change", "Client", "workers", "watch", "progress", "loader_thread", "connected"]

_NAMES = ("libadloader.so.0", "libadloader.so")


class Change(ctypes.Structure):
    """What the controller decides for this step now; see adloader.h."""

    _fields_ = [("workers", ctypes.c_uint), ("cpus", ctypes.c_uint), ("managed", ctypes.c_int)]


def _load():
    """The library, or None. ADLOADER_LIBRARY names another file."""
    for name in (os.environ.get("ADLOADER_LIBRARY"), *_NAMES, ctypes.util.find_library("adloader")):
        if not name:
            continue
        try:
            library = ctypes.CDLL(name)
            _declare(library)
            return library
        except (OSError, AttributeError):
            continue
    return None


def _declare(library):
    handle = ctypes.c_void_p
    for name, result, arguments in (
        ("adloader_open", handle, ()),
        ("adloader_close", None, (handle,)),
        ("adloader_connected", ctypes.c_int, (handle,)),
        ("adloader_loader_thread", ctypes.c_int, (handle, ctypes.c_int)),
        ("adloader_workers", ctypes.c_uint, (handle, ctypes.c_uint)),
        ("adloader_fd", ctypes.c_int, (handle,)),
        ("adloader_next_change", ctypes.c_int, (handle, ctypes.POINTER(Change))),
        ("adloader_progress", None, (handle, ctypes.c_double, ctypes.c_double, ctypes.c_double)),
        ("adloader_version", ctypes.c_char_p, ()),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments


class Client:
    """A connection to this step's agent. Its methods may be called from several threads."""

    def __init__(self):
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._samples = self._wait = self._busy = 0.0
        self._library = _load() if os.environ.get("ADLOADER_SOCKET") else None
        self._handle = self._library.adloader_open() if self._library else None

    def _usable(self):
        return self._handle and os.getpid() == self._pid

    def close(self):
        if self._usable():
            self._library.adloader_close(self._handle)
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def connected(self):
        """Is an agent there now?"""
        return bool(self._usable() and self._library.adloader_connected(self._handle))

    def workers(self, fallback):
        """How many loader workers are worth running now."""
        if self._usable():
            return self._library.adloader_workers(self._handle, fallback)
        try:
            told = int(os.environ.get("ADLOADER_WORKERS", ""))
        except ValueError:
            return fallback
        return told if 1 <= told <= 4096 else fallback

    def loader_thread(self, on=True):
        """The calling thread loads data from now on, or no longer."""
        if self._usable() and self._library.adloader_loader_thread(self._handle, 1 if on else 0) < 0:
            raise MemoryError("adloader_loader_thread")

    def next_change(self):
        """The newest Change since the last call, or None."""
        change = Change()
        if self._usable() and self._library.adloader_next_change(self._handle, ctypes.byref(change)):
            return change
        return None

    def fileno(self):
        """A descriptor that polls readable when next_change() has something; -1 without library."""
        return self._library.adloader_fd(self._handle) if self._usable() else -1

    def progress(self, samples=0, wait_s=0.0, busy_s=0.0):
        """So much more was done: samples trained on, seconds waited for data, seconds computed."""
        if not self._usable():
            return
        with self._lock:
            self._samples += samples
            self._wait += wait_s
            self._busy += busy_s
            self._library.adloader_progress(self._handle, self._samples, self._wait, self._busy)

    def watch(self, batches, samples=None):
        """Yield the batches and report how long each was waited for and worked on.

        samples: how many are in a batch, a number or a function of the batch; None: the length of its
        first part. Whoever works on a GPU without waiting for it (PyTorch does) spends little time
        in the loop's body, and more in waiting for the next batch only if that is late.
        """
        before = time.monotonic()
        for batch in batches:
            got = time.monotonic()
            yield batch
            after = time.monotonic()
            self.progress(_count(batch, samples), got - before, after - got)
            before = after


def _count(batch, samples):
    if callable(samples):
        return samples(batch)
    if samples is not None:
        return samples
    try:
        return len(batch[0]) if isinstance(batch, (tuple, list)) else len(batch)
    except (TypeError, IndexError):
        return 0


_default = None
_default_lock = threading.Lock()


def client():
    """The process's own client, made at the first call; a forked child gets one of its own."""
    global _default
    with _default_lock:
        if _default is None or _default._pid != os.getpid():
            _default = Client()
        return _default


def connected():
    return client().connected()


def workers(fallback):
    return client().workers(fallback)


def loader_thread(on=True):
    client().loader_thread(on)


def progress(samples=0, wait_s=0.0, busy_s=0.0):
    client().progress(samples, wait_s, busy_s)


def watch(batches, samples=None):
    return client().watch(batches, samples)
