#!/usr/bin/env python3
"""record.py [CASE...]: record what a real salt-ssh prints, with which tests/e2e/ssh/recorded.rs compares Pinch.

    SALT_VENV=/path/to/venv tests/corpus/ssh/commands/record.py                       # everything
    SALT_VENV=... tests/corpus/ssh/commands/record.py states/a raw                    # cases whose names begin with one of these
    SALT_VENV=... tests/corpus/ssh/commands/record.py --new                           # cases that have no answer yet

SALT_VENV is a virtual environment with Salt, which tests/install-salt creates. Needs root and the packages of tests/run.

GROUP.json is {CASE: {"program", "words", "files": written by hand, "out", "err", "rc": recorded}}. The program is salt-ssh or salt-call. Each
case runs with the files of `tree`, and those of `files` over them; `null` is a file that does not exist. @ENV@ is the folder of these
files, @WEB1@ and @WEB2@ are the ports of two hosts (../../sshd.sh), and nothing listens on @DOWN@. The returns of hosts that come in any order are sorted.
`err` is what Salt prints to stderr; of a traceback it has the last line. Only that of `ours` is compared.
`ours` is Pinch's answer in the cases that ../../differences.toml lists. `PINCH_RECORD=1` writes it, with the test ssh::recorded.
"""
import json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
MASKS = [
    (r"\d\d:\d\d:\d\d\.\d{6}", "HH:MM:SS"),
    (r"(Duration:|Total run time:) +[\d.]+ m?s", r"\1 T"),
    (r"(\bduration['\"]?:\s+)[\d.]+", r"\g<1>0"),
    (r"\b20\d{18}\b", "JID"),
    (r"(pid['\"]?:\s+)\d+", r"\g<1>0"),
    (r"SHA256:[\w+/]+", "SHA256:KEY"),
    (r"/var/tmp/\.root_[0-9a-f]+_salt", "@THIN@"),
    (r"(?m)^\[(\w+) *\] ", r"[\1] "),
    (r"(?m)^unclosed .*\n", ""),
    (r"Failed to import returner highstate_return.*\n(?s:.*?)TypeError: argument of type 'NoneType' is not iterable\n", ""),
    # Of a traceback, the last line stays: here as lines, and in a text of JSON.
    (r"(?m)^( *)Traceback \(most recent call last\):\n(\1 .*\n|\s*\n)*", ""),
    (r"(?m)^(\S.*)Traceback \(most recent call last\):\n( .*\n|\n)*", r"\1"),
    (r"Traceback \(most recent call last\):(\\n (\\[^n]|[^\\])*)+\\n", ""),
    (r"(?s)(Usage: salt-ssh [^\n]*\n)\nOptions:.*", r"\1(the help)"),
]


def free_port(taken=[20000 + os.getpid() % 9000]):
    """Returns a port that the kernel does not choose for outgoing connections."""
    while True:
        taken[0] += 1
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", taken[0])) != 0:
                return taken[0]


