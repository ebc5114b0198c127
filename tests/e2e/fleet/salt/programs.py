"""Runs programs of Salt, each in a fork of this process, because loading Salt takes longer than most of them run.

Each line of stdin is a JSON list: a program and its words. Each line of stdout is the answer: its output and exit code."""

import json
import os
import sys
import tempfile
import traceback

import salt.cli.key
import salt.cli.run
import salt.cli.salt
import salt.client
import salt.scripts
import salt.wheel

PROGRAMS = {"salt": salt.scripts.salt_main, "salt-key": salt.scripts.salt_key, "salt-run": salt.scripts.salt_run}


def run(words, out):
    """Runs a program in this process, and returns its exit code."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out.fileno(), 1)
    sys.argv = words
    try:
        PROGRAMS[words[0]]()
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 255
    finally:
        sys.stdout.flush()


for line in sys.stdin:
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if child == 0:
            os._exit(run(json.loads(line), out))
        status = os.waitpid(child, 0)[1]
        out.seek(0)
        answer = {"out": out.read().decode(errors="replace"), "rc": os.waitstatus_to_exitcode(status)}
    sys.__stdout__.write(json.dumps(answer) + "\n")
    sys.__stdout__.flush()
