"""Makes the fuzzers' first inputs of tests/corpus: seeds.py FOLDER, which gets a folder a target."""

import hashlib
import json
import sys
from pathlib import Path

LENGTH_MAX = 4096
CORPUS = Path(__file__).resolve().parent.parent / "corpus"


def texts(name):
    return json.loads((CORPUS / name).read_text())


def trees(folder):
    """Each tree as one text: main.sls, then the other files behind a line with their name."""
    for main in sorted(CORPUS.glob(f"{folder}/*/main.sls")):
        others = sorted(p for p in main.parent.rglob("*") if p.suffix in {".sls", ".jinja"} and p != main)
        parts = [f"\n### {p.relative_to(main.parent)}\n{p.read_text()}" for p in others]
        yield main.read_text() + "".join(parts)


def yaml():
    # A part says as much as all and is read in no time.
    yield from texts("yaml/docs.json")
    yield from texts("yaml/mutants.json")[::10]


def jinja():
    yield from (case["t"] for case in texts("jinja/snippets.json"))
    for path in sorted((CORPUS / "jinja").glob("*.jinja")):
        yield from path.read_text().split("\n=====\n")
    yield from (path.read_text() for path in sorted((CORPUS / "jinja/tree").rglob("*.jinja")))


def compiled():
    yield from trees("compile")
    for path in sorted((CORPUS / "states").glob("*.sls")):
        yield path.read_text()


def main():
    for target, seeds in {"yaml": yaml(), "jinja": jinja(), "compile": compiled()}.items():
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for text in seeds:
            data = text.encode("utf-8", "surrogatepass")
            if len(data) <= LENGTH_MAX:
                (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


main()
