#!/usr/bin/env python3
"""record.py [CASE...]: record the answers of a real Salt, with which tests/conform compares Pinch.

    SALT_VENV=/path/to/venv tests/corpus/record.py                     # everything: states/ and cli/
    SALT_VENV=... tests/corpus/record.py states/file.managed cli/test  # cases whose names begin with one of these
    SALT_VENV=... tests/corpus/record.py --new                         # cases that have no answer yet

SALT_VENV is a virtual environment with Salt, which tests/install-salt creates. Run this as root; otherwise cases with `root = true`,
`throwaway` or `boot` keep their recorded answers. JOBS (default 2) cases are recorded at a time, each in its own scratch folder.

states/MODULE.FUNCTION/CASE.toml (written by hand) -> CASE.json: for each run the exit code, the return and the files. A case with
`throwaway = true` runs in an overlay of this machine's root (throwaway.sh): its setup may have absolute paths, and changed paths that
`watch` lists are recorded too. `boot = "INIT"` starts an init system there (boot.sh). `prepare` is a shell script that runs in the scratch
folder before the first run: it creates what an entry of `setup` cannot create, such as an archive or a repository.
cli/GROUP.json: {case: {"words": written by hand, "out": recorded, "rc": recorded}}, run with the files of cli/tree.
CASE.ours.json and "ours" are Pinch's intended answers to the cases that differences.toml lists; they are not recorded here.
"out" is null if Salt prints a function's documentation: then only the exit code is compared.
To add a case, write the TOML file or the words, and record it. (recorded/ has its own convert.py.)
"""
import atexit, ctypes, grp, json, multiprocessing, os, pwd, re, shutil, signal, stat, subprocess, sys, tempfile, tomllib

os.environ.update(SHELL="/bin/bash", LANG="C.UTF-8")  # as tests/src/program.rs sets them; Salt reads its shell from SHELL

try:  # Modules that salt-call always loads are loaded once; each call is a fork.
    import salt.scripts, salt.cli.call, salt.cli.caller, salt.minion, salt.state, salt.output, salt.pillar
    import salt.grains.core, salt.renderers.jinja, salt.renderers.yaml, salt.states.file, salt.modules.config, salt.modules.file
    import salt.modules.cmdmod, salt.modules.saltutil, salt.modules.state, salt.utils.gitfs, salt.utils.napalm, salt.utils.templates
except ImportError:
    python = os.path.join(os.environ["SALT_VENV"], "bin", "python")
    os.execv(python, [python, *sys.argv])

HERE = os.path.dirname(os.path.abspath(__file__))
USER, GROUP = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
VOLATILE = {"__pub_pid", "__pub_jid", "__pub_fun", "duration", "start_time", "__jid__", "jid", "pid", "_stamp", "__orchestration__",
            "Execution Time"}


