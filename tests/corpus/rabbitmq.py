#!/usr/bin/python3
"""Replaces rabbitmqctl and rabbitmq-plugins in a throw-away root: Debian's RabbitMQ with Erlang has 34 MB and takes half a minute to start.
It gives the answers of RabbitMQ 3.10.8 that were recorded together with Salt's answers: /srv/said has every call with its answer. A call
that only reads gets the answer that was recorded after the same number of changing calls.

If /srv/server exists, it contains the process id of a RabbitMQ in separate namespaces. Then the call goes to that RabbitMQ, and its answer
is recorded in /srv/answers there.
"""
import fcntl, json, os, subprocess, sys

READING = ("list", "status", "cluster_status", "authenticate_user")
words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
command = words[1]
key = list(words)
if command in ("add_user", "change_password", "authenticate_user"):
    # Salt passes the password as an argument, Pinch on the standard input.
    password = words[3] if len(words) > 3 else sys.stdin.readline().rstrip("\n")
    key = words[:3] + ([password] if command == "authenticate_user" else [])
reads = command.startswith(READING)


def ask_server():
    with open("/srv/server") as file:
        enter = ["nsenter", "--target", file.read().strip(), "--net", "--mount", "--root", "env", "-C", "/"]
    done = subprocess.run([*enter, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    answer = {"words": key, "out": done.stdout, "err": done.stderr, "rc": done.returncode}
    append = ["sh", "-c", 'mkdir -p /srv/answers && cat >>"/srv/answers/$0"', os.path.basename(os.readlink("/srv/said"))]
    subprocess.run([*enter, *append], input=json.dumps(answer) + "\n", text=True, check=True)
    return answer


def recorded():
    with open("/srv/changes", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        changes = os.path.getsize("/srv/changes")
        if not reads:
            file.write(".")
    epoch, found = 0, []
    with open("/srv/said") as file:
        for line in file:
            answer = json.loads(line)
            if answer["words"] == key:
                found.append((epoch, answer))
            epoch += not answer["words"][1].startswith(READING)
    if not found:
        sys.exit(f"no answer to {key} was recorded")
    before = [answer for epoch, answer in found if epoch <= changes]
    return before[-1] if before else found[0][1]


answer = ask_server() if os.path.exists("/srv/server") else recorded()
sys.stdout.write(answer["out"])
sys.stderr.write(answer["err"])
sys.exit(answer["rc"])
