#!/usr/bin/env python3
"""record.py [CASE...]: record the answers of Salt's salt-api to the requests of cases.toml.

    SALT_VENV=/path/to/venv tests/corpus/api/record.py

SALT_VENV is a virtual environment with Salt and CherryPy. A master, a minion `m1` and salt-api run on loopback, as root.
answers.json is {CASE: {"status", "type", "body"}}. A page of CherryPy is recorded as its text. Tokens, job ids and times are
masked, as `masked` of tests/e2e/fleet/api.rs does.
"""
import http.client, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, time, tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
VENV = os.environ["SALT_VENV"]
MASTER = """
interface: 127.0.0.1
publish_port: {publish}
ret_port: {ret}
root_dir: {dir}
pki_dir: {dir}/pki
cachedir: {dir}/cache
sock_dir: {dir}/run
log_file: {dir}/log
api_logfile: {dir}/api.log
api_pidfile: {dir}/api.pid
pidfile: {dir}/master.pid
user: root
auto_accept: True
timeout: 5
gather_job_timeout: 3
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def masked(text):
    for pattern, mask in [
        (r"\b20[23]\d{17}\b", "JID"),
        (r"\b[0-9a-f]{40,128}\b", "TOKEN"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+", "TIME"),
        (r"\b1[789]\d{8}\.\d+", "0.5"),
        (r"(?:[0-9a-f]{2}:){15,}[0-9a-f]{2}", "FINGER"),
    ]:
        text = re.sub(pattern, mask, text)
    return text


def without_pub(value):
    """Removes what a minion adds to the arguments of each job, and the parts of /stats."""
    if isinstance(value, dict):
        return {key: without_pub(one) for key, one in value.items() if not key.startswith("__pub_")}
    return [without_pub(one) for one in value] if isinstance(value, list) else value


def body(case):
    if "json" in case:
        return json.dumps(case["json"]), "application/json"
    return case.get("body"), case.get("type")


def send(port, case, tokens):
    headers = {"Accept": case["accept"]} if "accept" in case else {}
    if "origin" in case:
        headers.update({"Origin": case["origin"], "Access-Control-Request-Method": "POST"})
    session, token = tokens.get(case.get("user"), ("", ""))
    if "token" in case:
        headers["X-Auth-Token"] = case["token"]
    elif session and case.get("cookie"):
        headers["Cookie"] = f"session_id={session}"
    elif session:
        headers["X-Auth-Token"] = session
    text, kind = body(case)
    method = case.get("method") or ("GET" if text is None else "POST")
    if kind:
        headers["Content-Type"] = kind
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    if text is not None:
        text = text.replace("@TOKEN@", token)
    connection.request(method, case["path"], text, headers)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def record(answer, text, case):
    kind = (answer.getheader("Content-Type") or "").split(";")[0]
    page = re.search(r"(?s)<p>(.*?)</p>", text) if kind == "text/html" else None
    if page:
        value = page[1].replace("&#x27;", "'").replace("&quot;", '"').replace("&amp;", "&").strip()
    elif kind == "application/json" and text:
        value = without_pub(json.loads(masked(text).replace(f'"{socket.gethostname()}.p', '"master.p')))
    else:
        value = masked(text)
    if case["name"] == "stats":
        value = {re.sub(r" \d+$", " N", key): sorted(one) for key, one in value.items()}
    if case.get("keys_only"):
        value = {"return": [{key: "grains" for key in one} for one in value["return"]]}
    return {"status": answer.status, "type": kind, "body": value}


def login(port, user):
    case = {"path": "/login", "json": {"username": user, "password": "secret-" + user[0], "eauth": "file"}}
    answer, text = send(port, case, {})
    session = answer.getheader("X-Auth-Token")
    case["path"] = "/token"
    answer, text = send(port, case, {})
    token = json.loads(text)[0]["token"] if answer.status == 200 else ""
    return session, token


def main():
    folder = tempfile.mkdtemp()
    etc = folder + "/etc"
    os.mkdir(etc)
    port, ret = free_port(), free_port()
    with open(HERE + "/master") as f:
        shared = f.read().replace("@DIR@", folder).replace("@PORT@", str(port))
    with open(etc + "/master", "w") as f:
        f.write(MASTER.format(dir=folder, publish=free_port(), ret=ret) + shared)
    publish = re.search(r"publish_port: (\d+)", open(etc + "/master").read())[1]
    shutil.copy(HERE + "/users", folder + "/users")
    with open(etc + "/minion", "w") as f:
        f.write(f"id: m1\nmaster: 127.0.0.1\nmaster_port: {ret}\npublish_port: {publish}\nroot_dir: {folder}/m1\npki_dir: {folder}/m1/pki\ncachedir: {folder}/m1/cache\nsock_dir: {folder}/m1/run\nlog_file: {folder}/m1/log\npidfile: {folder}/m1/pid\n")
    run = lambda name: subprocess.Popen([VENV + "/bin/python", VENV + "/bin/" + name, "-c", etc], stdout=open(f"{folder}/{name}.out", "w"), stderr=subprocess.STDOUT, start_new_session=True)
    processes = [run("salt-master")]
    try:
        time.sleep(8)
        processes.append(run("salt-minion"))
        processes.append(run("salt-api"))
        tokens, began = {}, time.time()
        while time.time() - began < 120:
            try:
                case = {"path": "/login", "json": {"username": "alice", "password": "secret-a", "eauth": "file"}}
                session = send(port, case, {})[0].getheader("X-Auth-Token")
                ping = {"path": "/", "user": "alice", "json": [{"client": "local", "tgt": "*", "fun": "test.ping"}]}
                if '"m1": true' in send(port, ping, {"alice": (session, "")})[1]:
                    break
            except OSError:
                pass
            time.sleep(2)
        else:
            sys.exit("salt-api does not answer: see " + folder)
        path = HERE + "/answers.json"
        answers = json.load(open(path)) if sys.argv[1:] else {}
        for user in ("alice", "bob", "carol"):
            tokens[user] = login(port, user)
        for case in tomllib.load(open(HERE + "/cases.toml", "rb"))["case"]:
            if sys.argv[1:] and case["name"] not in sys.argv[1:]:
                continue
            try:
                answer, text = send(port, case, tokens)
                answers[case["name"]] = record(answer, text, case)
            except TimeoutError:
                answers[case["name"]] = {"status": 0, "type": "", "body": "no answer"}
            print(case["name"], json.dumps(answers[case["name"]])[:200], flush=True)
        with open(path, "w") as f:
            json.dump(answers, f, indent=1)
            f.write("\n")
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGTERM)
        time.sleep(2)
        for process in processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


main()
