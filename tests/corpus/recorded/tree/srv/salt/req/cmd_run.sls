ok:
  cmd.run:
    - name: echo out; echo err >&2
bad:
  cmd.run:
    - name: echo failing; exit 3
st:
  cmd.run:
    - name: "echo 'changed=yes comment=\"did it\" x=1'"
    - stateful: True
