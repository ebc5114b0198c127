"""One function for each format. It takes the job and an empty working folder, and returns the files that it has written."""

import dataclasses
import datetime
import email.utils
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tarfile
import tomllib

from archives import Entry, Failed, gz, tar as tar_of, with_folders

PROJECT = tomllib.loads((pathlib.Path(__file__).parent / "project.toml").read_text())
MAINTAINER = PROJECT["maintainer"]
LICENSE = PROJECT["licence"]
# The name of the program in every package.
PROGRAM = "pinch"


@dataclasses.dataclass
class Job:
    """A package to write. Its kinds add the files: ProgramJob those of a program, and AgentsJob (agents.py) the agents of many targets."""
    name: str
    about: dict
    version: str
    target: str
    names: dict
    static: bool
    out: pathlib.Path
    epoch: int
    apk_key: str | None
    here: pathlib.Path

    def text(self, path, **more):
        """Returns a file of this folder with its @NAMES@ replaced."""
        text = (self.here / path).read_text()
        values = {
            "NAME": self.name, "PROGRAM": PROGRAM, "VERSION": self.version, "TARGET": self.target, "SUMMARY": self.about["summary"],
            "DESCRIPTION": "\n".join(self.about["description"]), "APPLETS": " ".join(self.about["applets"]), "ROLES": " ".join(self.about["roles"]),
            "SCHEMAS": " ".join(self.schemas()), "UNITS": " ".join(self.units()), "DAEMONS": " ".join(unit for unit in self.units() if unit.endswith(".service")), "MAINTAINER": MAINTAINER, "LICENSE": LICENSE,
            "HOME": PROJECT["home"], "RELEASES": PROJECT["releases"],
        }
        for key, value in (values | more).items():
            text = text.replace(f"@{key}@", value)
        return text

    def tarball(self):
        return self.out / f"{self.name}-{self.version}-{self.target}.tar.gz"

    def license(self):
        return (self.here.parent / "LICENSE").read_bytes()

    def schemas(self):
        return [f"{name}.schema.json" for name in self.about.get("schemas", [])]

    def replacing(self, template, separator=", "):
        """Returns the lines of a recipe that say which packages this one replaces; none if it replaces none.

        A part of the template in brackets is repeated for each of them, with @OTHER@ for its name.
        """
        others = self.about.get("replaces", [])

        def each(part):
            return separator.join(part.group(1).replace("@OTHER@", other) for other in others)

        return re.sub(r"\[(.*?)\]", each, template, flags=re.DOTALL).replace("@VERSION@", self.version) if others else ""

    def service_files(self, *places):
        """Yields (source, service, path, mode) of the files of its services whose kind is in `places`.

        A place is (kind, path, mode), and `*` in its path is replaced by the name of the service.
        """
        for service in self.about.get("services", []):
            for kind, path, mode in places:
                source = f"services/{service}/{kind}"
                if (self.here / source).is_file():
                    yield source, service, path.replace("*", service), mode

    def services(self, *places):
        """Returns these files as entries with their contents."""
        return [Entry(path, self.text(source, SERVICE=service).encode(), mode=mode)
                for source, service, path, mode in self.service_files(*places)]

    def units(self):
        """Returns the units that a user can enable with `systemctl enable`."""
        kinds = [("systemd.timer", "*.timer", 0), ("systemd.service", "*.service", 0)]
        names = [path for _, _, path, _ in self.service_files(*kinds)]
        started = [path for _, _, path, _ in self.service_files(("systemd.wants", "*.service", 0))]
        return [name for name in names if name not in started and (name.replace(".service", ".timer") not in names or name.endswith(".timer"))]

    def settings(self):
        """Returns the configuration files of the package."""
        return [path for _, _, path, _ in self.service_files(("default", "etc/default/*", 0))]