class Scratch:
    """The folders of a minion, as tests/src/scratch.rs creates them."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="conform-")
        os.chmod(self.dir, 0o700)
        for folder in ("etc", "root", "run", "srv/salt", "srv/pillar", "out"):
            os.makedirs(os.path.join(self.dir, folder))
        with open(os.path.join(HERE, "minion")) as f:
            self.write("etc/minion", f.read())

    def filled(self, text):
        text = text.replace("@TMP@", self.dir + "/out").replace("@ENV@", self.dir)
        return text.replace("@USER@", USER).replace("@GROUP@", GROUP).replace("@CORPUS@", HERE)

    def masked(self, text):
        return text.replace(self.dir, "@ENV@").replace("@ENV@/out", "@TMP@").replace(os.uname().release, "@KERNEL@")

    def write(self, path, text):
        path = os.path.join(self.dir, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(self.filled(text))

    def copy(self, tree):
        for folder, _, files in os.walk(tree):
            for name in files:
                path = os.path.join(folder, name)
                with open(path) as f:
                    self.write(os.path.relpath(path, tree), f.read())

    def changed(self, path):
        """Returns the path of a changed file in the upper layer of the throw-away root."""
        return self.dir + "/over/changed" + path

    def place(self, path):
        """Returns the real path of a case's path, which is relative to the scratch folder or absolute in the throw-away root."""
        if not path.startswith("/"):
            return os.path.join(self.dir, path)
        below = ""
        for part in path.split("/")[1:-1]:
            below += "/" + part
            if not os.path.isdir(self.changed(below)):
                os.makedirs(self.changed(below))
                if os.path.isdir(below):
                    shutil.copystat(below, self.changed(below))
        return self.changed(path)

    def make(self, entry):
        path = self.place(entry["path"])
        if entry.get("absent"):
            os.mknod(path, stat.S_IFCHR, 0)
        elif "link" in entry:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(self.filled(entry["link"]), path)
        elif entry.get("dir"):
            os.makedirs(path, exist_ok=True)
        else:
            self.write(path, entry.get("content", ""))
        if "mode" in entry:
            os.chmod(path, int(entry["mode"], 8))
        if "mtime" in entry:
            os.utime(path, (entry["mtime"], entry["mtime"]))

    def salt_call(self, words, throwaway=False):
        child = os.fork()
        if child == 0:
            if throwaway:
                self.enter_throwaway()
            self.become_salt_call(["salt-call", "-c", self.dir + "/etc", "--local", *words])
        _, status = os.waitpid(child, 0)
        read = lambda name: open(os.path.join(self.dir, name), errors="replace").read()
        return read("stdout"), os.waitstatus_to_exitcode(status), read("stderr")

    def boot(self, init):
        subprocess.run([os.path.join(HERE, "boot.sh"), self.dir, init], check=True, stdin=subprocess.DEVNULL)

    def prepare(self, script, throwaway):
        child = os.fork()
        if child == 0:
            if throwaway:
                self.enter_throwaway()
            os.chdir(self.dir)
            os.execvp("sh", ["sh", "-euc", self.filled(script)])
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise SystemExit(f"prepare failed: {script}")

    def enter_throwaway(self):
        """Does the same as throwaway.sh, for a process that has loaded Salt."""
        libc = ctypes.CDLL(None)
        libc.prctl(24, 25, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_TIME
        if os.path.exists(self.dir + "/over/init"):
            self.enter_booted(libc)
            return
        namespaces = 0x00020000 | 0x40000000  # CLONE_NEWNS, CLONE_NEWNET
        if libc.unshare(namespaces) != 0:
            os._exit(99)
        run = lambda *words: subprocess.run(words, check=True)
        over, root = self.dir + "/over", self.dir + "/over/root"
        for folder in ("changed", "work", "root"):
            os.makedirs(f"{over}/{folder}", exist_ok=True)
        run("mount", "--make-rprivate", "/")
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={over}/changed,workdir={over}/work", root)
        for folder in ("proc", "dev", "sys"):
            run("mount", "--rbind", "/" + folder, f"{root}/{folder}")
        run("mount", "--bind", self.dir, root + self.dir)
        os.chroot(root)

    def enter_booted(self, libc):
        with open(self.dir + "/over/init") as f:
            process = "/proc/" + f.read().strip()
        root = os.open(process + "/root", os.O_RDONLY)
        spaces = [os.open(f"{process}/ns/{name}", os.O_RDONLY) for name in ("uts", "ipc", "net", "pid", "cgroup", "mnt")]
        for space in spaces:
            if libc.setns(space, 0) != 0:
                os._exit(99)
        os.fchdir(root)
        os.chroot(".")
        child = os.fork()  # only a child process is in the other PID namespace
        if child != 0:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)

    def end_processes(self):
        """Ends the processes that a case has started in its throw-away root."""
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{number}/mountinfo") as f:
                    if f"upperdir={self.changed('')}," in f.read():
                        os.kill(int(number), signal.SIGKILL)
            except OSError:
                pass

    def become_salt_call(self, argv):
        code = 1
        try:
            signal.alarm(120)
            os.chdir(self.dir)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
            sys.argv = argv
            code = salt.scripts.salt_call() or 0
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
        finally:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def without_times(text):
    text = re.sub(r"\d\d:\d\d:\d\d\.\d{6}", "HH:MM:SS", text)
    text = re.sub(r"(Duration:|Total run time:) +[\d.]+ m?s", r"\1 T", text)
    text = re.sub(r"\b20\d{18}\b", "JID", text)
    text = re.sub(r"""(pid['"]?:\s+)\d+""", r"\1N", text)
    text = re.sub(r"(\bduration'?:\s+)[\d.]+", r"\1T", text)
    text = re.sub(r"('lstchg': )2\d{4}", r"\1DAY", text)
    text = re.sub(r"Last metadata expiration check: [^\n]*\n\s*", "", text)  # dnf prints this if its lists are a second old
    text = re.sub(r"\b\w{6}(-\w{4}){5}-\w{6}\b", "VOLUME", text)  # LVM's id of a disk
    text = re.sub(r'[^\s"]*/__salt\.tmp\.[^\s"]+', "TMPFILE", text)
    # Only the last line of a Python traceback is compared.
    return re.sub(r"(?s)(An exception occurred in this state: )Traceback.*\n(\S[^\n]*)\n?$", r"\1\2", text)


