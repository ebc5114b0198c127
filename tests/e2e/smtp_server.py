"""smtp_server.py MODE [CERT KEY]: a mail server. MODE is clear, starttls or tls. Prints its port, and then each message as one JSON line."""

import email
import email.policy
import json
import ssl
import sys
import time

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

MODE = sys.argv[1]


def content(part):
    found = part.get_content()
    return found if isinstance(found, bytes) else found.encode()


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused"):
            return "550 5.1.1 there is no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        attachments = list(message.iter_attachments())
        found = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "encrypted": session.ssl is not None or MODE == "tls",
            "login": session.auth_data,
            "headers": {name: str(value) for name, value in message.items()},
            "text": message.get_body().get_content().replace("\r\n", "\n"),
            "attachments": [[one.get_filename(), content(one).hex()] for one in attachments],
            "defects": [str(defect) for part in message.walk() for defect in part.defects],
            "longest": max(map(len, envelope.original_content.split(b"\r\n"))),
        }
        print(json.dumps(found), flush=True)
        return "250 OK"


class AnyPort(Controller):
    """A controller that learns its port when the server listens."""

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


def authenticate(server, session, envelope, mechanism, data):
    is_right = data.password == b"planted-password"
    return AuthResult(success=is_right, handled=False, auth_data=data.login.decode() if is_right else None)


def main():
    settings = {"authenticator": authenticate, "auth_require_tls": MODE == "starttls"}
    context = None
    if MODE != "clear":
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
    if MODE == "starttls":
        settings.update(tls_context=context, require_starttls=True)
    own = {"ssl_context": context} if MODE == "tls" else {}
    controller = AnyPort(Handler(), hostname="127.0.0.1", port=0, **own, **settings)
    controller.start()
    print(controller.port, flush=True)
    time.sleep(600)


main()
