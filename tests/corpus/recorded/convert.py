#!/usr/bin/env python3
"""convert.py SOURCE: convert Salt's recorded answers (SOURCE/recorded/GROUP/CASE.{cmd,out,rc}) to the files of this folder.

It writes tree/srv/{salt,pillar}, the SLS tree of the cases (@TMP@ is replaced by the case's scratch folder), and one GROUP.json for each
group: {case: {"words": [...], "out": answer, "rc": exit code}}. An answer that is a JSON object is stored as an object, without the fields
that differ in each run; any other answer is stored as text. Run it again only if the recordings change.
"""
import json, os, re, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GROUPS = ["req", "err", "show", "fun", "orchlocal"]
# Cases that need a master, that fail in Salt itself, or that only concern Salt.
SKIP = re.compile(r"^(fun/(grains\.items|sys\.|mymod|test\.exception|test\.version|jinja\.load_map|state\.event|slsutil)"
                  r"|show/(mixed\.out_|mixed\.force|highstate)|orchlocal/(nominion|parallel|function|wheel|orch_show_sls|result\.test))")
VOLATILE = {"__pub_pid", "__pub_jid", "__pub_fun", "duration", "start_time", "__jid__", "jid", "pid", "_stamp", "__orchestration__"}


def tree(source):
    env = tempfile.mkdtemp(prefix="convert-")
    subprocess.run([sys.executable, os.path.join(source, "mktree.py"), env], check=True)
    shutil.rmtree(os.path.join(HERE, "tree"), ignore_errors=True)
    for folder, _, files in os.walk(os.path.join(env, "srv")):
        for name in files:
            path = os.path.join(folder, name)
            to = os.path.join(HERE, "tree", os.path.relpath(path, env))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with open(path) as f, open(to, "w") as g:
                g.write(f.read().replace(env + "/out", "@TMP@"))
    shutil.rmtree(env)


def words(line):
    """Returns the words of a recorded command line. It is joined by spaces, so only the last argument can contain spaces."""
    rest = line.split(" --local ", 1)[1] if " --local " in line else line.split("/etc ", 1)[1]
    parts = rest.split(" ")
    out = [p for p in parts if p.startswith("--")]
    fun, *args = [p for p in parts if not p.startswith("--")]
    if fun.startswith(("cmd.", "match.")) or args[:1] and args[0].startswith(("[", "pillar={")):
        args = [" ".join(args)]
    if fun == "state.orchestrate" and len(args) == 1 and " pillar=" in args[0]:
        args = args[0].split(" ", 1)
    if len(args) > 1 and args[1].startswith("pillar={"):
        args = [args[0], " ".join(args[1:])]
    return [w for w in [fun, *args] if w] + out


def settled(value):
    if isinstance(value, dict):
        return {k: settled(v) for k, v in value.items() if k not in VOLATILE}
    return [settled(v) for v in value] if isinstance(value, list) else value


def as_minion(value):
    if isinstance(value, dict):
        return {("m1" if k == "vm_master" else k): as_minion(v) for k, v in value.items()}
    return [as_minion(v) for v in value] if isinstance(value, list) else value


def as_masterless(doc):
    """Returns the output of salt-run for its master in the form in which salt-call prints it for this minion."""
    doc = as_minion(doc)
    data = doc.get("data", doc)
    return {"local": {"data": {"m1": next(iter(data.values()))}, "outputter": doc.get("outputter"), "retcode": doc.get("retcode")}}


def answer(group, stem, text):
    if stem.endswith(".json") and "{" in text:
        try:
            doc = json.loads(text[text.index("{"):])
            return settled(as_masterless(doc) if group == "orchlocal" and "data" in doc else doc)
        except ValueError:
            pass
    return re.sub(r"\bvm_master\b", "m1", text) if group == "orchlocal" else text


def cases(source, group):
    folder = os.path.join(source, "recorded", "orchmaster" if group == "orchlocal" else group)
    for name in sorted(os.listdir(folder)):
        stem, ext = os.path.splitext(name)
        if ext != ".rc" or SKIP.search(f"{group}/{stem}") or not os.path.exists(os.path.join(folder, stem + ".cmd")):
            continue
        read = lambda e: open(os.path.join(folder, stem + e), errors="replace").read().replace("@ENV@/out", "@TMP@")
        yield stem, {"words": words(read(".cmd").strip()), "out": answer(group, stem, read(".out")), "rc": int(read(".rc"))}


if __name__ == "__main__":
    source = sys.argv[1]
    tree(source)
    for group in GROUPS:
        with open(os.path.join(HERE, group + ".json"), "w") as f:
            found = dict(cases(source, group))
            json.dump(found, f, indent=1, ensure_ascii=False)
            f.write("\n")
            print(group, len(found))
