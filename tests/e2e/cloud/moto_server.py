"""moto_server.py: Amazon's API as moto simulates it, with signatures checked. Prints {"port", "id", "key", "image", "queue", "packages"}. An empty
line of its input prints the instances that are not gone: [{"id", "name", "token", "user_data"}]. Another line is sent to the queue."""
import base64
import json
import os
import sys

# The user and its key are made before signatures are checked.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "3"
import boto3  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


def main():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    url = "http://127.0.0.1:%d" % port

    def client(service, key=("x", "x")):
        return boto3.client(service, endpoint_url=url, region_name="us-east-1", aws_access_key_id=key[0], aws_secret_access_key=key[1])

    iam = client("iam")
    iam.create_user(UserName="tests")
    iam.put_user_policy(UserName="tests", PolicyName="all", PolicyDocument=json.dumps(POLICY))
    made = iam.create_access_key(UserName="tests")["AccessKey"]
    ec2 = client("ec2", (made["AccessKeyId"], made["SecretAccessKey"]))
    ec2.create_key_pair(KeyName="tests")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    sqs = client("sqs", (made["AccessKeyId"], made["SecretAccessKey"]))
    queue = sqs.create_queue(QueueName="ended")["QueueUrl"]
    print(json.dumps({"queue": queue, "packages": os.path.dirname(os.path.dirname(boto3.__file__)), "port": port, "id": made["AccessKeyId"], "key": made["SecretAccessKey"], "image": image}), flush=True)
    for line in sys.stdin:
        if line.strip():
            sqs.send_message(QueueUrl=queue, MessageBody=line.strip())
            continue
        found = []
        for page in ec2.get_paginator("describe_instances").paginate():
            for reservation in page["Reservations"]:
                for one in reservation["Instances"]:
                    if one["State"]["Name"] in ("terminated", "shutting-down"):
                        continue
                    tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags", [])}
                    data = ec2.describe_instance_attribute(InstanceId=one["InstanceId"], Attribute="userData")
                    text = data.get("UserData", {}).get("Value")
                    found.append({
                        "id": one["InstanceId"], "name": tags.get("Name"), "token": one.get("ClientToken"),
                        "user_data": base64.b64decode(text).decode() if text else None,
                    })
        print(json.dumps(found), flush=True)


main()
