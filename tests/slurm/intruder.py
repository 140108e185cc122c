#!/usr/bin/env python3
"""Somebody who wants more than he may: what t60-security.sh tries against controller and agents.

Speaks the protocol of common/wire.h and common/msg.h by itself, so that a mistake there is not made
twice. Each command prints one line that says what came of it:

    register ADDRESS JOB.STEP NODE [MUNGE]   pose as a step's agent; MUNGE: with a credential
    replay HOST:PORT JOB.STEP NODE MUNGE     the same credential twice
    garbage ADDRESS                          bytes that are no message
    flood ADDRESS COUNT SECONDS              connections that say nothing
    client SOCKET                            a step's client socket
    impostor PORT MUNGE SECONDS              pose as the controller on a TCP port
"""
import os
import socket
import struct
import subprocess
import sys
import time

U64, STR, BYTES = 1, 4, 5
CHALLENGE, CREDENTIAL, REGISTER, WELCOME, ASSIGN, REFUSE = 1, 2, 3, 4, 6, 11
NONCE, CREDENTIAL_WANTED, SERVER, TAG_CREDENTIAL = 1, 2, 3, 4


def field(tag, kind, value):
    if kind == U64:
        value = struct.pack(">Q", value)
    elif kind == STR:
        value = value.encode()
    return struct.pack(">HHI", tag, kind, len(value)) + value


def frame(kind, *fields):
    body = struct.pack(">BBH", 1, kind, 0) + b"".join(fields)
    return struct.pack(">I", len(body)) + body


def connect(address):
    if address.startswith("unix:"):
        s = socket.socket(socket.AF_UNIX)
        where = address[5:]
    else:
        s = socket.socket()
        host, port = address.rsplit(":", 1)
        where = (host, int(port))
    s.settimeout(10)
    s.connect(where)
    return s


def receive(s):
    """(type, {tag: bytes}) of the next frame, or None at the end."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
        more = s.recv(1 if len(data) < 4 else 4 + struct.unpack(">I", data[:4])[0] - len(data))
        if not more:
            return None
        data += more
    fields, at = {}, 8
    while at + 8 <= len(data):
        tag, _, length = struct.unpack(">HHI", data[at:at + 8])
        fields[tag] = data[at + 8:at + 8 + length]
        at += 8 + length
    return data[5], fields


def registration(nonce, step, node):
    job, step = (int(n) for n in step.split("."))
    zero = [field(tag, U64, 0) for tag in (10, 11, 22, 24)]
    return frame(REGISTER, field(NONCE, BYTES, nonce), field(5, STR, "intruder"), field(6, STR, node),
                 field(7, STR, node), field(8, U64, job), field(9, U64, step), field(12, U64, os.getuid()),
                 field(13, U64, 1), field(14, U64, 1), field(15, STR, "0-1"), field(20, STR, "on"),
                 field(21, STR, ""), field(23, BYTES, b""), *zero)


def credential(payload, munge):
    made = subprocess.run(["munge", "-S", munge], input=payload, capture_output=True, check=True)
    return frame(CREDENTIAL, field(TAG_CREDENTIAL, BYTES, made.stdout.strip()))


def outcome(answer):
    if answer is None:
        return "hung up"
    kind, fields = answer
    if kind == REFUSE:
        return "refused: " + fields.get(52, b"").decode(errors="replace")
    return "welcome" if kind == WELCOME else f"message {kind}"


def register(address, step, node, munge=None):
    s = connect(address)
    _, challenge = receive(s)
    mine = registration(challenge[NONCE], step, node)
    s.sendall(credential(mine, munge) if munge else mine)
    print(outcome(receive(s)))


def replay(address, step, node, munge):
    first = connect(address)
    _, challenge = receive(first)
    ticket = credential(registration(challenge[NONCE], step, node), munge)
    first.sendall(ticket)
    said = outcome(receive(first))
    first.close()
    second = connect(address)
    receive(second)
    second.sendall(ticket)
    print(said, "|", outcome(receive(second)))


def garbage(address):
    ends = []
    for data in (os.urandom(4096), b"GET / HTTP/1.1\r\n\r\n", struct.pack(">I", 0xffffffff), b"\0" * 64,
                 frame(REGISTER), frame(ASSIGN), frame(200)):
        s = connect(address)
        receive(s)
        try:
            s.sendall(data)
            answer = receive(s)
            while answer is not None and answer[0] != REFUSE:
                answer = receive(s)
        except (ConnectionError, BrokenPipeError):
            answer = None
        ends.append("hung up" if answer is None else "refused")
    print(" ".join(sorted(set(ends))))


def flood(address, count, seconds):
    held = []
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        while len(held) < int(count):
            try:
                s = connect(address)
                s.settimeout(0)
                held.append(s)
            except OSError:
                break
        time.sleep(0.2)
        alive = []
        for s in held:
            try:
                while s.recv(65536):
                    pass
                s.close()
            except BlockingIOError:
                alive.append(s)
            except OSError:
                s.close()
        held = alive
    print("done")


def client(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10)
    try:
        s.connect(path)
        print("hung up" if s.recv(1) == b"" else "let in")
    except PermissionError:
        print("no permission")
    except ConnectionError:
        print("hung up")


def can_read(ticket, munge):
    opened = subprocess.run(["unmunge", "-S", munge], input=ticket, capture_output=True, check=False)
    return opened.returncode == 0


def impostor(port, munge, seconds):
    """Greets agents in two ways, tries to read their credentials, and takes command regardless."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(port)))
    listener.listen(16)
    met = read = obeyed = turn = 0
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        listener.settimeout(max(0.1, until - time.monotonic()))
        try:
            s, _ = listener.accept()
        except socket.timeout:
            break
        met, turn = met + 1, 1 - turn
        s.settimeout(5)
        try:
            s.sendall(frame(CHALLENGE, field(NONCE, BYTES, b"n" * 16), field(CREDENTIAL_WANTED, U64, turn),
                            field(SERVER, STR, "0.1.0")))
            answer = receive(s)
            if answer is None:
                continue
            read += answer[0] == REGISTER or can_read(answer[1].get(TAG_CREDENTIAL, b""), munge)
            s.sendall(frame(WELCOME, field(SERVER, STR, "0.1.0"), field(25, U64, 1), field(26, U64, 60000),
                            field(27, U64, 1000), field(28, U64, 250), field(78, BYTES, b"p" * 16), field(29, U64, 0)))
            s.sendall(frame(ASSIGN, field(31, U64, 99), field(32, U64, 0), field(60, U64, 0), field(33, STR, "0-1"),
                            field(34, U64, 1), field(26, U64, 60000), field(35, STR, "because"), field(23, BYTES, b"")))
            obeyed += receive(s) is not None
        except OSError:
            pass
        finally:
            s.close()
    print(f"met {'some' if met >= 2 else met}, read {read}, obeyed {obeyed}")


if __name__ == "__main__":
    try:
        {"register": register, "replay": replay, "garbage": garbage, "flood": flood, "client": client,
         "impostor": impostor}[sys.argv[1]](*sys.argv[2:])
    except OSError as error:
        print("failed:", error)