@dataclasses.dataclass
class ProgramJob(Job):
    """The package of a program."""
    binary: bytes
    docs: pathlib.Path
    # The path of the program, for overrides of lintian.
    place = f"usr/bin/{PROGRAM}"

    def docs_folder(self):
        """Returns the folder of its man pages and completions."""
        return self.docs / self.about.get("docs", self.name)

    def licences(self):
        """Returns the file with the licences of the crates in the program."""
        return self.docs / f"{self.name}.licences"

    def missing_docs(self):
        """Returns the man pages, completions and licences that were not generated."""
        names = [*self.man_pages(), f"{PROGRAM}.bash", f"{PROGRAM}.fish", f"_{PROGRAM}"]
        return [path for path in [self.licences(), *(self.docs_folder() / name for name in names)] if not path.is_file()]

    def man_pages(self):
        """Returns the names of the man pages. The last character of a name is its section."""
        return [f"{PROGRAM}.1", *(f"{PROGRAM}-{applet}.1" for applet in self.about["applets"]), *(f"{PROGRAM}-{role}.5" for role in self.about["roles"]), f"{PROGRAM}-sls.7"]

    def programs(self, prefix="usr/"):
        """Returns the program, and the licences of the crates in it, which must be shipped with it."""
        return [Entry(f"{prefix}bin/{PROGRAM}", self.binary, mode=0o755),
                Entry(f"{prefix}share/licenses/{self.name}/THIRD-PARTY.gz", gz(self.licences().read_bytes()))]

    def documents(self, zsh="usr/share/zsh/site-functions", prefix="usr/", pages=gz):
        """Returns the man pages, completions and schemas, under names that no package of Salt uses."""
        docs = self.docs_folder()
        entries = [
            Entry(f"{prefix}share/bash-completion/completions/{PROGRAM}", (docs / f"{PROGRAM}.bash").read_bytes()),
            Entry(f"{prefix}share/fish/vendor_completions.d/{PROGRAM}.fish", (docs / f"{PROGRAM}.fish").read_bytes()),
            Entry(f"{zsh}/_{PROGRAM}", (docs / f"_{PROGRAM}").read_bytes()),
        ]
        for schema in self.schemas():
            entries.append(Entry(f"{prefix}share/{PROGRAM}/{schema}", (self.here / "schemas" / schema).read_bytes()))
        for page in self.man_pages():
            text = (docs / page).read_bytes()
            path = f"{prefix}share/man/man{page[-1]}/{page}"
            entries.append(Entry(path + ".gz", gz(text)) if pages else Entry(path, text))
        return entries

    def unpacked(self):
        """Returns the files of a tarball that make it installable."""
        return [
            *all_services(self, "services"),
            Entry("install.sh", self.text("install.sh").encode(), mode=0o755),
            Entry("LICENSE", self.license()),
            Entry("README.md", (self.here.parent / "README.md").read_bytes()),
        ]

    def recipes(self):
        """Returns the recipes that package the tarball, with their places in the output folder."""
        return {"APKBUILD": f"alpine/{self.name}/APKBUILD", "pre-deinstall": f"alpine/{self.name}/{self.name}.pre-deinstall", "PKGBUILD": f"arch/{self.name}/PKGBUILD",
                "pacman.install": f"arch/{self.name}/{self.name}.install", "openwrt.mk": f"openwrt/{self.name}/Makefile", "yocto.bb": f"yocto/{self.name}_{self.version}.bb"}


def written(path, data):
    path.write_bytes(data)
    return path


def run(*words, **more):
    """Runs a program. Its output is shown only if it fails."""
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        raise Failed(f"{words[0]} failed:\n{done.stdout}")
    return done.stdout


