"""Checksums."""
import base64
import hashlib
import random


def _digest(kind):
    return lambda instr: hashlib.new(kind, instr if isinstance(instr, bytes) else instr.encode("utf-8")).hexdigest()


md5_digest, sha1_digest, sha256_digest, sha512_digest = map(_digest, ("md5", "sha1", "sha256", "sha512"))


def get_hash(path, form="sha256", chunk_size=65536):
    try:
        found = hashlib.new(form)
    except (AttributeError, TypeError, ValueError):
        raise ValueError("Invalid hash type: {}".format(form))
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(chunk_size), b""):
            found.update(block)
    return found.hexdigest()


def random_hash(size=9999999999, hash_type="sha256"):
    return _digest(hash_type)(str(random.SystemRandom().randint(0, size)))


def base64_b64encode(instr):
    return base64.b64encode(instr if isinstance(instr, bytes) else instr.encode("utf-8")).decode("utf-8")


def base64_b64decode(instr):
    decoded = base64.b64decode(instr)
    try:
        return decoded.decode("utf-8")
    except UnicodeDecodeError:
        return decoded


base64_encodestring, base64_decodestring = lambda text: base64_b64encode(text) + "\n", base64_b64decode
