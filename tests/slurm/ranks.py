#!/usr/bin/env python3
"""Several ranks in one task, as programs have them that fork their ranks themselves.

    ranks.py RANKS WORKERS [together]

The first process forks RANKS ranks and waits for them; with "together" it is a rank itself, and they
are connected with it by TCP. Each rank computes about half of the time, and
has WORKERS forked workers that prepare batches for it (0: it reads and prepares them itself). Only the
standard library is used, and nobody gives himself a name.
"""

import multiprocessing
import socket
import sys
import threading
import time


def compute(seconds):
    end = time.thread_time() + seconds
    x = 1.0
    while time.thread_time() < end:
        for _ in range(1000):
            x = x * 1.0000001 + 0.1
    return x


def work(orders, batches):
    while orders.get() is not None:
        compute(0.02)
        with open(sys.executable, "rb") as file:
            batches.put(file.read(65536))


def train(nworkers, address=None):
    peer = socket.create_connection(address) if address else None
    context = multiprocessing.get_context("fork")
    orders, batches = context.Queue(), context.Queue()
    workers = [context.Process(target=work, args=(orders, batches), daemon=True) for _ in range(nworkers)]
    for worker in workers:
        worker.start()
    for _ in range(2 * nworkers):
        orders.put(True)
    while True:
        if workers:
            batches.get()
            orders.put(True)
        else:
            with open(sys.executable, "rb") as file:
                file.read(65536)
            time.sleep(0.01)
        compute(0.02)
        if peer:
            peer.sendall(b"gradient")


def main():
    nranks, nworkers = int(sys.argv[1]), int(sys.argv[2])
    listener = socket.create_server(("127.0.0.1", 0)) if "together" in sys.argv else None
    address = listener.getsockname() if listener else None
    context = multiprocessing.get_context("fork")
    # not daemons: these may not have children
    ranks = [context.Process(target=train, args=(nworkers, address)) for _ in range(nranks)]
    for rank in ranks:
        rank.start()
    if listener:
        peers = [listener.accept()[0] for _ in ranks]
        for peer in peers:
            threading.Thread(target=lambda peer=peer: all(iter(lambda: peer.recv(4096), b"")), daemon=True).start()
        train(nworkers)
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
