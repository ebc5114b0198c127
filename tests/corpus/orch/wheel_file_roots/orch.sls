a:
  salt.wheel:
    - name: file_roots.list_env
b:
  salt.wheel:
    - name: file_roots.read
    - path: good.sls
c:
  salt.wheel:
    - name: pillar_roots.list_env