def put(entries, folder):
    """Writes the entries to a folder, regardless of the umask."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    for entry in with_folders(entries):
        path = folder / entry.path
        if entry.data is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.write_bytes(entry.data)
        path.chmod(entry.mode)


# The places of units, which are not enabled, and of their settings.
SYSTEMD = [("systemd.service", "usr/lib/systemd/system/*.service", 0o644), ("systemd.timer", "usr/lib/systemd/system/*.timer", 0o644),
           ("systemd.wants", "usr/lib/systemd/system/multi-user.target.d/*.conf", 0o644),
           ("default", "etc/default/*", 0o644)]
OPENRC = [("openrc", "etc/init.d/*", 0o755), ("default", "etc/conf.d/*", 0o644)]
PROCD = [("procd", "etc/init.d/*", 0o755)]
SCRIPTS = ["openrc", "procd", "runit", "sysvinit"]


def installing(job, places, source, root):
    """Returns the commands with which a recipe installs the files of services, each of which has a folder."""
    return "\n".join(f"\tinstall -Dm{mode:o} {source}{file} {root}/{path}" for file, _, path, mode in job.service_files(*places))


def all_services(job, folder, without=()):
    kinds = [*SCRIPTS, "systemd.service", "systemd.timer", "systemd.wants", "default", "cron"]
    return job.services(*((kind, f"{folder}/*/{kind}", 0o755 if kind in SCRIPTS else 0o644) for kind in kinds if kind not in without))


def deb(job, scratch):
    name = job.name
    date = email.utils.format_datetime(datetime.datetime.fromtimestamp(job.epoch, datetime.UTC))
    changelog = f"{name} ({job.version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- {MAINTAINER}  {date}\n"
    doc = f"usr/share/doc/{name}"
    entries = job.programs() + job.documents(zsh="usr/share/zsh/vendor-completions") + job.services(*SYSTEMD) + [
        Entry(f"{doc}/copyright", job.text("debian/copyright").encode()),
        Entry(f"{doc}/changelog.gz", gz(changelog.encode())),
        Entry(f"{doc}/NEWS.gz", gz((job.here.parent / "CHANGELOG.md").read_bytes())),
    ]
    entries += all_services(job, f"{doc}/examples", without=("systemd.service", "systemd.timer", "systemd.wants", "default"))
    entries.append(Entry(f"usr/share/lintian/overrides/{name}", overrides(job).encode()))
    root = scratch / "root"
    put(entries, root)
    control = {
        "Package": name, "Version": job.version, "Architecture": job.names["deb"], "Maintainer": MAINTAINER,
        "Installed-Size": str(sum(len(entry.data or b"") // 1024 + 1 for entry in with_folders(entries))),
        "Depends": libraries(job, root, scratch), "Section": "admin", "Priority": "optional",
        "Description": job.about["summary"] + "".join(f"\n {line}" for line in job.about["description"]),
    }
    text = "".join(f"{key}: {value}\n" for key, value in control.items() if value)
    text += job.replacing("Conflicts: [@OTHER@]\nReplaces: [@OTHER@]\nProvides: [@OTHER@ (= @VERSION@)]\n")
    sums = "".join(f"{hashlib.md5(entry.data).hexdigest()}  {entry.path}\n" for entry in with_folders(entries)
                   if entry.data is not None and not entry.path.startswith("etc/"))
    put([
        Entry("DEBIAN/control", text.encode()), Entry("DEBIAN/md5sums", sums.encode()), *maintainer_scripts(job),
        *([Entry("DEBIAN/conffiles", "".join(f"/{path}\n" for path in job.settings()).encode())] if job.settings() else []),
    ], root)
    dated(root, job.epoch)
    path = job.out / f"{name}_{job.version}_{job.names.get('deb_file', job.names['deb'])}.deb"
    run("dpkg-deb", "--root-owner-group", "--threads-max=1", "-Zxz", "--build", root, path)
    return [path]


def overrides(job):
    """Returns the findings of lintian that are on purpose."""
    found = job.text("debian/lintian-overrides", PLACE=job.place)
    if job.static:
        found += f"# The program runs on any machine, so it contains its C library.\n{job.name}: statically-linked-binary [{job.place}]\n"
    if job.names["deb"] == "all":
        tags = ("arch-independent-package-contains-binary-or-object", "arch-dependent-file-in-usr-share")
        found += "# Other machines run the programs; this one only copies them.\n" + "".join(f"{job.name}: {tag} [{job.place}]\n" for tag in tags)
    return found


def maintainer_scripts(job):
    """Returns the scripts that register the applets and start the services, and their triggers. A package without applets needs none."""
    if not job.about["applets"]:
        return []
    snippet = job.text("debian/alternatives.sh").split("set -eu\n", 1)[1]
    triggers = "".join(f"interest-noawait /usr/bin/{applet}\n" for applet in job.about["applets"])
    scripts = [Entry(f"DEBIAN/{script}", job.text(f"debian/{script}", ALTERNATIVES=snippet.strip()).encode(), mode=0o755)
               for script in ("postinst", "prerm", "postrm")]
    return [*scripts, Entry("DEBIAN/triggers", triggers.encode())]


def libraries(job, root, scratch):
    """Returns the dependencies of a dynamically linked program."""
    if job.static:
        return ""
    put([Entry("debian/control", b"Source: x\n\nPackage: x\nArchitecture: any\n")], scratch)
    return run("dpkg-shlibdeps", "-O", root / f"usr/bin/{PROGRAM}", cwd=scratch).split("shlibs:Depends=", 1)[1].strip()


def dated(folder, epoch):
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def rpm(job, scratch):
    name, arch = job.name, job.names["rpm"]
    entries = job.programs() + job.documents() + job.services(*SYSTEMD) + [Entry(f"usr/share/licenses/{name}/LICENSE", job.license())]
    put(entries, scratch / "root")
    files = "".join(f"{attributes(entry, job)}/{entry.path}\n" for entry in entries)
    own = (f"usr/share/licenses/{name}/", f"usr/share/{PROGRAM}/")
    files += "".join(f"%dir /{entry.path}\n" for entry in with_folders(entries) if entry.data is None and f"{entry.path}/".startswith(own))
    date = datetime.datetime.fromtimestamp(job.epoch, datetime.UTC).strftime("%a %b %d %Y")
    scripts = job.text("recipes/rpm.scripts", UNLINK=job.text("recipes/unlink.sh").strip()) if job.about["applets"] else ""
    spec = job.text("recipes/rpm.spec", FILES=files, ROOT=str(scratch / "root"), DATE=date, SCRIPTS=scripts,
                    RPM_REPLACES=job.replacing("Conflicts: [@OTHER@]\nProvides: [@OTHER@ = @VERSION@-1]\n"), AUTOREQ="no" if job.static else "yes")
    written(scratch / "package.spec", spec.encode())
    macros = {"_topdir": scratch, "_rpmdir": job.out, "_buildhost": "localhost", "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
              "use_source_date_epoch_as_buildtime": 1, "clamp_mtime_to_source_date_epoch": 1, "source_date_epoch_from_changelog": 0,
              "_binary_payload": "w9.xzdio", "__os_install_post": "%{nil}", "debug_package": "%{nil}", "_build_id_links": "none",
              "_binaries_in_noarch_packages_terminate_build": 0}
    defines = [word for key, value in macros.items() for word in ("--define", f"{key} {value}")]
    dated(scratch / "root", job.epoch)
    run("rpmbuild", "-bb", "--target", f"{arch}-linux", *defines, scratch / "package.spec")
    return [job.out / f"{name}-{job.version}-1.{arch}.rpm"]


def attributes(entry, job):
    if entry.path in job.settings():
        return "%config(noreplace) "
    if "/licenses/" in entry.path:
        return "%license "
    return "%doc " if "/man/" in entry.path else ""


def apk(job, scratch):
    """Alpine's format 2: three gzip streams, of which the first, the signature, may be missing."""
    name, version = job.name, f"{job.version}-r0"
    entries = job.programs() + job.documents() + job.services(*OPENRC)
    data = gz(tar_of(with_folders(entries), job.epoch, tarfile.PAX_FORMAT, hashes=True))
    size = sum(len(entry.data or b"") for entry in entries)
    replaces = job.replacing("[provides = @OTHER@=@VERSION@-r0\nreplaces = @OTHER@\n]", "")
    scripts = removal(job, ".pre-deinstall", "#!/bin/sh\n" + job.text("recipes/unlink.sh"))
    shell = "depend = /bin/sh\n" if scripts else ""
    info = (f"pkgname = {name}\npkgver = {version}\npkgdesc = {job.about['summary']}\nbuilddate = {job.epoch}\n"
            f"packager = {MAINTAINER}\nsize = {size}\narch = {job.names['apk']}\norigin = {name}\nmaintainer = {MAINTAINER}\n"
            f"license = {LICENSE}\n{shell}{replaces}datahash = {hashlib.sha256(data).hexdigest()}\n")
    control = gz(tar_of([Entry(".PKGINFO", info.encode()), *scripts], job.epoch, tarfile.PAX_FORMAT, end=False))
    signature = b""
    if job.apk_key:
        written(scratch / "control", control)
        run("openssl", "dgst", "-sha1", "-sign", job.apk_key, "-out", scratch / "signature", scratch / "control")
        entry = Entry(f".SIGN.RSA.{pathlib.Path(job.apk_key).name}.pub", (scratch / "signature").read_bytes())
        signature = gz(tar_of([entry], job.epoch, tarfile.PAX_FORMAT, end=False))
    # The file name contains the architecture, which is otherwise only visible inside the package; `apk add` accepts any name.
    return [written(job.out / f"{name}-{version}.{job.names['apk']}.apk", signature + control + data)]