class Site:
    """The machine that calls, and two hosts."""

    def __init__(self, folder):
        self.dir, self.hosts = folder, []
        for key in ("key", "hostkey"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"], check=True)
        self.ports = {name: str(free_port()) for name in ("@WEB1@", "@WEB2@", "@DOWN@")}
        for name in ("@WEB1@", "@WEB2@"):
            self.hosts.append(self.start(folder + "/" + name.strip("@"), self.ports[name]))
        with open(folder + "/hostkey.pub") as f:
            key = f.read()
        self.known = "".join(f"[127.0.0.1]:{port} {key}" for port in self.ports.values())

    def start(self, folder, port):
        os.mkdir(folder)
        for name in ("key.pub", "hostkey", "hostkey.pub"):
            shutil.copy(f"{self.dir}/{name}", folder)
        script = os.path.join(HERE, "..", "..", "sshd.sh")
        with open(folder + "/log", "w") as log:
            host = subprocess.Popen(["sh", script, folder, port], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", int(port))).close()
                return host
            except OSError:
                time.sleep(0.1)
        raise SystemExit(open(folder + "/log").read())

    def end(self):
        for host in self.hosts:
            host.send_signal(signal.SIGKILL)
            host.wait()

    def filled(self, text):
        for name, port in self.ports.items():
            text = text.replace(name, port)
        return text.replace("@ENV@", self.dir)

    def masked(self, text):
        text = text.replace(self.dir, "@ENV@")
        for name, port in self.ports.items():
            text = re.sub(rf"\b{port}\b", name, text)
        for mask, instead in MASKS:
            text = re.sub(mask, instead, text)
        documents = json_documents(text)
        if documents:
            text = "\n".join(json.dumps(one, indent=4, ensure_ascii=False) for one in documents)
        return by_host([line.rstrip() for line in text.strip().splitlines()])

    def write(self, path, text):
        path = os.path.join(self.dir, path)
        if text is None:
            os.remove(path)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(self.filled(text))

    def lay_out(self, files):
        for folder in ("etc", "srv"):
            shutil.rmtree(os.path.join(self.dir, folder), ignore_errors=True)
        tree = os.path.join(HERE, "tree")
        for folder, _, names in os.walk(tree):
            for name in names:
                with open(os.path.join(folder, name)) as f:
                    self.write(os.path.relpath(os.path.join(folder, name), tree), f.read())
        self.write("known", self.known)
        for path, text in files.items():
            self.write(path, text)

    def answer(self, case):
        self.lay_out(case.get("files", {}))
        program = os.path.join(os.environ["SALT_VENV"], "bin", case.get("program", "salt-ssh"))
        words = [self.filled(word) for word in case["words"]]
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {"SHELL": "/bin/bash", "LANG": "C.UTF-8"}
        done = subprocess.run([program, "-c", self.dir + "/etc", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, cwd=self.dir, timeout=300)
        return {"out": self.masked(done.stdout), "err": self.masked(done.stderr), "rc": done.returncode}


def json_documents(text):
    """Returns the JSON documents of an output, with the hosts in order."""
    found, text, decoder = [], text.strip(), json.JSONDecoder()
    while text:
        try:
            one, end = decoder.raw_decode(text)
        except ValueError:
            return []
        found.append({key: one[key] for key in sorted(one)} if isinstance(one, dict) else one)
        text = text[end:].lstrip()
    return found


def by_host(lines):
    """Sorts the returns of the hosts, which come in any order."""
    parts = [[]]
    for line in lines:
        if re.match(r"(web1|web2|down)[: ]|\{$", line):
            parts.append([])
        parts[-1].append(line)
    return [line for part in [parts[0], *sorted(parts[1:])] for line in part]


def chosen(name, case):
    starts = [word for word in sys.argv[1:] if word != "--new"]
    return not ("--new" in sys.argv and "rc" in case) and (not starts or any(name.startswith(start) for start in starts))


def record(site, path):
    group = os.path.basename(path)[:-5]
    with open(path) as f:
        cases = json.load(f)
    for name, case in cases.items():
        if chosen(f"{group}/{name}", case):
            began = time.time()
            kept = {key: case[key] for key in ("program", "words", "files") if key in case}
            cases[name] = kept | site.answer(case) | {key: case[key] for key in ("ours",) if key in case}
            print(f"{group}/{name}: {cases[name]['rc']} {str(cases[name]['out'])[:150]} {time.time() - began:.1f} s", flush=True)
            with open(path, "w") as f:
                json.dump(cases, f, indent=1, ensure_ascii=False)
                f.write("\n")


def main():
    with tempfile.TemporaryDirectory(prefix="ssh-") as folder:
        site = Site(folder)
        try:
            for group in sorted(name for name in os.listdir(HERE) if name.endswith(".json")):
                record(site, os.path.join(HERE, group))
        finally:
            site.end()


main()
