"""chat.py PORT: answers as Slack does, and prints the path and the data of each message as a line of JSON."""

import http.server
import json
import sys
import urllib.parse


class Chat(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"])).decode()
        print(json.dumps([self.path, dict(urllib.parse.parse_qsl(data))]), flush=True)
        answer = b'{"ok": true, "channel": "C1", "ts": "1", "message": {}}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Chat).serve_forever()