def removal(job, path, script):
    """Returns the script before a removal. A package without applets needs none."""
    return [Entry(path, script.encode(), mode=0o755)] if job.about["applets"] else []


def ipk(job, _scratch):
    """OpenWrt's format: a compressed tar of two compressed tars, like that of its scripts/ipkg-build."""
    name, version, arch = job.name, f"{job.version}-1", job.names["ipk"]
    entries = job.programs() + job.services(*PROCD)
    dot = [Entry("./", mode=0o755)]

    def packed(inside):
        return gz(tar_of(dot + [dataclasses.replace(entry, path="./" + entry.path) for entry in with_folders(inside)], job.epoch))

    unpacked = tar_of(dot + with_folders(entries), job.epoch)
    text = "".join(f"{key}: {value}\n" for key, value in {
        "Package": name, "Version": version, "License": LICENSE, "Section": "admin", "Maintainer": MAINTAINER,
        "Architecture": arch, "Installed-Size": len(unpacked),
        "Description": job.about["summary"] + "".join(f"\n {line}" for line in job.about["description"]),
    }.items())
    text += job.replacing("Conflicts: [@OTHER@]\nReplaces: [@OTHER@]\nProvides: [@OTHER@]\n")
    prerm = job.text("recipes/openwrt.prerm", UNLINK=unlink_in_image(job))
    control = packed([Entry("control", text.encode()), *removal(job, "prerm", prerm)])
    parts = [Entry("./debian-binary", b"2.0\n"), Entry("./data.tar.gz", packed(entries)), Entry("./control.tar.gz", control)]
    return [written(job.out / f"{name}_{version}_{arch}.ipk", gz(tar_of(parts, job.epoch)))]


