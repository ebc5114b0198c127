"""A driver of `_clouds` for tests: its machines are entries of a JSON file."""
import json
import os


def _load(provider):
    try:
        with open(provider["file"]) as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def _save(provider, machines):
    with open(provider["file"] + ".new", "w") as file:
        json.dump(machines, file)
    os.rename(provider["file"] + ".new", provider["file"])


def list_nodes(provider):
    return _load(provider)


def create(vm_, provider):
    if vm_["name"] in provider.get("refused", []):
        return {"Error": "no quota for " + vm_["name"]}
    machines = _load(provider)
    machine = {
        "id": "m-%d" % (len(machines) + 1), "image": vm_.get("image"), "size": vm_.get("size"), "state": "running",
        "public_ips": ["192.0.2.1"], "private_ips": [], "master": (vm_.get("minion") or {}).get("master"),
    }
    machines[vm_["name"]] = machine
    _save(provider, machines)
    return machine


def destroy(name, provider, call=None):
    machines = _load(provider)
    del machines[name]
    _save(provider, machines)
    return {"destroyed": name}


def avail_images(provider):
    return {"debian": {"version": 12}}


def stop(name, provider, call=None):
    machines = _load(provider)
    machines[name]["state"] = "stopped"
    _save(provider, machines)
    return True


def greet(provider, call=None, kwargs=None):
    return {"hello": (kwargs or {}).get("who", "you")}
