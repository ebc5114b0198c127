"""The master of this machine: jobs for its minions, its runners and wheel functions. Builds without a master lack this file."""
import json
import os
import random
import sys
import time

from salt import _pinch, exceptions

# The options of a job, and arguments for the waiting and printing, which have no effect here.
OPTIONS = ("delimiter", "executor_opts", "metadata", "module_executors", "ret_config", "ret_kwargs")
UNUSED = ("gather_job_timeout", "listen", "progress", "show_jid", "show_timeout", "verbose")
# The arguments that name a user of `external_auth`.
LOGIN = ("eauth", "username", "password", "token")
NO_MATCH = "No minions matched the target. No command was sent, no jid was assigned."
NO_RESPONSE = (
    "[No response]\nThe minions may not have all finished running and any remaining minions will return upon completion. "
    "To look up the return data for this job later, run the following command:\n\nsalt-run jobs.lookup_jid "
)


def exists(opts):
    """Returns whether the socket of a master exists. One that cannot be examined counts as existing."""
    try:
        os.stat(os.path.join(opts.get("sock_dir") or "/nonexistent", "master.sock"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def request(opts, kind, message):
    """Sends a request to the master of this machine. Yields the parts of the answer as they arrive, and its end."""
    message = dict(_pinch.plain(message), master=kind, sock_dir=opts.get("sock_dir"))
    # The process serves this request only, because others may be sent before the end of the answer.
    child = _pinch.start()
    try:
        child.stdin.write(json.dumps(message).encode() + b"\n")
        child.stdin.close()
        for line in child.stdout:
            reply = _pinch.reply(line)
            yield reply["return"]
            if not reply.get("more"):
                return
        raise _pinch.exception("SaltClientError", "%s ended without a reply" % _pinch.program())
    finally:
        child.kill()
        child.stdout.close()
        child.wait()


def runner(opts, fun, arg, kwarg=None):
    """Calls a runner of the master of this machine. Returns its result as the data of its event."""
    (data,) = request(opts, "runner", {"fun": fun, "arg": _arguments(arg, kwarg)})
    if not data["success"] and data["return"] == "'%s' is not available." % fun:
        raise _pinch.exception("CommandNotFoundError", data["return"])
    return data


def wheel(opts, fun, arg, kwarg=None):
    """Calls a wheel function of the master of this machine."""
    (found,) = request(opts, "wheel", {"fun": fun, "arg": _arguments(arg, kwarg)})
    return {"return": found}


def _arguments(arg, kwarg):
    return list(arg) + ([dict(kwarg, __kwarg__=True)] if kwarg else [])


def _login(kwargs):
    """Takes the arguments that name a user of `external_auth`, and returns those that are set."""
    return {key: str(value) for key, value in ((key, kwargs.pop(key, None)) for key in LOGIN) if value}


class LocalClient:
    """Sends jobs to minions through the master of this machine, as the program `salt` does."""

    def __init__(self, c_path="/etc/salt/master", mopts=None, skip_perm_errors=False, io_loop=None, **kwargs):
        import salt.config

        self.opts = mopts or salt.config.client_config(c_path)

    def _rows(self, tgt, fun, arg, timeout, tgt_type, ret, jid="", kwarg=None, **kwargs):
        """Publishes a job. Yields the job id and the minions, or {} if none matches; then a dictionary for each minion."""
        login = _login(kwargs)
        unknown = set(kwargs).difference(OPTIONS, UNUSED, ["preview"])
        if unknown:
            raise exceptions.SaltInvocationError("LocalClient does not support " + ", ".join(sorted(unknown)))
        job = {
            "tgt": tgt if isinstance(tgt, str) else list(tgt),
            "tgt_type": tgt_type,
            "nodegroups": self.opts.get("nodegroups") or {},
            "fun": fun if isinstance(fun, str) else ",".join(fun),
            "arg": _arguments(arg, kwarg),
            "ret": ret,
            "jid": jid,
            "timeout": float(self.opts.get("timeout", 5) if timeout is None else timeout),
            "options": {key: kwargs[key] for key in kwargs if key not in UNUSED and kwargs[key]},
        }
        if login:
            job["login"] = login
        missing = []
        for part in request(self.opts, "publish", job):
            if "minions" in part:
                jid, missing = part["jid"], part["missing"] if part["minions"] else []
                if not part["minions"]:
                    print(NO_MATCH, file=sys.stderr)
                yield part if part["minions"] else {}
            elif part.get("failed"):
                yield {part["id"]: {"failed": part["failed"]}}
            elif "id" in part:
                data = {key: part[key] for key in ("out", "retcode", "jid") if part.get(key) is not None}
                yield {part["id"]: dict(data, ret=part.get("return"))}
        for name in missing if "preview" not in kwargs else ():
            yield {name: {"failed": "missing"}}

    def run_job(self, tgt, fun, arg=(), tgt_type="glob", ret="", timeout=None, jid="", kwarg=None, **kwargs):
        """Publishes a job, and does not wait for returns."""
        job = next(self._rows(tgt, fun, arg, 0, tgt_type, ret, jid, kwarg, **kwargs))
        return {key: job[key] for key in ("jid", "minions") if job}

    def cmd_async(self, tgt, fun, arg=(), tgt_type="glob", ret="", jid="", kwarg=None, **kwargs):
        return self.run_job(tgt, fun, arg, tgt_type, ret, None, jid, kwarg, **kwargs).get("jid", 0)

    def cmd_iter(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", kwarg=None, **kwargs):
        """Yields returns as they arrive."""
        wants_job, wants_all = kwargs.pop("yield_pub_data", False), kwargs.pop("expect_minions", False)
        rows = self._rows(tgt, fun, arg, timeout, tgt_type, ret, kwarg=kwarg, **kwargs)
        job = next(rows)
        if wants_job or not job:
            yield job
        for row in rows:
            ((name, data),) = row.items()
            if "failed" not in data:
                yield row
            elif wants_all or data["failed"] == "missing":
                yield {name: {"failed": True}}

    def cmd_cli(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", verbose=False, kwarg=None, progress=False, **kwargs):
        """Yields returns as they arrive, and then a text for each minion that did not answer."""
        kwargs.pop("expect_minions", None)
        rows = self._rows(tgt, fun, arg, timeout, tgt_type, ret, kwarg=kwarg, **kwargs)
        job, silent = next(rows), {}
        for row in rows:
            ((name, data),) = row.items()
            if "failed" not in data:
                yield row
                continue
            text = "[Not connected]" if data["failed"] == "not_connected" else NO_RESPONSE + job["jid"]
            silent[name] = {"out": "no_return", "ret": "Minion did not return. " + text, "retcode": 1}
        yield silent

    def cmd(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", jid="", full_return=False, kwarg=None, **kwargs):
        found = {}
        for row in self.cmd_cli(tgt, fun, arg, timeout, tgt_type, ret, jid=jid, kwarg=kwarg, **kwargs):
            found.update(row)
        return found if full_return else {name: data["ret"] for name, data in found.items()}

    def cmd_subset(self, tgt, fun, arg=(), tgt_type="glob", ret="", kwarg=None, subset=3, cli=False, **kwargs):
        subset = kwargs.pop("sub", subset)
        login = {key: kwargs[key] for key in LOGIN if key in kwargs}
        found = self.cmd(tgt, "sys.list_functions", tgt_type=tgt_type, **login).items()
        able = [name for name, functions in found if isinstance(functions, list) and fun in functions]
        able = random.sample(able, min(subset, len(able)))
        return (self.cmd_cli if cli else self.cmd)(able, fun, arg, tgt_type="list", ret=ret, kwarg=kwarg, **kwargs)

    def cmd_batch(self, tgt, fun, arg=(), tgt_type="glob", ret="", kwarg=None, batch="10%", **kwargs):
        """Runs a job on some minions after the other. Yields their returns, and {} for a minion that does not answer."""
        from salt.utils.jid import gen_jid

        failhard, wait = kwargs.pop("failhard", False), int(kwargs.pop("batch_wait", 0))
        login = {key: kwargs[key] for key in LOGIN if key in kwargs}
        timeout = kwargs.pop("timeout", None)
        if not login:
            # Only root chooses the id of a job.
            kwargs["jid"] = gen_jid()
        job = next(self._rows(tgt, "test.ping", (), 0, tgt_type, "", preview=True, **login))
        left = [name for name in job.get("minions", ()) if name not in job["missing"]]
        size = str(batch)
        size = max(1, int(float(size.strip("%")) / 100 * len(left) if "%" in size else size))
        for start in range(0, len(left), size):
            time.sleep(wait if start else 0)
            rows = self._rows(left[start:start + size], fun, arg, timeout, "list", ret, kwarg=kwarg, **kwargs)
            next(rows)
            for row in rows:
                ((name, data),) = row.items()
                yield {name: data.get("ret", {})}
                if failhard and data.get("retcode"):
                    return

    def get_cache_returns(self, jid):
        """Returns what the master has stored of a job."""
        job = runner(self.opts, "jobs.list_job", [str(jid)])["return"]
        if not isinstance(job, dict):
            raise exceptions.SaltClientError("Could not examine master job cache: %s" % job)
        keys = {"return": "ret", "out": "out"}
        return {name: {keys[key]: data[key] for key in keys if key in data} for name, data in job.get("Result", {}).items()}
