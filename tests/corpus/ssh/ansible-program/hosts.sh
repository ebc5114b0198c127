#!/bin/sh
[ "$1" = --list ] || exit 3
echo '{
  "servers": ["one.example.com"],
  "desktop": {"hosts": ["home"], "vars": {"color": "red"}},
  "computers": {"hosts": [], "children": ["desktop", "servers"], "vars": {"http_port": 80}},
  "_meta": {"hostvars": {
    "one.example.com": {"ansible_ssh_user": "one", "ansible_ssh_host": "127.0.0.1", "ansible_ssh_port": 22},
    "home": {"ansible_ssh_host": "12.34.56.78", "ansible_ssh_port": 23}
  }}
}'
