"""build [TARGET...]: build the static binaries, one folder for each target in target/cross/, with checksum and SBOM (default: all targets).

TARGET is a name or a triple of sizes.toml. Missing Debian packages of toolchain.toml are installed, which requires root.
At the end, a table shows target, build, size, budget and whether the program ran here. The exit status is 1 if a build failed, or if a
program is too large or did not run.

  --profile NAME    build core (the modules of 95 % of uses), agent or master only; may be repeated (default: all for which sizes.toml has a limit)
  --install         install the tools only
  --any-toolchain   accept other versions than those in toolchain.toml
  --report          write the code size of each crate in each binary to bytes.toml
  --commit REV      set the commit that `--versions-report` shows (default: the checkout's)
"""
import argparse, hashlib, json, os, re, shutil, subprocess, sys, tempfile, tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# The builds of the program by profile: the name of the binary, and the features. A target has those for which sizes.toml has a budget.
BUILDS = {"core": ("pinch-core", ""), "agent": ("pinch", "full,store"), "master": ("pinch-master", "full,lsp,master")}
FEATURES = dict(BUILDS.values())
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


def main():
    args = arguments()
    sizes, toolchain = table("sizes"), table("toolchain")
    targets = [triple(name, sizes) for name in args.targets] or list(sizes)
    install(toolchain)
    check(toolchain, args.any_toolchain)
    if args.install:
        return
    rows = [row for target in targets for row in built(target, sizes[target], args)]
    show(rows)
    sys.exit(any(not row["ok"] for row in rows))