def settled(value, text, key=None):
    """Returns the value without the parts that differ in each run or on each machine."""
    if isinstance(value, dict):
        return {text(k): settled(v, text, k) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, list):
        return [settled(v, text) for v in value]
    if key == "lstchg" and isinstance(value, int) and value > 20000:
        return "DAY"
    if isinstance(value, str):
        owner = {"user": {USER: "@USER@"}, "group": {GROUP: "@GROUP@"}}.get(key, {})
        return owner.get(value) or text(value)
    return value


def without_days(text):
    """Returns the text of a shadow file or crontab without the day on which a program has written it."""
    text = re.sub(r"(?m)^# \(\S+ installed on [^)\n]*\)$", "# (TABLE installed on DAY)", text)
    return re.sub(r"(?m)^([^:\n]+:[^:\n]*:)2\d{4}((:\d*){6})$", r"\1DAY\2", text)


def described(scratch, path):
    meta = os.lstat(path)
    if stat.S_ISLNK(meta.st_mode):
        entry = {"link": scratch.masked(os.readlink(path))}
    elif stat.S_ISDIR(meta.st_mode):
        entry = {"dir": True}
    elif stat.S_ISFIFO(meta.st_mode):
        entry = {"fifo": True}
    elif stat.S_ISCHR(meta.st_mode) and meta.st_rdev == 0:
        return {"absent": True}
    else:
        with open(path, "rb") as f:
            data = f.read()
        try:
            content = data.decode()
        except UnicodeDecodeError:
            content = "".join(f"\\x{byte:02x}" for byte in data)
        entry = {"content": without_days(scratch.masked(content))}
    if "link" not in entry:
        entry["mode"] = f"{stat.S_IMODE(meta.st_mode):04o}"
    if "content" in entry and meta.st_nlink > 1:
        entry["links"] = meta.st_nlink
    user, group = named(pwd.getpwuid, meta.st_uid), named(grp.getgrgid, meta.st_gid)
    if (user, group) != (USER, GROUP):
        entry["owner"] = f"{'@USER@' if user == USER else user}:{'@GROUP@' if group == GROUP else group}"
    return entry


def named(look_up, number):
    try:
        return look_up(number)[0]
    except KeyError:
        return str(number)


def contents(scratch, folder, below=""):
    found = {}
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        found[below + entry.name] = described(scratch, entry.path)
        if entry.is_dir(follow_symlinks=False):
            found.update(contents(scratch, entry.path, below + entry.name + "/"))
    return found


def watched(scratch, paths):
    """Returns those of the watched paths in the throw-away root that a run has changed."""
    found = {}
    for path in paths:
        changed = scratch.changed(path)
        if not os.path.lexists(changed):
            continue
        found[path] = described(scratch, changed)
        if os.path.isdir(changed) and not os.path.islink(changed):
            found.update(contents(scratch, changed, path + "/"))
    return found


