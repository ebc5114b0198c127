"""record.py FOLDER: record Salt's answers to the reactor's cases: the low chunks of a rule's SLS files, and the calls of its clients.

FOLDER is this folder. Run it with the Python in which Salt is installed.
"""
import json, os, sys, logging, tempfile, types
import salt.config, salt.utils.reactor, salt.client, salt.utils.args, salt.utils.event
HERE = sys.argv[1]
class Errors(logging.Handler):
    def __init__(self):
        super().__init__(logging.ERROR); self.lines = []
    def emit(self, record):
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += " | " + type(record.exc_info[1]).__name__ + ": " + str(record.exc_info[1])
        self.lines.append(text)
errors = Errors()
logging.getLogger("salt.utils.reactor").addHandler(errors)
logging.getLogger("salt.template").addHandler(errors)
logging.getLogger("salt.state").addHandler(errors)
def plain(x):
    return json.loads(json.dumps(x, default=str))
class FakeLocal:
    def __init__(self, calls): self.calls = calls
    def cmd_async(self, tgt, fun, arg=(), tgt_type="glob", ret="", jid="", kwarg=None, **kwargs):
        arg = salt.utils.args.condition_input(arg, kwarg)
        self.calls.append({"type": "local", "tgt": tgt, "tgt_type": tgt_type, "fun": fun, "arg": arg, "ret": ret})
class FakeCaller:
    def __init__(self, calls): self.calls = calls
    def cmd(self, fun, *args, **kwargs):
        self.calls.append({"type": "caller", "fun": fun, "arg": salt.utils.args.condition_input(args, kwargs)})
class FakePool:
    def __init__(self, calls): self.calls = calls
    def fire_async(self, func, args=None, kwargs=None):
        fun, low = args
        kind = func.__self__.client
        self.calls.append({"type": kind, "fun": fun, "arg": list(low["arg"]), "kwarg": low["kwarg"]})
        return True
def main():
    root = tempfile.mkdtemp()
    opts = salt.config.master_config(None)
    opts.update(root_dir=root, cachedir=root+"/cache", sock_dir=root+"/sock", pki_dir=root+"/pki", conf_file=root+"/master", id="mm_master",
                file_roots={"base": [os.path.join(HERE, "roots")]}, __role="master", grains={"os": "Debian"}, file_client="local")
    for d in ("cache", "sock", "pki", "cache/proc"): os.makedirs(root + "/" + d, exist_ok=True)
    calls = []
    rx = salt.utils.reactor.Reactor(dict(opts, reactor=[]))
    wrap = salt.utils.reactor.ReactWrap(opts)
    for kind in ("runner", "wheel"):
        wrap.populate_client_cache({"state": kind})
    wrap.client_cache["local"] = FakeLocal(calls)
    wrap.client_cache["caller"] = FakeCaller(calls)
    wrap.pool = FakePool(calls)
    for name in sorted(os.listdir(HERE)):
        folder = os.path.join(HERE, name)
        if not os.path.exists(folder + "/event.json"): continue
        event = json.load(open(folder + "/event.json"))
        refs = event.get("refs") or [folder + "/*.sls"]
        refs = [r.replace("@HERE@", folder) for r in refs]
        errors.lines.clear(); calls.clear()
        chunks = rx.reactions(event["tag"], event["data"], refs)
        rendered = list(errors.lines); errors.lines.clear()
        for chunk in chunks:
            try:
                wrap.run(chunk)
            except Exception as exc:
                errors.lines.append("raised %s: %s" % (type(exc).__name__, exc))
        clean = lambda lines: [l.replace(folder, "@HERE@") for l in lines]
        low = json.loads(json.dumps(plain(chunks)).replace(folder, "@HERE@").replace(root + "/cache/files/base", "@ROOTS@"))
        out = {"low": low, "errors": clean(rendered), "calls": plain(calls), "call_errors": clean(errors.lines)}
        with open(folder + "/salt.json", "w") as f:
            json.dump(out, f, indent=1); f.write("\n")
        print(name, len(chunks), out["errors"], out["call_errors"])
main()