def unlink_in_image(job):
    """Returns unlink.sh for opkg, which also installs into the root of an image during its build."""
    return job.text("recipes/unlink.sh").replace('"/usr/bin/$', '"$IPKG_INSTROOT/usr/bin/$').strip()


def tar(job, _scratch):
    """A tarball. That of a program has an install script."""
    entries = job.programs("") + job.documents(zsh="share/zsh/site-functions", prefix="", pages=None) + job.unpacked()
    top = job.tarball().name.removesuffix(".tar.gz") + "/"
    return [written(job.tarball(), gz(tar_of(with_folders(entries), job.epoch, prefix=top)))]


def recipes(job, scratch):
    """The recipes of other distributions. Each one packages the tarball and contains its checksum."""
    data = tar(job, scratch)[0].read_bytes()
    values = {"SHA256": hashlib.sha256(data).hexdigest(), "SHA512": hashlib.sha512(data).hexdigest(), "TARBALL": job.tarball().name,
              "PRERM": job.text("recipes/openwrt.prerm", UNLINK=unlink_in_image(job)).replace("$", "$$").strip(),
              "LICENSE_MD5": hashlib.md5(job.license()).hexdigest(), "UNLINK": job.text("recipes/unlink.sh").strip()}
    values |= {"INSTALL_OPENRC": installing(job, OPENRC, "", '"$pkgdir"'), "INSTALL_SYSTEMD": installing(job, SYSTEMD, "", '"$pkgdir"'),
               "INSTALL_YOCTO": installing(job, SYSTEMD, "${S}/", "${D}").replace("${D}/usr/lib/systemd/system", "${D}${systemd_system_unitdir}")
               .replace("\t", "        "), "SETTINGS": " ".join(job.settings()),
               "CONFFILES": " ".join(f"/{path}" for path in job.settings()),
               "INSTALL_PROCD": installing(job, PROCD, "$(PKG_BUILD_DIR)/", "$(1)")
               .replace("\tinstall -Dm755", "\t$(INSTALL_DIR) $(1)/etc/init.d\n\t$(INSTALL_BIN)")}
    values |= {"APKBUILD_REPLACES": job.replacing('provides="[@OTHER@=$pkgver-r$pkgrel]"\nreplaces="[@OTHER@]"\n', " "),
               "PKGBUILD_REPLACES": job.replacing('conflicts=([@OTHER@])\nprovides=(["@OTHER@=$pkgver"])\n', " "),
               "OPENWRT_REPLACES": job.replacing("  CONFLICTS:=[@OTHER@]\n  PROVIDES:=[@OTHER@]\n", " "),
               "YOCTO_REPLACES": job.replacing('RCONFLICTS:${PN} = "[@OTHER@]"\nRREPLACES:${PN} = "[@OTHER@]"\nRPROVIDES:${PN} = "[@OTHER@]"\n', " ")}
    values |= {f"{kind.upper()}_ARCH": job.names.get(kind, "") for kind in ("apk", "arch", "yocto")}
    values["IPK_CPU"] = job.names["ipk"] if job.names["ipk"] == "x86_64" else job.names["ipk"].split("_")[0]
    found = [job.tarball()]
    for source, place in job.recipes().items():
        path = job.out / "recipes" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        found.append(written(path, job.text(f"recipes/{source}", **values).encode()))
    return found


