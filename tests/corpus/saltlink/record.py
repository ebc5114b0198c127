#!/usr/bin/env python3
"""Records Salt's keys, signatures and seals as JSON in this folder. usage: SALT_VENV/bin/python tests/corpus/saltlink/record.py"""

import base64
import hashlib
import json
import pathlib
import tempfile

import salt.crypt
import salt.payload
import salt.utils.crypt

HERE = pathlib.Path(__file__).parent
VALUE = {"text": "grüße", "bytes": b"\xff\x00", "list": [1, -7, 300, 70000, 2.5, None, True], "long": "x" * 40}


def text(data):
    return base64.b64encode(data).decode()


def key():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        salt.crypt.write_keys(folder, "k", 2048)
        private = (path / "k.pem").read_text()
        finger = salt.utils.crypt.pem_finger(str(path / "k.pub"), sum_type="sha256")
        return private, (path / "k.pub").read_text(), finger


def main():
    private, public, finger = key()
    own = salt.crypt.PrivateKey.from_str(private)
    other = salt.crypt.PublicKey.from_str(public)
    out = {"private": private, "public": public, "finger": finger}
    out["finger 3008"] = salt.utils.crypt.pem_finger(key=public.strip(), sum_type="sha256")
    out["token"] = text(own.encrypt(b"salt"))
    out["x931"] = text(own.encrypt(hashlib.sha256(b"a key").hexdigest().encode()))
    for name in ["SHA1", "SHA224"]:
        out[f"sealed {name}"] = text(other.encrypt(b"a key", f"OAEP-{name}"))
        out[f"signed {name}"] = text(own.sign(b"a message", f"PKCS1v15-{name}"))
    session = salt.crypt.Crypticle.generate_key_string()
    seal = salt.crypt.Crypticle({}, session)
    out["session"] = session
    out["answer"] = text(seal.dumps(VALUE, nonce="0123456789abcdef" * 2))
    out["publication"] = text(seal.dumps(VALUE))
    out["payload"] = text(salt.payload.dumps(VALUE))
    (HERE / "vectors.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