def arguments():
    parser = argparse.ArgumentParser(prog="cross/build", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--profile", action="append", choices=BUILDS)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--any-toolchain", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--commit")
    return parser.parse_args()


def table(name):
    return tomllib.loads((HERE / f"{name}.toml").read_text())


def triple(name, sizes):
    for target, about in sizes.items():
        if name in (target, about["name"]):
            return target
    sys.exit(f"build: unknown target {name}; available targets: {' '.join(about['name'] for about in sizes.values())}")


# The tools.

def zig_home():
    return ROOT / "target" / "cross" / "zig"


def install(toolchain):
    """Installs the missing Debian packages, and zig into a separate folder."""
    wanted = toolchain["debian"]["packages"]
    there = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted], capture_output=True, text=True)
    missing = [name for name in wanted if f"{name} installed" not in there.stdout.splitlines()]
    if missing and os.geteuid() != 0:
        sys.exit(f"build: these packages are missing, install them or run this as root: {' '.join(missing)}")
    if missing:
        quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        subprocess.run(["apt-get", "update", "-q"], env=quiet)
        run(["apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "-qy", "--no-install-recommends", *missing], env=quiet)
    venv = zig_home()
    if not (venv / "bin" / "python").exists():
        run(["/usr/bin/python3", "-m", "venv", str(venv)])
    pins = [f"{name}=={version}" for name, version in toolchain["pypi"].items()]
    if not set(pins) <= set(installed(venv)):
        run([str(venv / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *pins])


def installed(venv):
    lines = subprocess.run([str(venv / "bin" / "pip"), "freeze"], capture_output=True, text=True).stdout
    return lines.splitlines()


def check(toolchain, any_toolchain):
    found = output(["/usr/bin/rustc", "--version"]).split()[1]
    wanted = toolchain["debian"]["rustc"]
    if found == wanted:
        return
    told = f"build: /usr/bin/rustc has version {found}, but toolchain.toml requires {wanted}"
    if not any_toolchain:
        sys.exit(f"{told}. The binaries would not be reproducible; use --any-toolchain to build anyway.")
    print(told, file=sys.stderr)


# The builds.

def environment(about, commit):
    """Returns the environment of a build: without the caller's settings, and so that no path of this machine is in the binary."""
    home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    venv, scratch = zig_home(), ROOT / "target" / "cross"
    flags = [
        # zig provides musl and the start files.
        "-Clink-self-contained=no",
        "-Ctarget-feature=+crt-static",
        "-Crelocation-model=static",
        # The program aborts on a panic, so the unwind tables are not needed.
        "-Cforce-unwind-tables=no",
        f"--remap-path-prefix={ROOT}=/pinch",
        f"--remap-path-prefix={home}=/cargo",
        # The last one that matches is used: the folder of a registry is named after its address.
        *(f"--remap-path-prefix={folder}=/crates" for folder in sorted(Path(home, "registry", "src").glob("*"))),
        *about.get("flags", []),
    ]
    return {
        "PATH": f"{PATH}:{venv}/bin",
        "HOME": str(Path.home()),
        "CARGO_HOME": home,
        "RUSTC": "/usr/bin/rustc",
        "CARGO": "/usr/bin/cargo",
        # std is built from source, which a stable compiler only does with this setting.
        "RUSTC_BOOTSTRAP": "1",
        "CARGO_ZIGBUILD_ZIG_PATH": str(venv / "bin" / "python-zig"),
        "CARGO_ZIGBUILD_CACHE_DIR": str(scratch / "zigbuild"),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_TARGET_DIR": str(scratch / "build"),
        "PINCH_COMMIT": commit,
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "0"),
    }


def commit_of(args):
    if args.commit:
        return args.commit
    found = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def zigbuild(target, about, build):
    words = ["cargo-zigbuild", "zigbuild", "--locked", "--quiet", "--release", "--target", target, "--package", "pinch", *features(about, build)]
    # The default features of std without backtraces, which need the unwind tables.
    # optimize_for_size uses smaller code for sorting, searching and printing numbers: 0.15 MB less, and 0.2 % more instructions in a run.
    words += ["-Zbuild-std=std,panic_abort", "-Zbuild-std-features=panic-unwind,optimize_for_size"]
    # The standard library is used everywhere: optimized for size like the rest, it would be 20 kB smaller, and a run would take 5 % longer.
    for crate in ["core", "alloc", "std"]:
        words += ["--config", f'profile.release.package.{crate}.opt-level="s"']
    return words


def features(about, build):
    """Returns the options of cargo that select the features of a build."""
    chosen = FEATURES[build] if about.get("store", True) else FEATURES[build].replace("store", "daemon")
    return ["--no-default-features", f"--features={chosen}"]


def builds(about, profiles):
    """Returns the chosen builds for which a target has a budget."""
    return [build for profile, (build, _) in BUILDS.items() if build in about and profile in (profiles or BUILDS)]


def built(target, about, args):
    """Builds a target, and returns a row of the table for each of its builds."""
    print(f"== {about['name']} ({target})", flush=True)
    env = environment(about, commit_of(args))
    folder = ROOT / "target" / "cross" / target
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for build in builds(about, args.profile):
        if subprocess.run(zigbuild(target, about, build), cwd=ROOT, env=env).returncode != 0:
            rows.append(row(about, build))
            continue
        made = folder / build
        shutil.copy2(Path(env["CARGO_TARGET_DIR"]) / target / "release" / "pinch", made)
        (folder / f"{build}.sha256").write_text(f"{hashlib.sha256(made.read_bytes()).hexdigest()}  {build}\n")
        (folder / f"{build}.cdx.json").write_text(sbom(build, target, about, env))
        rows.append(row(about, build, made))
        if args.report:
            report(target, about, build, env)
    return rows


def row(about, build, made=None):
    found = {"name": about["name"], "build": build, "size": None, "budget": about[build], "ran": "no", "ok": False}
    if made:
        found |= {"size": made.stat().st_size, "ran": tried(made, about["run"])}
        found["ok"] = found["size"] <= found["budget"] and found["ran"] == "yes" and is_static(made)
    return found


def is_static(binary):
    told = output(["file", "-b", str(binary)])
    if "statically linked" in told or "static-pie linked" in told:
        return True
    print(f"build: {binary} is not statically linked: {told}", file=sys.stderr)
    return False


# For each build, a command that is run in a temporary folder, and the expected output.
QUESTIONS = {
    "pinch-core": (["salt-call", "--local", "test.ping"], {"local": True}),
    "pinch": (["salt-call", "--local", "test.ping"], {"local": True}),
    "pinch-master": (["salt-key", "-L"], {"minions": [], "minions_pre": [], "minions_denied": [], "minions_rejected": []}),
}


def tried(binary, emulator):
    """Runs the binary on this machine. Returns `yes` or the problem."""
    (applet, *words), answer = QUESTIONS[binary.name]
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("minion", "master"):
            Path(scratch, name).write_text(f"id: tried\nroot_dir: {scratch}\nfile_client: local\n")
        words = [*emulator, str(binary), applet, "-c", scratch, "--out=json", *words]
        try:
            told = subprocess.run(words, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        try:
            return "yes" if json.loads(told.stdout) == answer else f"no: {told.stdout}{told.stderr}"
        except ValueError:
            return f"no: exit {told.returncode} {told.stderr.strip()}"


def show(rows):
    print(f"{'target':<10} {'build':<12} {'bytes':>10} {'budget':>10}  ran here")
    for row in rows:
        size = "failed" if row["size"] is None else f"{row['size']:,}"
        over = "" if row["size"] is None or row["size"] <= row["budget"] else "  TOO LARGE"
        print(f"{row['name']:<10} {row['build']:<12} {size:>10} {row['budget']:>10,}  {row['ran']}{over}")


# The contents of a build.

def packages(build, target, about, env):
    """Returns the crates that are linked into a build for a target, according to cargo."""
    words = ["/usr/bin/cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}", "--manifest-path=agent/Cargo.toml",
             *features(about, build)]
    data = json.loads(output(words, cwd=ROOT, env=env))
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    every = {package["id"]: package for package in data["packages"]}
    start = next(key for key, package in every.items() if package["name"] == "pinch")
    seen, left = set(), [start]
    while left:
        key = left.pop()
        if key in seen:
            continue
        seen.add(key)
        for dependency in nodes[key]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                left.append(dependency["pkg"])
    return [every[key] for key in seen]


def sbom(build, target, about, env):
    """Returns the SBOM (CycloneDX 1.5), sorted and without a date, so that it is reproducible."""
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(one["name"], one["version"]): one.get("checksum") for one in locked}
    components, subject = [], None
    for package in sorted(packages(build, target, about, env), key=lambda one: (one["name"], one["version"])):
        name, version = package["name"], package["version"]
        one = {"type": "library", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
        if package.get("license"):
            one["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if sums.get((name, version)):
            one["hashes"] = [{"alg": "SHA-256", "content": sums[(name, version)]}]
        if name == "pinch":
            subject = dict(one, type="application")
        else:
            components.append(one)
    properties = [{"name": "target", "value": target}, {"name": "rustc", "value": output(["/usr/bin/rustc", "--version"]).strip()}]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": subject, "properties": properties},
        "components": components,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def report(target, about, build, env):
    """Writes the sizes of a build to bytes.toml: of the code of each crate, from the symbols of the same build without stripping."""
    env = dict(env, CARGO_PROFILE_RELEASE_STRIP="none", CARGO_TARGET_DIR=env["CARGO_TARGET_DIR"] + "-symbols")
    env["CARGO_ENCODED_RUSTFLAGS"] += "\x1f-Csymbol-mangling-version=v0"
    run(zigbuild(target, about, build), cwd=ROOT, env=env)
    path = HERE / "bytes.toml"
    head, _, tables = path.read_text().partition("\n\n")
    sizes = tomllib.loads(tables)
    sizes.setdefault(about["name"], {})[build] = {"limit": about[build], **weigh(Path(env["CARGO_TARGET_DIR"]) / target / "release" / "pinch")}
    lines = [head]
    for name, of_target in sorted(sizes.items()):
        for build, table in sorted(of_target.items()):
            lines += ["", f"[{name}.{build}]", *(f"{quoted(key)} = {value:_}" for key, value in table.items())]
    path.write_text("\n".join(lines) + "\n")


# The number of crates that are listed by name; the others are together.
NAMED_CRATES = 24


def weigh(binary):
    """Returns the sizes of the read-only data and of the code of each crate, the largest first."""
    crates = {}
    for line in output(["nm", "--print-size", "--radix=d", str(binary)]).splitlines():
        fields = line.split(maxsplit=3)
        if len(fields) == 4 and fields[2] in "tT":
            crate = crate_of(fields[3])
            crates[crate] = crates.get(crate, 0) + int(fields[1])
    largest = sorted(crates.items(), key=lambda one: -one[1])
    sections = (line.split() for line in output(["size", "-A", str(binary)]).splitlines())
    data = {".rodata": int(fields[1]) for fields in sections if fields[:1] == [".rodata"]}
    rest = {"other crates": sum(size for _, size in largest[NAMED_CRATES:])}
    return data | dict(largest[:NAMED_CRATES]) | rest


def quoted(key):
    """Returns a key for TOML."""
    return key if re.fullmatch(r"[\w-]+", key) else json.dumps(key)


def crate_of(symbol):
    """Returns the crate of a function: the first one in its mangled name, which is the word after the disambiguator."""
    found = re.search(r"C(?:s[0-9A-Za-z]*_)?(\d+)_?([A-Za-z_]\w*)", symbol) if symbol.startswith("_R") else None
    return found.group(2)[: int(found.group(1))] if found else "C and assembler"


def run(words, **given):
    if subprocess.run(words, **given).returncode != 0:
        sys.exit(f"build: command failed: {' '.join(words)}")


def output(words, **given):
    done = subprocess.run(words, capture_output=True, text=True, **given)
    if done.returncode != 0:
        sys.exit(f"build: command failed: {' '.join(words)}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
