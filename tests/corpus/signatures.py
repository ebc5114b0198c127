#!/usr/bin/env python3
"""signatures.py SITE-PACKAGES/salt: writes signatures.json, the arguments of Salt's functions, for tests/tidy/signatures.rs.

It reads Salt's sources and imports nothing of Salt. The file has every function of the modules that Pinch has, one per line. A function
has several signatures where files share a virtual name (`pkg`, `service`). Files for systems on which Pinch does not run are left out.
An argument is [NAME] if it is required, [NAME, DEFAULT] if its default is a literal, else [NAME, null, "the default in Python"].
"""
import ast
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKSPACE = HERE.parent.parent

# Each kind of function: Salt's folder, and the folders in which Pinch declares it.
KINDS = {
    "exec": ("modules", ["agent/modules/src/exec", "agent/minion/src/functions"]),
    "runner": ("runners", ["agent/modules/src/runners", "master-lite/src/runners"]),
    "state": ("states", ["agent/modules/src/states"]),
    "wheel": ("wheel", ["agent/modules/src/wheel"]),
}

OTHER_SYSTEMS = re.compile(
    "aix|mac_|pw_|solaris|smf_|win_|at_solaris|dummyproxy_|rest_|ssh_pkg|ssh_service|nixpkg|pkgin|pkgng|pkgutil"
)


def our_modules(folders):
    """Returns the names of the modules that Pinch declares in these folders."""
    sources = [path for folder in folders for path in (WORKSPACE / folder).rglob("*.rs")]
    declared = re.compile(r"^    mod (?:r#)?(\w+);$", re.M)
    return {name for path in sources for name in declared.findall(path.read_text())}


def statements(body):
    """Yields the statements of a file that define names, also those in `if` and `try`."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try)):
            yield from statements(node.body + node.orelse)


def literal(node):
    """Returns the value of a literal; raises ValueError for anything else."""
    value = ast.literal_eval(node)
    json.dumps(value)
    return value


def argument(arg, default):
    if default is None:
        return [arg.arg]
    try:
        return [arg.arg, literal(default)]
    except (TypeError, ValueError):
        return [arg.arg, None, ast.unparse(default)]


def signature(function):
    """Returns the arguments of a function, without those that Salt fills itself (their names begin with `__`)."""
    declared = function.args
    positional = declared.posonlyargs + declared.args
    defaults = [None] * (len(positional) - len(declared.defaults)) + declared.defaults
    found = {"args": [argument(*pair) for pair in zip(positional, defaults) if not pair[0].arg.startswith("__")]}
    if declared.vararg:
        found["varargs"] = True
    if declared.kwonlyargs:
        found["keywords"] = [argument(*pair) for pair in zip(declared.kwonlyargs, declared.kw_defaults)]
    if declared.kwarg:
        found["kwargs"] = True
    return found


def aliased(value):
    """Returns the name of the function in `other` and in `alias_function(other, "name")`."""
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("alias_function"):
        value = value.args[0]
    return value.id if isinstance(value, ast.Name) else None


def returned_text(function):
    """Returns the text that `__virtual__` returns: the name under which the module is loaded."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    texts = [node.value for node in values if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return texts[0] if texts else None


def read(path):
    """Returns the name of a module, and the signatures of its functions."""
    name, renamed, functions = path.stem, {}, {}
    for node in statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = signature(node)
            if node.name == "__virtual__":
                name = returned_text(node) or name
        for target in node.targets if isinstance(node, ast.Assign) else ():
            target = ast.unparse(target)
            if target == "__virtualname__" and isinstance(node.value, ast.Constant):
                name = node.value.value
            elif target == "__func_alias__":
                renamed = ast.literal_eval(node.value)
            elif aliased(node.value) in functions:
                functions[target] = functions[aliased(node.value)]
    public = {renamed.get(fun, fun): found for fun, found in functions.items() if not fun.startswith("_")}
    return name, public


def collected(salt):
    """Returns `kind module.function` and the signatures of every function of Pinch's modules."""
    found = {}
    for kind, (folder, ours) in KINDS.items():
        ours = our_modules(ours)
        for path in sorted((salt / folder).glob("*.py")):
            if OTHER_SYSTEMS.match(path.name):
                continue
            name, functions = read(path)
            for function, arguments in functions.items() if name in ours else ():
                full = f"{kind} {name}.{function}"
                found.setdefault(full, []).append({"file": path.name, **arguments})
    return found


def main():
    found = collected(Path(sys.argv[1]))
    lines = [f"{json.dumps(full)}: {json.dumps(found[full])}" for full in sorted(found)]
    (HERE / "signatures.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