def record_state(path):
    with open(path, "rb") as f:
        case = tomllib.load(f)
    throwaway = case.get("throwaway", False) or "boot" in case
    if (throwaway or case.get("root")) and os.getuid() != 0:
        return "skipped, it needs root"
    scratch = Scratch()
    try:
        scratch.write("srv/salt/case.sls", case["sls"])
        scratch.write("etc/minion.d/case.conf", case.get("config", ""))
        if "pillar" in case:
            scratch.write("srv/pillar/top.sls", "base:\n  '*':\n    - data\n")
            scratch.write("srv/pillar/data.sls", case["pillar"])
        for name, text in case.get("files", {}).items():
            scratch.write("srv/salt/" + name, text)
        for entry in case.get("setup", []):
            scratch.make(entry)
        if "boot" in case:
            scratch.boot(case["boot"])
        if "prepare" in case:
            scratch.prepare(case["prepare"], throwaway)
        runs, tree = [], None
        text = lambda t: without_times(scratch.masked(t))
        for words in case.get("runs", ["test=True", "", ""]):
            out, rc, err = scratch.salt_call(["--out=json", "state.apply", "case", *words.split()], throwaway)
            try:
                run = {"rc": rc, "ret": settled(json.loads(out)["local"], text)}
            except ValueError:
                return f"not JSON: {out[:200]!r} {err[-800:]}"
            now = contents(scratch, scratch.dir + "/out") | watched(scratch, case.get("watch", []))
            if now != tree:
                run["tree"] = tree = now
            runs.append(run)
    finally:
        scratch.end_processes()
        shutil.rmtree(scratch.dir)
    write_json(path[:-5] + ".json", runs)
    return summary(runs)


def summary(runs):
    """Returns T, F or N (the result) for each state of each run, to show that a case does what it should."""
    mark = {True: "T", False: "F", None: "N"}
    show = lambda ret: "".join(mark[r["result"]] for r in ret.values()) if isinstance(ret, dict) else "error"
    return " ".join(show(run["ret"]) for run in runs)


def record_command(words):
    scratch = Scratch()
    try:
        scratch.copy(os.path.join(HERE, "cli", "tree"))
        out, rc, err = scratch.salt_call([scratch.filled(w) for w in words])
        text = lambda t: without_times(scratch.masked(t))
        try:
            doc = json.loads(out)
        except ValueError:
            doc = None
        if isinstance(doc, dict):
            out = settled(doc, text)
        elif rc != 0 and "--out=json" in words:
            out = None  # no output, or the function's documentation, whose text is not compared
        else:
            out = scratch.masked(out)
        return {"words": words, "out": out, "rc": rc}
    finally:
        shutil.rmtree(scratch.dir)


def write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f, indent=1, ensure_ascii=False)
        f.write("\n")


def chosen(name, recorded):
    starts = [word for word in sys.argv[1:] if word != "--new"]
    return not ("--new" in sys.argv and recorded) and (not starts or any(name.startswith(start) for start in starts))


def main():
    os.umask(0o022)
    with multiprocessing.get_context("fork").Pool(int(os.environ.get("JOBS", 2))) as pool:
        folder = os.path.join(HERE, "states")
        paths = [os.path.join(d, f) for d, _, files in os.walk(folder) for f in files if f.endswith(".toml")]
        name = lambda path: os.path.relpath(path, HERE)[:-5]
        paths = [p for p in sorted(paths) if chosen(name(p), os.path.exists(p[:-5] + ".json"))]
        for path, what in zip(paths, pool.imap(record_state, paths)):
            print(f"{name(path)}: {what}", flush=True)
        for group in sorted(f[:-5] for f in os.listdir(os.path.join(HERE, "cli")) if f.endswith(".json")):
            path = os.path.join(HERE, "cli", group + ".json")
            with open(path) as f:
                cases = json.load(f)
            names = [n for n in cases if chosen(f"cli/{group}/{n}", "rc" in cases[n])]
            for n, answer in zip(names, pool.imap(record_command, [cases[n]["words"] for n in names])):
                cases[n] = answer | {k: v for k, v in cases[n].items() if k == "ours"}
                print(f"cli/{group}/{n}: {answer['rc']} {str(answer['out'])[:150]!r}", flush=True)
            write_json(path, cases)


if __name__ == "__main__":
    main()
