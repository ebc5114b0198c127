"""mails.py FOLDER: prints each message of a Maildir as a line of JSON, in the order of their arrival."""

import email
import email.policy
import json
import pathlib
import sys

for path in sorted(pathlib.Path(sys.argv[1]).iterdir(), key=lambda path: path.stat().st_mtime_ns):
    message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    attachments = {one.get_filename(): one.get_content() for one in message.iter_attachments()}
    found = {
        "from": message["Return-Path"],
        "subject": message["Subject"],
        "text": message.get_body().get_content().replace("\r\n", "\n").strip(),
        "encrypted": "using TLS" in message["Received"],
        "defects": [str(defect) for defect in message.defects],
        "attachments": {name: text if isinstance(text, str) else text.hex() for name, text in attachments.items()},
    }
    print(json.dumps(found))
