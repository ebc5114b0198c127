"""An engine that fires `salt/autoscale/terminate` for each instance of an auto-scaling group that has ended.

A rule of Amazon EventBridge sends the messages `EC2 Instance Terminate Successful` to a queue of SQS, directly or by SNS. Options of
`engines:` are `queue` (its address), `prefix` (the ids of minions are `prefix` and the instance's id), `group` (other groups are ignored),
`region`, `endpoint_url`, and `keyid` with `key`, unless the machine has a role. It needs the package boto3.
"""
import json
import logging
import re

import boto3

import salt.utils.event

log = logging.getLogger(__name__)

ENDED = "EC2 Instance Terminate Successful"
INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")


def ended(body, group):
    """Returns the id of the instance that has ended, or None for another message."""
    message = json.loads(body)
    if "Message" in message:
        message = json.loads(message["Message"])
    detail = message.get("detail", {})
    if message.get("detail-type") != ENDED or (group and detail.get("AutoScalingGroupName") != group):
        return None
    instance = detail["EC2InstanceId"]
    if not INSTANCE.fullmatch(instance):
        raise ValueError("not the id of an instance: %r" % instance)
    return instance


def start(queue, prefix="", group=None, region=None, endpoint_url=None, keyid=None, key=None, tag="salt/autoscale/terminate"):
    sqs = boto3.client("sqs", region_name=region, endpoint_url=endpoint_url, aws_access_key_id=keyid, aws_secret_access_key=key)
    fire = salt.utils.event.get_master_event(__opts__, __opts__["sock_dir"]).fire_event
    while True:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        for message in answer.get("Messages", []):
            try:
                instance = ended(message["Body"], group)
            except (ValueError, KeyError, AttributeError, TypeError) as error:
                log.error("Ignoring a message of %s: %s", queue, error)
                instance = None
            if instance:
                fire({"id": prefix + instance}, tag)
            # Deleted after the event: a message that comes twice does no harm.
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
