#!/usr/bin/env python3
"""Note when the CPUs of a training's worker processes change, from outside, by /proc alone.

    resize-watch.py MARK FILE

Worker processes are those with MARK (NAME=VALUE) in their environment whose parent has it too. Whenever the
union of their masks changes, a line "seconds since the epoch, CPUs" is added to FILE. Ends on a signal.
"""

import os
import sys
import time

LOOK_S = 0.02  # between two looks at the masks
FIND_S = 1.0  # between two searches for new workers


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:  # it has ended
        return b""


def parent(pid):
    # the name in brackets may hold anything, also spaces and brackets
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def find_workers(mark):
    marked = {
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and mark in read(f"/proc/{name}/environ").split(b"\0")
    }
    return [pid for pid in marked if parent(pid) in marked]


def mask(pid):
    try:
        return os.sched_getaffinity(pid)
    except OSError:
        return set()


def main():
    mark, path = sys.argv[1].encode(), sys.argv[2]
    workers, searched, last = [], 0.0, None
    with open(path, "w", buffering=1) as file:
        while True:
            now = time.time()
            if now - searched >= FIND_S:
                workers, searched = find_workers(mark), now
            cpus = set().union(*(mask(pid) for pid in workers))
            if cpus and cpus != last:
                file.write(f"{now:.3f} {len(cpus)}\n")
                last = cpus
            time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
