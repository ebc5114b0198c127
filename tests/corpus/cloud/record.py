"""record.py: runs salt-cloud of Salt 3007 against moto, and writes its texts to salt-cloud.toml in this folder.

    MOTO_VENV/bin/python record.py SALT_VENV

Salt's driver ec2 speaks TLS only, counts tags and filters from 0, and expects the answers in the order of Amazon's own service; the
server here translates between the two. `random` in the file are the texts that differ each time. It stays, as do the fields of the cases about
the differences of Pinch.
"""
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "true"
import boto3  # noqa: E402
from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "salt-cloud.toml")
CASES = [
    ["-p", "web", "web1", "web2"],
    ["-p", "web", "web1"],
    ["-p", "nosuch", "web9"],
    ["-Q"],
    ["-F"],
    ["-Q", "-m", "map"],
    ["-m", "map"],
    ["-y", "-m", "map"],
    ["-y", "-m", "map"],
    ["-Q", "-m", "map"],
    ["-a", "stop", "web1"],
    ["-y", "-a", "stop", "web1"],
    ["-y", "-a", "start", "web1"],
    ["-y", "-a", "reboot", "web1"],
    ["-y", "-a", "nosuch", "web1"],
    ["-y", "-a", "stop", "nosuch", "web1"],
    ["-f", "nosuch", "moto"],
    ["--list-images", "nosuch"],
    ["--list-profiles", "all"],
    ["--list-providers"],
    ["-d", "web2"],
    ["-y", "-d", "web2"],
    ["-y", "-d", "web2"],
    ["-y", "-d", "-m", "map"],
]
PROFILES = "web:\n  provider: moto\n  image: @IMAGE@\n  size: t3.micro\n  keyname: tests\n  deploy: False\n"
MAP = "web:\n  - web1\n  - web3\n"


def in_amazons_order(app):
    """Returns the application with requests from 1, and the request's id first in answers."""

    def answered(environ, start_response):
        query = environ.get("QUERY_STRING", "")
        for word in ("Tag", "Filter"):
            if word + ".0." in query:
                query = re.sub(word + r"\.(\d+)\.", lambda found: "%s.%d." % (word, int(found.group(1)) + 1), query)
        environ["QUERY_STRING"] = re.sub(r"(Filter\.\d+\.Value)=", r"\1.1=", query)
        kept = {}

        def start(status, headers, exc_info=None):
            kept["status"], kept["headers"] = status, headers
            return lambda data: None

        body = b"".join(app(environ, start))
        found = re.search(rb"<requestId>[^<]*</requestId>", body)
        if found:
            rest = body[: found.start()] + body[found.end():]
            root = re.search(rb"<[A-Za-z]+Response[^>]*>", rest)
            inner = rest[root.end():]
            done = b"<return>true</return>" if inner.strip().startswith(b"</") else b""
            body = rest[: root.end()] + found.group(0) + done + inner
        headers = [pair for pair in kept["headers"] if pair[0].lower() != "content-length"]
        start_response(kept["status"], headers + [("Content-Length", str(len(body)))])
        return [body]

    return answered


def certificate(folder):
    files = [os.path.join(folder, name) for name in ("cert.pem", "key.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", files[1], "-out", files[0], "-days", "30",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )
    return files


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def stable(text, random):
    for pattern, word in random:
        text = re.sub(pattern, word.replace("$1", r"\1"), text)
    return text


def literal(text):
    return "'''\n%s'''" % text


def main():
    salt = os.path.join(sys.argv[1], "bin", "salt-cloud")
    folder = tempfile.mkdtemp()
    cert, key = certificate(folder)
    app = in_amazons_order(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, ssl_context=(cert, key))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = "localhost:%d" % server.server_port
    time.sleep(1)
    ec2 = boto3.client("ec2", endpoint_url="https://" + url, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x", verify=cert)
    ec2.create_key_pair(KeyName="tests")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    etc = os.path.join(folder, "etc")
    write(etc + "/master", "root_dir: %s/root\n" % folder)
    write(etc + "/cloud.providers", "moto:\n  driver: ec2\n  endpoint: %s\n  location: us-east-1\n  id: x\n  key: xxxx\n  wait_for_ip_interval: 1\n" % url)
    write(etc + "/cloud.profiles", PROFILES.replace("@IMAGE@", image))
    write(folder + "/map", MAP)
    with open(FILE, "rb") as file:
        known = tomllib.load(file)
    environment = dict(os.environ, REQUESTS_CA_BUNDLE=cert, SSL_CERT_FILE=cert)
    text = "# The texts of salt-cloud of Salt 3007.17 against moto, by record.py. `diff_out`, `diff_err` and `our_rc` are the differences of ours.\n"
    text += "random = [\n%s]\n" % "".join("    ['%s', '%s'],\n" % tuple(pair) for pair in known["random"])
    for index, words in enumerate(CASES):
        ran = subprocess.run([salt, "-c", etc] + words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        print(ran.returncode, words, flush=True)
        text += "\n[[case]]\nwords = %s\nrc = %d\nout = %s\nerr = %s\n" % (
            str(words).replace("'", '"'), ran.returncode, literal(stable(ran.stdout, known["random"])), literal(stable(ran.stderr, known["random"])))
        kept = known["case"][index] if index < len(known["case"]) else {}
        for field in ("our_rc", "diff_out", "diff_err", "why"):
            if field in kept and kept["words"] == words:
                text += "%s = %s\n" % (field, kept[field] if field == "our_rc" else literal(kept[field]))
    write(FILE, text)


main()
