{% set version = salt['cmd.run']('nginx -v') %}
web:
  test.nop:
    - name: {{ version }}
