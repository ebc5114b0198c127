"""openstack_setup.py PASSWORD STEP: prepares the services that openstack_services.sh starts, whose user `admin` has this password. The step
`catalog` enters the services. The step `project` makes the project `tests`, which may have two servers, with its user, images, flavors and a
network, and prints them: {"auth_url", "username", "password", "project", "image", "large_image", "flavor", "huge_flavor", "network"}. The
image `large_image` needs more memory than the flavors have, and `huge_flavor` more disk space than the host has."""
import json
import sys
import time
import urllib.error
import urllib.request
import uuid

import pymysql

PASSWORD = sys.argv[1]
KEYSTONE = "http://127.0.0.1:5000/v3"
GLANCE = "http://127.0.0.1:9292"
NEUTRON = "http://127.0.0.1:9696"
NOVA = "http://127.0.0.1:8774/v2.1"
PLACEMENT = "http://127.0.0.1:8778"
DOMAIN = {"id": "default"}
INSTANCES_MAX = 2
# Seconds.
REQUEST_MAX = 120
START_MAX = 300
headers = {}


def call(method, url, body=None, **more):
    if not isinstance(body, (bytes, type(None))):
        body = json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **headers, **more}
    request = urllib.request.Request(url, data=body, method=method, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_MAX) as answer:
            return answer.headers, json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        sys.exit("%s %s: %s %s" % (method, url, error.code, error.read().decode()))


def make(url, key, /, **fields):
    return call("POST", url, {key: fields})[1][key]


def make_image(name, memory):
    """Makes an image that needs so many MiB of memory."""
    fields = {"name": name, "disk_format": "raw", "container_format": "bare", "visibility": "public", "min_ram": memory}
    image = call("POST", GLANCE + "/v2/images", fields)[1]["id"]
    call("PUT", "%s/v2/images/%s/file" % (GLANCE, image), b"disk", **{"Content-Type": "application/octet-stream"})


def log_in():
    password = {"user": {"name": "admin", "domain": DOMAIN, "password": PASSWORD}}
    identity = {"methods": ["password"], "password": password}
    scope = {"project": {"name": "admin", "domain": DOMAIN}}
    answer, _ = call("POST", KEYSTONE + "/auth/tokens", {"auth": {"identity": identity, "scope": scope}})
    headers["X-Auth-Token"] = answer["X-Subject-Token"]


def make_catalog():
    for kind, url in (("image", GLANCE), ("placement", PLACEMENT), ("compute", NOVA), ("network", NEUTRON)):
        service = make(KEYSTONE + "/services", "service", type=kind, name=kind)
        for interface in ("public", "internal", "admin"):
            make(KEYSTONE + "/endpoints", "endpoint", service_id=service["id"], interface=interface, region_id="RegionOne", url=url)


def make_project():
    project = make(KEYSTONE + "/projects", "project", name="tests", domain_id="default")["id"]
    user = make(KEYSTONE + "/users", "user", name="tests", domain_id="default", password=PASSWORD)["id"]
    roles = call("GET", KEYSTONE + "/roles?name=member")[1]["roles"]
    call("PUT", "%s/projects/%s/users/%s/roles/%s" % (KEYSTONE, project, user, roles[0]["id"]))
    return project


def report_agent():
    """Neutron only gives a port to a host whose agent has reported within the last minute. This report is valid for 100 years."""
    report = {
        "id": str(uuid.uuid4()), "agent_type": "Open vSwitch agent", "binary": "neutron-openvswitch-agent", "topic": "N/A", "host": "openstack",
        "admin_state_up": True, "created_at": "2020-01-01", "started_at": "2020-01-01", "heartbeat_timestamp": "2120-01-01", "load": 0,
        "configurations": json.dumps({"bridge_mappings": {}, "tunnel_types": [], "datapath_type": "system"}),
    }
    with pymysql.connect(host="127.0.0.1", user="root", database="neutron") as database:
        columns = ", ".join("`%s`" % column for column in report)
        values = ", ".join("%s" for _ in report)
        database.cursor().execute("INSERT INTO agents (%s) VALUES (%s)" % (columns, values), list(report.values()))
        database.commit()


def wait_for_host():
    """Waits until the scheduler has a host for a server."""
    candidates = PLACEMENT + "/allocation_candidates?resources=VCPU:1,MEMORY_MB:64,DISK_GB:1"
    version = {"OpenStack-API-Version": "placement 1.29"}
    end = time.monotonic() + START_MAX
    while not (call("GET", candidates, **version)[1]["allocation_requests"] and call("GET", NOVA + "/os-hypervisors")[1]["hypervisors"]):
        if time.monotonic() > end:
            sys.exit("Nova has no host for a server")
        time.sleep(1)


def main():
    log_in()
    if sys.argv[2] == "catalog":
        return make_catalog()
    project = make_project()
    report_agent()
    make(NOVA + "/flavors", "flavor", name="small", vcpus=1, ram=64, disk=1)
    make(NOVA + "/flavors", "flavor", name="huge", vcpus=1, ram=64, disk=10**6)
    make_image("debian", 0)
    make_image("large", 10**6)
    network = make(NEUTRON + "/v2.0/networks", "network", name="private", tenant_id=project)["id"]
    make(NEUTRON + "/v2.0/subnets", "subnet", network_id=network, tenant_id=project, ip_version=4, cidr="10.9.0.0/24", enable_dhcp=False)
    call("PUT", "%s/os-quota-sets/%s" % (NOVA, project), {"quota_set": {"instances": INSTANCES_MAX}})
    wait_for_host()
    print(json.dumps({
        "auth_url": KEYSTONE, "username": "tests", "password": PASSWORD, "project": "tests", "image": "debian", "large_image": "large",
        "flavor": "small", "huge_flavor": "huge", "network": "private",
    }), flush=True)


main()
