"""seeds.py FOLDER: write the first inputs of the fuzzers, which are made from tests/corpus, to FOLDER/TARGET."""

import base64
import hashlib
import json
import sys
from pathlib import Path

LENGTH_MAX = 4096
CORPUS = Path(__file__).resolve().parent.parent / "corpus"


def texts(name):
    return json.loads((CORPUS / name).read_text())


def trees(folder):
    """Yields each tree as one text: main.sls, then the other files, each after a line with its name."""
    for main in sorted(CORPUS.glob(f"{folder}/*/main.sls")):
        others = sorted(p for p in main.parent.rglob("*") if p.suffix in {".sls", ".jinja"} and p != main)
        parts = [f"\n### {p.relative_to(main.parent)}\n{p.read_text()}" for p in others]
        yield main.read_text() + "".join(parts)


def yaml():
    # A tenth of the mutants covers as much as all, and is read faster.
    yield from texts("yaml/docs.json")
    yield from texts("yaml/mutants.json")[::10]


def jinja():
    yield from (case["t"] for case in texts("jinja/snippets.json"))
    for path in sorted((CORPUS / "jinja").glob("*.jinja")):
        yield from path.read_text().split("\n=====\n")
    yield from (path.read_text() for path in sorted((CORPUS / "jinja/tree").rglob("*.jinja")))


def compiled():
    yield from trees("compile")
    for path in sorted((CORPUS / "states").glob("*.sls")):
        yield path.read_text()


def wire():
    """Yields the recorded frames: twice in a stream, and the value of each."""
    for path in sorted((CORPUS / "wire").glob("v*/*.bin")):
        frame = path.read_bytes()
        yield b"\x40" + frame + frame
        yield frame[4:]
    yield from (f"salt/{rest}" for rest in ("job/20261120101035942505/ret/m1", "minion/m1/start", "beacon/m1/load/", "auth"))


def identity():
    """Yields a certificate, a minimal signed message with definite and indefinite lengths, the claims of a token, and a key set."""
    pem = (CORPUS / "attacks/ca.pem").read_text().split("-----")[2]
    yield base64.b64decode(pem)
    signed, data = bytes.fromhex("06092a864886f70d010702"), bytes.fromhex("06092a864886f70d010701")
    sha256 = bytes.fromhex("300d06096086480165030402010500")
    signer = part(0x30, bytes.fromhex("020101") + part(0x30, b"") + sha256 + sha256 + part(4, b"x" * 256))
    content = part(0x30, data + part(0xA0, part(4, b"{}")))
    body = part(0x30, bytes.fromhex("020101") + part(0x31, sha256) + content + part(0x31, signer))
    yield part(0x30, signed + part(0xA0, body))
    yield b"\x30\x80" + signed + b"\xa0\x80" + body + b"\0\0\0\0"
    yield '{"iss":"https://accounts.google.com","aud":"salt-master/0","iat":1795341600,"exp":1795345200,"google":{"compute_engine":{}}}'
    yield '{"keys":[{"kty":"RSA","kid":"k","n":"AQAB","e":"AQAB"}]}'


def kept():
    """Yields rows of the master's store, whose keys are in any order, and records of a spool: frames after their kind."""
    rows = [
        {"state": "accepted", "key": b"k" * 32, "at_ms": 1, "bound": {"role": "web"}},
        {"tag": "salt/minion/m1/start", "stamp": "2026-01-02T03:04:05.000006", "at_ms": 1, "data": {"id": "m1"}},
        {"at_ms": 1, "load": {"fun": "test.ping"}, "minions": ["m1"]},
        {"at_ms": 1, "data": {"return": True}},
        {"first": 1, "next": 9, "bytes": 300},
        {"accepted": b"k" * 32},
    ]
    yield from map(packed, rows)
    yield (7).to_bytes(8, "big")
    for kind, name in [(b"e", "event"), (b"r", "return"), (b"g", "event")]:
        for path in sorted((CORPUS / "wire").glob(f"v*/{name}.bin")):
            yield kind + path.read_bytes()


def hook():
    """Yields requests with each kind of body and each kind of signature, and one that is refused."""
    heads = ["Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded", "Content-Type: application/x-yaml; charset=utf-8"]
    bodies = ['{"a": [1, null]}', "arg=1&arg=%7ba: 1%7D&kwarg=x%3D1&name=a+b", "a: [1, {b: c}]\n"]
    mac = "ab" * 32
    for head, body in zip(heads, bodies):
        for signed in [f"X-Pinch-Signature: t=1800000000,v1={mac}", f"X-Hub-Signature-256: sha256={mac}"]:
            yield f"POST /hook/deploy/%C3%A9?x=1 HTTP/1.1\r\nHost: m\r\n{head}\r\n{signed}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    yield "GET /hook HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"


def record():
    """Yields the lines of a run record, with each kind of entry."""
    entries = [
        {"start": 1, "jid": "20260101000000000001", "fun": "state.apply", "args": ["web"], "plan": "ab", "pid": 1, "time": 1},
        {"begin": "cmd_|-a_|-a_|-run", "policy": "ask"},
        {"return": "cmd_|-a_|-a_|-run", "ret": {"result": True, "changes": {"pid": 1}}},
        {"changed": "/etc/a", "was": {"kind": "file", "sha256": "ab"}, "step": "x"},
        {"in": "part", "return": "x", "ret": {}},
        {"guard": "x", "told": {"result": True}},
        {"compensating": ""},
        {"resumed": "20260101000000000002", "pid": 2, "time": 2},
        {"left": "why"},
        {"end": 0, "time": 3},
    ]
    lines = [json.dumps(entry) for entry in entries]
    yield "\n".join(lines)
    yield from ("\n".join([lines[0], line]) for line in lines)


def plan():
    """Yields a plan with a state for each outcome."""
    outcomes = ["change", "keep", "depends", "fail", "skip"]
    states = [{"id": word, "function": "file.managed", "name": f"/{word}", "outcome": word, "changes": {"diff": "-a\n+b"}} for word in outcomes]
    basis = {"tree": {"hash": "ab", "parts": {"a.sls": "ab"}}, "pillar": {"hash": "cd", "parts": {}}, "grains": {"hash": "ef", "parts": {"os": "ab"}}}
    asked = {"fun": "state.apply", "args": ["web"], "kwargs": {"saltenv": "base"}, "config_dir": "/etc/salt", "overrides": {}}
    yield json.dumps({"kind": "pinch plan", "version": 1, "basis": basis, "states": states, "summary": {"change": 1}, "asked": asked})


def packed(value):
    """Returns the msgpack encoding of the types that occur in `kept`."""
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xcd" + value.to_bytes(2, "big")
    if isinstance(value, bytes):
        return b"\xc4" + bytes([len(value)]) + value
    if isinstance(value, str):
        return b"\xd9" + bytes([len(value)]) + value.encode()
    if isinstance(value, list):
        return bytes([0x90 + len(value)]) + b"".join(map(packed, value))
    return bytes([0x80 + len(value)]) + b"".join(packed(key) + packed(item) for key, item in value.items())


def part(tag, inside):
    length = len(inside)
    return bytes([tag, 0x82, length >> 8, length & 0xFF]) + inside


def main():
    kinds = {"yaml": yaml(), "jinja": jinja(), "compile": compiled(), "wire": wire(), "identity": identity(), "kept": kept(), "hook": hook(), "record": record(), "plan": plan()}
    for target, seeds in kinds.items():
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for text in seeds:
            data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
            if len(data) <= LENGTH_MAX:
                (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


main()