def arch(job, scratch):
    """makepkg packages the tarball with our PKGBUILD. It writes its working folder into the package, so the folder is always the same."""
    recipes(dataclasses.replace(job, out=scratch), scratch)
    folder = pathlib.Path("/var/tmp/pinch-makepkg")
    with open("/var/tmp/pinch-makepkg.lock", "w") as lock:
        import fcntl
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("rm", "-rf", folder)
        folder.mkdir()
        for path in [*(scratch / "recipes/arch" / job.name).iterdir(), scratch / job.tarball().name]:
            written(folder / path.name, path.read_bytes())
        (folder / "out").mkdir()
        # makepkg refuses to run as root.
        user = []
        if os.geteuid() == 0:
            run("chown", "-R", "nobody", folder)
            user = ["setpriv", "--reuid=nobody", "--clear-groups"]
        # makepkg would record the packages that pacman has installed here, so it gets no pacman.
        machine = job.names["arch"]
        environment = os.environ | {"PKGDEST": str(folder / "out"), "PKGEXT": ".pkg.tar.zst", "CARCH": machine, "PACMAN": "true", "PACKAGER": MAINTAINER, "HOME": str(folder)}
        run(*user, "makepkg", "--nodeps", "--force", "--config", job.here / "recipes/makepkg.conf", cwd=folder, env=environment)
        built = folder / "out" / f"{job.name}-{job.version}-1-{machine}.pkg.tar.zst"
        path = written(job.out / built.name, built.read_bytes())
        run("rm", "-rf", folder)
    return [path]


def oci(job, _scratch):
    """An image with only the program, as an OCI image layout in a tar file."""
    entries = job.programs() + [Entry(f"usr/bin/{applet}", link=PROGRAM) for applet in job.about["applets"]]
    entries += [Entry("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n"), Entry("etc/group", b"root:x:0:\n"),
                Entry("root", mode=0o700), Entry("tmp", mode=0o1777), Entry("srv/salt", mode=0o755), Entry("srv/pillar", mode=0o755),
                Entry("etc/salt", mode=0o755), Entry("var/cache", mode=0o755), Entry("var/log", mode=0o755)]
    layer = tar_of(with_folders(entries), job.epoch)
    blobs = {}

    def blob(data, kind, **more):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)} | more

    def text(value):
        return json.dumps(value, sort_keys=True).encode()

    created = datetime.datetime.fromtimestamp(job.epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {"org.opencontainers.image.title": job.name, "org.opencontainers.image.version": job.version, "org.opencontainers.image.licenses": LICENSE}
    config = text(job.names["oci"] | {
        "created": created, "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "config": {"Entrypoint": [f"/usr/bin/{PROGRAM}"], "Cmd": ["--help"], "Env": ["PATH=/usr/bin:/bin", "HOME=/root"], "Labels": labels},
        "history": [{"created": created, "created_by": "packaging/build oci"}],
    })
    manifest = text({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                     "config": blob(config, "config.v1+json"), "layers": [blob(gz(layer), "layer.v1.tar+gzip")]})
    index = text({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        blob(manifest, "manifest.v1+json", platform=job.names["oci"] | {"os": "linux"},
             annotations={"org.opencontainers.image.ref.name": job.version})]})
    files = [Entry("oci-layout", text({"imageLayoutVersion": "1.0.0"})), Entry("index.json", index)]
    files += [Entry(path, data) for path, data in blobs.items()]
    path = job.out / f"{job.name}-{job.version}-{job.target}.oci.tar"
    return [written(path, tar_of(with_folders(files), job.epoch))]
